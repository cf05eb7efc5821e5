"""What is known of a value without looking at its elements: shape and dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgrad.errors import DtypeError

__all__ = ["ArrayType", "array_type", "check_class", "type_of"]


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


_KNOWN: set[type] = {np.ndarray, np.memmap}


def check_class(value: Any) -> None:
    """Refuse arrays whose class gives operations another meaning: masked arrays, matrices.

    Raises
    ------
    DtypeError
        If ``value`` is such an array.
    """
    kind = type(value)
    if kind in _KNOWN or not isinstance(value, np.ndarray):
        return
    if isinstance(value, np.matrix) or hasattr(value, "mask"):
        raise DtypeError.subclass(kind)
    _KNOWN.add(kind)


def type_of(value: np.ndarray[Any, Any]) -> ArrayType:
    """Return the type of an array."""
    return array_type(value.shape, value.dtype)
