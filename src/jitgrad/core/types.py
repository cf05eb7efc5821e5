"""What is known of a value without looking at its elements: shape and dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["ArrayType", "array_type", "type_of"]


class ArrayType:
    """Shape and dtype of a value. Interned: equal types are the same object, so ``is`` compares them."""

    __slots__ = ("dtype", "inexact", "ndim", "shape", "size")

    shape: Final[tuple[int, ...]]
    dtype: Final[np.dtype[Any]]
    ndim: Final[int]
    size: Final[int]
    inexact: Final[bool]

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        size = 1
        for length in shape:
            size *= length
        self.size = size
        self.inexact = dtype.kind in "fc"

    def __repr__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return array_type, (self.shape, self.dtype)


_TYPES: dict[tuple[tuple[int, ...], np.dtype[Any]], ArrayType] = {}


def array_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> ArrayType:
    """Return the one ``ArrayType`` of this shape and dtype."""
    key = (shape, dtype)
    found = _TYPES.get(key)
    if found is None:
        found = _TYPES.setdefault(key, ArrayType(shape, dtype))
    return found


def type_of(value: np.ndarray[Any, Any]) -> ArrayType:
    """Return the type of an array."""
    return array_type(value.shape, value.dtype)
