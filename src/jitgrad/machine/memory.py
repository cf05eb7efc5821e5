"""Where a plan's values lie: in arrays of the caller's, in constants, or in one arena that buffers share by turns."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "Place", "Storage", "assign", "contiguous"]

Array = np.ndarray[Any, Any]

ALIGNMENT = 64  # bytes: a cache line


def contiguous(x: Any) -> Array:
    """Return an array that native code can read in place: ``x`` itself, if it is such."""
    array = np.asarray(x, order="C")
    return array if array.flags.aligned else array.copy()


class Storage:
    """A stretch of memory that one value is computed into, and of which others may be views.

    ``first`` and ``last`` are the steps of the plan between which what is in it is needed.
    """

    __slots__ = ("first", "kind", "last", "n_bytes", "offset", "slot")

    def __init__(self, kind: str, slot: int, n_bytes: int, first: int) -> None:
        self.kind = kind  # "input", "constant", "arena", "output" or "python"
        self.slot = slot
        self.n_bytes = n_bytes
        self.first = self.last = first
        self.offset = 0  # in the arena


class Place:
    """A value's storage, and an array of its shape and strides whose elements mean nothing.

    What NumPy makes of the array (a view, with its strides) is what the plan makes of the value.
    """

    __slots__ = ("array", "base", "storage")

    def __init__(self, storage: Storage, array: Array, base: int) -> None:
        self.storage = storage
        self.array = array
        self.base = base  # address at which the storage would begin

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the storage to the first element."""
        return int(self.array.__array_interface__["data"][0]) - self.base

    def view(self, array: Array) -> Place:
        """Return the place of a view of the array."""
        return Place(self.storage, array, self.base)


_SMALL = 4096  # bytes up to which stretches are used again for their own size only


def assign(storages: list[Storage]) -> int:
    """Give each storage of the arena its offset, such that no two that are needed at once overlap.

    Returns the bytes that the arena needs. Small ones take a free stretch of their size, large ones the smallest that
    holds them; what is free of these is joined again.
    """
    exact: dict[int, list[int]] = {}  # offsets of free small stretches, by size
    free: list[tuple[int, int]] = []  # offset, bytes
    busy: list[tuple[int, int, Storage]] = []  # by the step after which it is free
    size = 0
    for number, storage in enumerate(sorted(storages, key=lambda s: s.first)):
        returned: list[tuple[int, int]] = []
        while busy and busy[0][0] < storage.first:
            ended = heapq.heappop(busy)[2]
            need = _rounded(ended.n_bytes)
            if need <= _SMALL:
                exact.setdefault(need, []).append(ended.offset)
            else:
                returned.append((ended.offset, need))
        if returned:
            free = _merged(free + returned)
        need = _rounded(storage.n_bytes)
        if need <= _SMALL:
            offsets = exact.get(need)
            if offsets:
                storage.offset = offsets.pop()
            else:
                storage.offset, size = size, size + need
        else:
            fitting = [(length, offset) for offset, length in free if length >= need]
            if fitting:
                length, storage.offset = min(fitting)
                free.remove((storage.offset, length))
                if length > need:
                    free.append((storage.offset + need, length - need))
            else:
                storage.offset, size = size, size + need
        heapq.heappush(busy, (storage.last, number, storage))
    return size


def _rounded(n_bytes: int) -> int:
    return max(-(-n_bytes // ALIGNMENT), 1) * ALIGNMENT


def _merged(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for offset, length in sorted(stretches):
        if merged and sum(merged[-1]) == offset:
            merged[-1] = (merged[-1][0], merged[-1][1] + length)
        else:
            merged.append((offset, length))
    return merged
