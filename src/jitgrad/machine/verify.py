"""The verifier: whether a program can be run, whatever pass has made it."""

from __future__ import annotations

from jitgrad.machine.program import Program

__all__ = ["verify"]


def verify(program: Program) -> None:
    """Raise unless every value is defined once, and before it is used.

    Raises
    ------
    ValueError
        Saying which instruction uses or defines which value wrongly.
    """
    known = {*program.inputs, *program.constants, *program.arrays}
    n = len(program.types)
    for index, instruction in enumerate(program.instructions):
        for value in instruction.operands:
            if value not in known:
                raise ValueError(
                    f"instruction {index} ({instruction.op.name}) uses %{value}, which nothing has defined"
                )
        for value in instruction.results:
            if value in known:
                raise ValueError(
                    f"instruction {index} ({instruction.op.name}) defines %{value}, which is there already"
                )
            if not 0 <= value < n:
                raise ValueError(f"instruction {index} ({instruction.op.name}) defines %{value}, which has no type")
            known.add(value)
    for value in program.outputs:
        if value not in known:
            raise ValueError(f"%{value} is an output, and nothing has defined it")
