"""Memory for large results, used again.

The C library hands large blocks back to the operating system as soon as they are free, and the next one is paid for
by a page fault every 4 kB: a third of the time of a gradient over a million elements. So blocks that results have
died in are kept, up to a limit, for the next results of their size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["LIMIT", "Block", "empty"]

LIMIT = 128 << 20  # bytes that are kept free at the most

Array = np.ndarray[Any, Any]


class _Free:
    """The blocks that nobody uses, by size."""

    __slots__ = ("blocks", "n_bytes")

    def __init__(self) -> None:
        self.blocks: dict[int, list[tuple[Array, int]]] = {}
        self.n_bytes = 0


_free = _Free()


def _take(n_bytes: int) -> tuple[Array, int]:
    """Return memory of a size, and its address."""
    try:
        taken = _free.blocks[n_bytes].pop()
    except (KeyError, IndexError):
        memory = np.empty(n_bytes, np.uint8)
        return memory, memory.ctypes.data
    _free.n_bytes -= n_bytes
    return taken


class Block:
    """What a result is a view of: when the last view has died, the memory is free."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], memory: tuple[Array, int]) -> None:
        self.memory = memory
        address = self.memory[1]
        interface = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}
        self.__array_interface__ = interface

    def __del__(self, free: _Free = _free) -> None:
        n_bytes = self.memory[0].nbytes
        if free.n_bytes + n_bytes <= LIMIT:
            free.n_bytes += n_bytes
            free.blocks.setdefault(n_bytes, []).append(self.memory)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array of float64 or float32 elements, in memory that another may have died in."""
    n_bytes = dtype.itemsize
    for length in shape:
        n_bytes *= length
    return np.asarray(Block(shape, dtype, _take(n_bytes)))
