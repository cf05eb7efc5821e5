"""Dead code: what neither an output nor a guard depends on."""

from __future__ import annotations

from jitgrad.machine.program import GUARD, Instruction, Program

__all__ = ["drop_dead"]


def drop_dead(program: Program) -> Program:
    """Leave out the instructions whose results nothing uses."""
    live = [False] * len(program.types)
    for value in program.outputs:
        live[value] = True
    kept: list[Instruction] = []
    for instruction in reversed(program.instructions):
        results = instruction.results
        if instruction.op is GUARD or (live[results[0]] if len(results) == 1 else any(live[r] for r in results)):
            kept.append(instruction)
            for value in instruction.operands:
                live[value] = True
    kept.reverse()
    return program.with_instructions(kept)
