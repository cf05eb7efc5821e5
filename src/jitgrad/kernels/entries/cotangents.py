"""Cotangents between native code and Python: handing them over and adding to them."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.bars import add_to_bar
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    as_int,
    dtype_of,
    extent_of,
    free,
    from_int,
    inline,
    memcpy,
    nothing,
)
from jitgrad.kernels.intrinsics import load, store


@inline
def _same_layout(process, header, value, array):
    """Whether an array is contiguous and of the dtype and extent of a value that native code can add to."""
    dtype = load(value + 8 * L.VALUE_DTYPE)
    return dtype >= 0 and dtype_of(process, array) == dtype and extent_of(array) == load(value + 8 * L.VALUE_SIZE)


def accumulate(self, args, n_args):
    """``(header, value, array)``: add an array to a value's cotangent.

    Returns 0 when it is done; 1 when the array has become the cotangent, and must be kept alive; 2, with nothing done,
    where NumPy must do it.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    array = load(args + 16)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * as_int(load(args + 8))
    if not _same_layout(process, header, value, array):
        return from_int(2)
    state = load(value + 8 * L.VALUE_BAR_STATE)
    if state == L.BAR_NONE:
        store(value + 8 * L.VALUE_BAR, load(array + ARRAY_DATA))
        store(value + 8 * L.VALUE_BAR_STATE, L.BAR_BORROWED)
        return from_int(1)
    n = load(value + 8 * L.VALUE_SIZE)
    if n > L.SMALL and state == L.BAR_BORROWED:
        return from_int(2)  # one pass of NumPy over both, instead of a copy and a sum
    add_to_bar(value, load(value + 8 * L.VALUE_DTYPE), load(array + ARRAY_DATA))
    return from_int(0)


def state(self, args, n_args):
    """``(header, value)``: 8 times whether a value is active, plus the state of its cotangent."""
    header = load(load(args) + ARRAY_DATA)
    number = as_int(load(args + 8))
    if number < 0:
        return from_int(0)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * number
    active = number >= load(header + 8 * L.H_FIRST_VALUE) and load(value + 8 * L.VALUE_ACTIVE) != 0
    return from_int(load(value + 8 * L.VALUE_BAR_STATE) + (8 if active else 0))


def give(self, args, n_args):
    """``(header, value, array, state)``: make an array (contiguous, of the value's extent and dtype) its cotangent."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * as_int(load(args + 8))
    store(value + 8 * L.VALUE_BAR, load(load(args + 16) + ARRAY_DATA))
    store(value + 8 * L.VALUE_BAR_STATE, as_int(load(args + 24)))
    return nothing(process)


def take(self, args, n_args):
    """``(header, value, array)``: move the cotangent that native code owns into ``array`` and free it.

    ``array`` may be None: then the cotangent is dropped. Returns the state that the cotangent had.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * as_int(load(args + 8))
    state = load(value + 8 * L.VALUE_BAR_STATE)
    if state == L.BAR_OWNED:
        if load(args + 16) != load(process + 8 * L.P_NONE):
            dtype = load(value + 8 * L.VALUE_DTYPE)
            n_bytes = load(value + 8 * L.VALUE_SIZE) * (8 >> dtype)
            memcpy(load(load(args + 16) + ARRAY_DATA), load(value + 8 * L.VALUE_BAR), n_bytes)
        free(load(value + 8 * L.VALUE_BAR))
    store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    return from_int(state)
