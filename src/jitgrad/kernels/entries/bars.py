"""Cotangents that native code owns: making them, and adding to them."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import inline, malloc, memcpy, memset
from jitgrad.kernels.intrinsics import load, pointer_f4, pointer_f8, store


@inline
def open_bar(value, dtype, clear):
    """Make the cotangent at ``value`` one that can be added to. Returns whether it already held something."""
    state = load(value + 8 * L.VALUE_BAR_STATE)
    if state == L.BAR_OWNED or state == L.BAR_ARRAY:
        return True
    n_bytes = load(value + 8 * L.VALUE_SIZE) * (8 >> dtype)
    bar = malloc(n_bytes)
    if state == L.BAR_BORROWED:
        memcpy(bar, load(value + 8 * L.VALUE_BAR), n_bytes)
    elif clear:
        memset(bar, 0, n_bytes)
    store(value + 8 * L.VALUE_BAR, bar)
    store(value + 8 * L.VALUE_BAR_STATE, L.BAR_OWNED)
    return state == L.BAR_BORROWED or clear


@inline
def add_elements(dtype, target, source, n):
    """Add ``n`` elements at an address to those at another."""
    if dtype == 0:
        for i in range(n):
            pointer_f8(target)[i] += pointer_f8(source)[i]
    else:
        for i in range(n):
            pointer_f4(target)[i] += pointer_f4(source)[i]


@inline
def add_to_bar(value, dtype, source):
    """Add the elements at an address, contiguous and as many as those of ``value``, to its cotangent."""
    n = load(value + 8 * L.VALUE_SIZE)
    held = open_bar(value, dtype, False)
    bar = load(value + 8 * L.VALUE_BAR)
    if held:
        add_elements(dtype, bar, source, n)
    else:
        memcpy(bar, source, n * (8 >> dtype))
