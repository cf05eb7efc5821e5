"""How many holders an object has: it tells whether a write to it, or its end, would be noticed elsewhere."""

from __future__ import annotations

from sys import getrefcount

__all__ = ["holders"]

_beside = 0


def holders(thing: object) -> int:
    """Return how many references there are to an object, one of them being the caller's local variable."""
    return getrefcount(thing) - _beside


def _of_a_local() -> int:
    thing = object()
    return holders(thing)


# What the call itself holds, measured: interpreters differ in it.
_beside = _of_a_local() - 1
