"""Aliases: operations that only give a value another id, for the sake of the trace, are left out."""

from __future__ import annotations

from jitgrad.core.op import REGISTRY
from jitgrad.machine.program import Instruction, Program

__all__ = ["without_aliases"]


def without_aliases(program: Program) -> Program:
    """Let everything that uses an alias use what it is an alias of.

    But not a Python number, which an alias makes an array of: that widens dtypes, the number does not.
    """
    names = (REGISTRY["alias"], REGISTRY["stop_gradient"])
    same: dict[int, int] = {}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        instruction = instruction.renamed(same)
        if instruction.op in names and instruction.operands[0] not in program.weak:
            same[instruction.results[0]] = instruction.operands[0]
        else:
            kept.append(instruction)
    return program.with_instructions(kept, tuple([same.get(value, value) for value in program.outputs]))
