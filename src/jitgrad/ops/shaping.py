"""Shape: reshape and its kin, axes, broadcasting, joining and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.op import Array, Op
from jitgrad.core.protocol import answers, method
from jitgrad.core.types import ArrayType

reshape_op = Op(
    "reshape",
    lambda x, *, shape: np.reshape(x, shape),
    ("x",),
    rules={"x": lambda g, x_t: reshape_op(g, shape=x_t.shape)},
    linear="each",
    view=True,
    node="View",
    samples=lambda rng: [((rng.normal(size=(3, 4)),), {"shape": (2, 6)})],
)

broadcast_to_op = Op(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    ("x",),
    rules={"x": lambda g, x_t: sum_to(g, shape=x_t.shape)},
    linear="each",
    node="Expand",
    samples=lambda rng: [((rng.normal(size=(3, 1)),), {"shape": (2, 3, 4)})],
)


def _sum_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        extra + d for d, length in enumerate(shape) if length == 1 and x.shape[extra + d] != 1
    )
    return np.asarray(np.sum(x, axis=axes)).reshape(shape)


sum_to = Op(
    "sum_to",
    _sum_to,
    ("x",),
    rules={"x": lambda g, x_t: broadcast_to_op(reshape_op(g, shape=_aligned(g.shape, x_t)), shape=x_t.shape)},
    linear="each",
    node="SumToSize",
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"shape": (3, 1)})],
    doc="The transpose of `broadcast_to`: sums over the axes that broadcasting would stretch.",
)


def _aligned(shape: tuple[int, ...], kind: ArrayType) -> tuple[int, ...]:
    return (1,) * (kind.ndim - len(shape)) + shape


def _unstack_rule(g: Any, k: int, *, axis: int) -> Any:
    return g[(slice(None),) * axis + (k,)]


stack_op = Op(
    "stack",
    lambda *xs, axis: np.stack(xs, axis),
    None,
    rules={"xs": _unstack_rule},
    linear="jointly",
    samples=lambda rng: [((rng.normal(size=(3, 4)), rng.normal(size=(3, 4))), {"axis": 1})],
)


@answers(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays of one shape along a new axis, as `numpy.stack`."""
    return stack_op(*arrays, axis=axis)


@answers(np.broadcast_to)
def broadcast_to(array: Any, shape: Any) -> Any:
    """Broadcast to a shape, as `numpy.broadcast_to`."""
    return broadcast_to_op(array, shape=tuple(shape) if isinstance(shape, Sequence) else (shape,))
