"""Common subexpressions: an operation on the same operands with the same parameters is done once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from jitgrad.machine.program import GUARD, Instruction, Program

__all__ = ["share_common"]


def key_of(value: Any) -> Hashable:
    """Return something hashable that is equal for equal parameters, and unequal for ``1``, ``1.0`` and ``True``."""
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, dict):
        return ("dict", tuple([(name, key_of(item)) for name, item in value.items()]))
    if isinstance(value, (tuple, list)):
        return (type(value), tuple([key_of(item) for item in value]))
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    if isinstance(value, float):
        return (float, value.hex())  # zeros have signs
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))  # the parameters keep it alive
    return (type(value), value)


def share_common(program: Program) -> Program:
    """Let the first of equal operations stand for all of them."""
    same: dict[int, int] = {}
    known: dict[Hashable, int] = {}
    for value, constant in program.constants.items():
        first = known.setdefault(key_of(constant), value)
        if first != value:
            same[value] = first
    seen: dict[Hashable, Instruction] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        instruction = instruction.renamed(same)
        params = instruction.params
        key = (instruction.op, instruction.operands, key_of(params) if params else None)
        earlier = seen.get(key)
        if earlier is None:
            seen[key] = instruction
            kept.append(instruction)
        elif instruction.op is not GUARD:
            same.update(zip(instruction.results, earlier.results, strict=True))
    return program.with_instructions(kept, tuple([same.get(value, value) for value in program.outputs]))
