"""A program: what a tape has recorded, as a list of instructions that can be run on other inputs.

Unlike a tape it never grows and holds no results. Passes make new programs of it; a plan is made from the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

import numpy as np

from jitgrad.core.capture import Capture, Guard
from jitgrad.core.location import Location, resolve
from jitgrad.core.op import OPS, Op
from jitgrad.core.tape import Tape
from jitgrad.core.types import ArrayType
from jitgrad.kernels import layout as L

__all__ = ["FUSED", "GUARD", "Instruction", "Marker", "Program", "program_of"]

Array = np.ndarray[Any, Any]


class Marker:
    """What stands for an op in an instruction that no op describes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


GUARD = Marker("guard")  # its operand must be what it was when the program was recorded
FUSED = Marker("fused")  # one loop over several operations


@dataclass(slots=True, eq=False)
class Instruction:
    """One operation on numbered values."""

    op: Op | Marker
    operands: tuple[int, ...]
    params: dict[str, Any]
    results: tuple[int, ...]
    code: CodeType | None  # where it stands in the user's source; None in a program that was loaded from a file
    lasti: int

    def renamed(self, same: dict[int, int]) -> Instruction:
        """Return the same operation on the values that stand for its operands."""
        if not same or same.keys().isdisjoint(self.operands):
            return self
        return replace(self, operands=tuple([same.get(value, value) for value in self.operands]))

    @property
    def location(self) -> Location | None:
        """The line of the user's code that it stands for, if it is known."""
        return None if self.code is None else resolve(self.code, self.lasti)


@dataclass(slots=True, eq=False)
class Program:
    """Instructions over numbered values, in an order in which they can run.

    Parameters
    ----------
    types : list of ArrayType
        Of every value.
    inputs : tuple of int
        The values that a call provides, in order.
    weak : set of int
        The inputs and constants that stand for Python numbers, which do not widen an array's dtype.
    constants : dict
        Values that are in the program: Python numbers, and arrays that nobody writes to.
    arrays : dict
        Values that are arrays of the user's, read anew at every call.
    instructions : list of Instruction
        What is to be done.
    outputs : tuple of int
        The values that a call returns.
    """

    types: list[ArrayType]
    inputs: tuple[int, ...]
    weak: set[int]
    constants: dict[int, Any]
    arrays: dict[int, Array]
    instructions: list[Instruction]
    outputs: tuple[int, ...]
    _uniform: dict[int, float | None] = field(default_factory=dict, init=False, repr=False)

    def uniform(self, value: int) -> float | None:
        """Return the real number that a constant is at every position, if it is one."""
        if value not in self._uniform:
            self._uniform[value] = _uniform(self.constants.get(value))
        return self._uniform[value]

    def with_instructions(self, instructions: list[Instruction], outputs: tuple[int, ...] | None = None) -> Program:
        """Return a program of other instructions over the same values."""
        return replace(self, instructions=instructions, outputs=self.outputs if outputs is None else outputs)

    def __len__(self) -> int:
        """Return the number of instructions."""
        return len(self.instructions)


def _uniform(constant: Any) -> float | None:
    if constant is None:
        return None
    array = np.asarray(constant)
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    first = array.flat[0]
    # by their bits: zeros have signs, and NaN is NaN
    return float(first) if array.tobytes() == np.full(array.shape, first).tobytes() else None


def _rows(tape: Tape) -> Iterator[list[int]]:
    for index in range(len(tape)):
        yield tape.row(index)


def _instructions(tape: Tape, guards: Sequence[Guard]) -> Iterator[Instruction]:
    pending = list(reversed(guards))
    for index, row in enumerate(_rows(tape)):
        while pending and pending[-1].row <= index:
            yield _guard(pending.pop())
        first = row[L.ROW_RESULT]
        yield Instruction(
            OPS[row[L.ROW_KERNEL] >> 1],
            tuple(tape.operands_of(row)),
            tape.params_of(row),
            tuple(range(first, first + row[L.ROW_N_RESULTS])),
            tape.codes[row[L.ROW_CODE]],
            row[L.ROW_LASTI],
        )
    while pending:
        yield _guard(pending.pop())


def _guard(guard: Guard) -> Instruction:
    return Instruction(GUARD, (guard.value,), {"seen": guard.seen}, (), guard.code, guard.lasti)


def program_of(tape: Tape, capture: Capture, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
    """Return the program that a tape has captured."""
    return Program(
        list(tape.types),
        tuple(inputs),
        set(capture.weak),
        dict(capture.constants),
        dict(capture.arrays),
        list(_instructions(tape, capture.guards)),
        tuple(outputs),
    )
