"""What reductions and their kin share: names of axes, shapes of results, keywords that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.ops.shaping import reshape_op

__all__ = [
    "NO_VALUE",
    "axes_of",
    "axis_of",
    "count_of",
    "dtype_of",
    "kept_shape",
    "lift",
    "max_over",
    "refuse",
    "sum_over",
]

NO_VALUE: Any = np._NoValue  # NumPy's own mark of a keyword that was not given

# (array, axes, dtype, out, keepdims): a third of the overhead of np.sum and np.max
sum_over: Any = np.add.reduce
max_over: Any = np.maximum.reduce


def refuse(function: str, **keywords: Any) -> None:
    """Raise for keywords of NumPy's that were given, but that have no meaning for recorded operations."""
    for key, value in keywords.items():
        if value is not None and value is not NO_VALUE:
            reason = (
                "a recorded operation makes a new tensor; assign its result instead"
                if key == "out"
                else "only NumPy's default is supported; leave it out"
            )
            raise TypeError(f"{function}() takes no {key}= in jitgrad: {reason}.")


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that ``axis`` (None, an int or a tuple) names, none negative, in order."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, ndim)))


def axis_of(axis: Any, ndim: int) -> int:
    """Return the one axis that ``axis`` names, not negative."""
    return int(np.lib.array_utils.normalize_axis_index(axis, ndim))


def dtype_of(dtype: Any) -> Any:
    """Return what ``dtype=`` asks for as a dtype, or None."""
    return None if dtype is None else np.dtype(dtype)


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a reduction's result with ``keepdims=True``."""
    return tuple([1 if d in axes else length for d, length in enumerate(shape)])


def lift(g: Any, kind: ArrayType, axes: tuple[int, ...]) -> Any:
    """Give a reduction's result, or its cotangent, a shape that broadcasts against the operand."""
    if g.ndim == 0 or g.ndim == kind.ndim:
        return g
    shape = kept_shape(kind.shape, axes)
    return reshape_op(g, shape=shape) if type(g) is Tensor else g.reshape(shape)


def count_of(x: Any, axes: tuple[int, ...]) -> int:
    """Return how many elements of an array, tensor or type each result of a reduction is made of."""
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return count
