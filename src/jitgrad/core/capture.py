"""Capture: what a tape remembers besides, if it is to be replayed on other inputs.

Such a tape records every operation on a traced value, whether or not it has a derivative, every value that
comes from outside, and every look that Python takes at a value: a guard, for what Python did next depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jitgrad.core.location import resolve, user_frame
from jitgrad.core.tensor import Tensor
from jitgrad.errors import JitTypeError

if TYPE_CHECKING:
    from jitgrad.core.tape import Tape

__all__ = ["Capture", "Guard", "capture_of", "observe"]

Array = np.ndarray[Any, Any]


class Guard(NamedTuple):
    """Python has looked at a value after ``row`` rows, and has seen ``seen``, at a place in the user's code."""

    row: int
    value: int
    seen: Array
    code: Any
    lasti: int


class Capture:
    """The values that came from outside while a tape recorded, and the guards.

    Arrays are known by identity: a replay reads them anew. But one that the traced function itself has written to
    stands, at each use, for what was in it then.
    """

    __slots__ = ("_latest", "_seen", "arrays", "constants", "guards", "weak")

    def __init__(self) -> None:
        self.weak: set[int] = set()  # inputs that are Python numbers: they do not widen an array's dtype
        self.constants: dict[int, Any] = {}  # Python numbers, and arrays that nobody will write to, by value id
        self.arrays: dict[int, Array] = {}  # the user's arrays, by value id
        self.guards: list[Guard] = []
        self._seen: dict[int, Array] = {}  # what was in each when it came in, by value id
        self._latest: dict[int, int] = {}  # by id of the array, its value id

    def enter(self, tape: Tape, argument: Any) -> int:
        """Return the value id of an operand that was computed outside of the tape."""
        source = argument
        if type(argument) is Tensor:
            source = argument._value
            if argument._tape is not None or (argument._leaf is not None and argument._leaf.requires_grad):
                frame = user_frame(3)
                location = resolve(frame.f_code, frame.f_lasti)
                raise JitTypeError.outside_tensor((location.file, location.line))
            if argument._leaf is None:  # nobody writes to it
                value = tape.define(source)
                tape.kept[value] = self.constants[value] = source
                return value
        if type(source) is not np.ndarray:
            value = tape.define(np.asarray(source))
            self.constants[value] = source
            if isinstance(source, (bool, int, float, complex)) and not isinstance(source, np.generic):
                self.weak.add(value)
            return value
        known = self._latest.get(id(source))
        if known is not None:
            if _same(self._seen[known], source):
                return known
            self.constants[known] = self._seen[known]  # it was written to while the function ran
            self.arrays.pop(known, None)
        copy = source.copy(order="K")
        value = tape.define(copy)
        tape.kept[value] = copy
        self._seen[value] = copy
        self._latest[id(source)] = value
        if known is None:
            self.arrays[value] = source
        else:
            self.constants[value] = copy
        return value

    def operands(self, args: Sequence[Any]) -> list[Any]:
        """Return what an op runs on: arrays for tensors, numbers for those that stand for numbers."""
        return [
            (arg._value.item() if arg._vid in self.weak else arg._value) if type(arg) is Tensor else arg for arg in args
        ]

    def settle(self) -> None:
        """After the trace: arrays that were written to in it are constants; forget the copies of all others."""
        for value, array in list(self.arrays.items()):
            if not _same(self._seen[value], array):
                self.constants[value] = self._seen[value]
                del self.arrays[value]
        self._seen.clear()
        self._latest.clear()

    def look(self, tape: Tape, tensor: Tensor) -> None:
        """Record that Python looks at a value."""
        frame = user_frame(3)
        code = frame.f_code
        tape.codes[id(code)] = code
        self.guards.append(Guard(len(tape), tensor._vid, tensor._value.copy(), code, frame.f_lasti))


def _same(x: Array, y: Array) -> bool:
    """Whether two arrays of one shape and dtype have the same bits."""
    if x.dtype.hasobject:
        return False
    return bool(x.tobytes() == y.tobytes())


def capture_of(value: Any) -> Capture | None:
    """Return the capture that a traced value belongs to, if any."""
    if type(value) is not Tensor or value._vid < 0:
        return None
    tape = value._tape
    return None if tape is None or tape.ended else tape.capture


def observe(tensor: Tensor) -> Array:
    """Return the array of a tensor to code that decides by it: under capture, a guard."""
    capture = capture_of(tensor)
    if capture is not None and tensor._tape is not None:
        capture.look(tensor._tape, tensor)
    return tensor._value
