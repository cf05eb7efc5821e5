"""Algebra: operations that do nothing are left out, and dear ones are written as cheap ones.

Only what is exact for every number, NaN, infinities and both zeros among them: ``x + 0`` is not ``x`` if that is -0.
"""

from __future__ import annotations

from dataclasses import replace

from jitgrad.core.op import REGISTRY
from jitgrad.machine.program import Instruction, Program

__all__ = ["simplify"]

# What is left of an operation on a value and a number: the value, or another operation on the value.
# (Not ``x ** 0.5``: the square root of -inf is NaN, the power is inf.)
_RIGHT: dict[tuple[str, float], str | None] = {
    ("multiply", 1.0): None,
    ("multiply_no_nan", 1.0): None,
    ("multiply_absorbing", 1.0): None,
    ("divide", 1.0): None,
    ("power", 1.0): None,
    ("subtract", 0.0): None,
    ("multiply", -1.0): "negative",
    ("divide", -1.0): "negative",
    ("power", 2.0): "square",
    ("power", -1.0): "reciprocal",
}
_LEFT: dict[tuple[str, float], str | None] = {
    ("multiply", 1.0): None,
    ("multiply_no_nan", 1.0): None,
    ("multiply", -1.0): "negative",
}


def simplify(program: Program) -> Program:
    """Rewrite instructions whose operands are particular numbers."""
    same: dict[int, int] = {}
    kept: list[Instruction] = []
    negated: dict[int, int] = {}  # by the result of a negation, its operand
    numbers = {value: number for value in program.constants if (number := program.uniform(value)) is not None}
    minus_zero = {value for value, number in numbers.items() if number == 0.0 and str(number) == "-0.0"}
    types = program.types
    for instruction in program.instructions:
        instruction = instruction.renamed(same)
        operands = instruction.operands
        name = instruction.op.name
        if len(operands) == 2 and len(instruction.results) == 1:
            result = instruction.results[0]
            for table, number, other in ((_RIGHT, 1, 0), (_LEFT, 0, 1)):
                found = numbers.get(operands[number])
                if found is None or operands[number] in minus_zero or (name, found) not in table:
                    continue
                if types[result] is not types[operands[other]] or operands[other] in program.weak:
                    break  # it also broadcasts or changes the dtype, or makes an array of a Python number
                rest = table[name, found]
                if rest is None:
                    same[result] = operands[other]
                else:
                    instruction = _rewritten(instruction, rest, (operands[other],))
                break
            if instruction.results[0] in same:
                continue
            operands, name = instruction.operands, instruction.op.name
        if name == "negative":
            inner = negated.get(operands[0])
            if inner is not None and types[inner] is types[instruction.results[0]]:
                same[instruction.results[0]] = inner
                continue
            if operands[0] not in program.weak:
                negated[instruction.results[0]] = operands[0]
        elif name == "add" and operands[1] in negated:
            instruction = _rewritten(instruction, "subtract", (operands[0], negated[operands[1]]))
        elif name == "subtract" and operands[1] in negated:
            instruction = _rewritten(instruction, "add", (operands[0], negated[operands[1]]))
        kept.append(instruction)
    return program.with_instructions(kept, tuple([same.get(value, value) for value in program.outputs]))


def _rewritten(instruction: Instruction, name: str, operands: tuple[int, ...]) -> Instruction:
    return replace(instruction, op=REGISTRY[name], operands=operands, params={})
