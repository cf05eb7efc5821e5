"""Who else holds an object, and what is in an array that others may write to."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from jitgrad.kernels.memory import Block

__all__ = ["Contents", "holders", "is_alone"]

_beside = 0


def holders(thing: object) -> int:
    """Return how many references there are to an object, one of them being the caller's local variable."""
    return getrefcount(thing) - _beside


def _of_a_local() -> int:
    thing = object()
    return holders(thing)


# What the call itself holds, measured: interpreters differ in it.
_beside = _of_a_local() - 1


def is_alone(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether only our caller, with one variable, holds an array and its memory."""
    if holders(array) > 2:  # the caller's variable and ours
        return False
    base: Any = array.base
    if isinstance(base, Block) or (type(base) is np.ndarray and base.flags.owndata):
        return holders(base) == 2  # ours and the array's
    return bool(array.flags.owndata)


_SAMPLES = 64


class Contents:
    """What is in a NumPy array that belongs to the user: known by a sample of its elements, since NumPy tells nobody.

    Stands for a `Version` of an array too large to be copied whenever a rule will need it again.
    """

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @property
    def count(self) -> int:
        """A number that changes, all but surely, when the array is written to as a whole or at one of its ends."""
        step = max(1, self.array.size // _SAMPLES)
        sample = self.array.reshape(-1)[::step] if self.array.flags.c_contiguous else self.array.flat[::step]
        return hash((sample.tobytes(), self.array.flat[-1].tobytes()))
