"""Constant folding: what depends on nothing that a call may change is computed once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jitgrad.core.op import Op
from jitgrad.machine.program import GUARD, Instruction, Program

__all__ = ["fold_constants"]


def fold_constants(program: Program) -> Program:
    """Run the operations all of whose operands are constants; drop guards that can only hold."""
    constants = dict(program.constants)
    kept: list[Instruction] = []
    for instruction in program.instructions:
        op = instruction.op
        if not all(value in constants for value in instruction.operands):
            kept.append(instruction)
            continue
        if op is GUARD:
            continue
        if not isinstance(op, Op):
            raise TypeError(f"{op!r} is no operation")
        out = op.forward(*[constants[value] for value in instruction.operands], **instruction.params)
        for result, array in zip(instruction.results, out if op.n_results > 1 else (out,), strict=True):
            constants[result] = np.asarray(array)
    return replace(program, instructions=kept, constants=constants)
