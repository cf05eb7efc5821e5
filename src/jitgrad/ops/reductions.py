"""Reductions over axes, and cumulative ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.op import Op
from jitgrad.core.protocol import answers, answers_reduce, method
from jitgrad.core.types import ArrayType
from jitgrad.ops.casting import asarray
from jitgrad.ops.shaping import broadcast_to_op, reshape_op


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, ndim)))


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if d in axes else length for d, length in enumerate(shape))


def spread(g: Any, kind: ArrayType, axes: tuple[int, ...]) -> Any:
    """Give each element of a reduction's operand its result's cotangent."""
    return broadcast_to_op(reshape_op(g, shape=_kept(kind.shape, axes)), shape=kind.shape)


sum_op = Op(
    "sum",
    lambda x, *, axes, keepdims: np.sum(x, axis=axes, keepdims=keepdims),
    ("x",),
    rules={"x": lambda g, x_t, *, axes: spread(g, x_t, axes)},
    linear="each",
    samples=lambda rng: [
        ((rng.normal(size=(3, 4, 2)),), {"axes": axes, "keepdims": keepdims})
        for axes in ((0, 1, 2), (1,), (0, 2))
        for keepdims in (False, True)
    ],
)


@method("sum")
@answers_reduce(np.add)
@answers(np.sum)
def sum(a: Any, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A001
    """Sum of elements over axes, as `numpy.sum`."""
    a = asarray(a)
    return sum_op(a, axes=_axes(axis, a.ndim), keepdims=keepdims)
