"""Fusion: elementwise operations over one shape, and sums of them, become one loop.

What is between them never reaches memory. Groups are grown in program order; an operation joins the group of
its shape unless something outside of the group stands between them.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import Op
from jitgrad.core.protocol import OPERAND
from jitgrad.kernels import layout as L
from jitgrad.kernels.fused import Operation, Reference
from jitgrad.machine.program import FUSED, Instruction, Program

__all__ = ["fuse"]

MAX_OPERATIONS = 64
MAX_DEAR = 24  # of them, such as are functions of `jitgrad.kernels.vmath`
MAX_SCALARS = 256  # operations on single numbers up to which these are fused

_LETTERS = {np.dtype(np.float64): "d", np.dtype(np.float32): "f", np.dtype(np.bool_): "?"}
_PREDICATES = {
    "less": "olt",
    "less_equal": "ole",
    "greater": "ogt",
    "greater_equal": "oge",
    "equal": "oeq",
    "not_equal": "une",
}
_LOGIC = {
    "logical_and": "and",
    "bitwise_and": "and",
    "logical_or": "or",
    "bitwise_or": "or",
    "logical_xor": "xor",
    "bitwise_xor": "xor",
    "logical_not": "not",
    "invert": "not",
}


class _Group:
    """Operations that will be one loop."""

    __slots__ = ("after", "dear", "index", "members", "reads", "shape", "sums")

    def __init__(self, index: int, shape: tuple[int, ...]) -> None:
        self.index = index
        self.shape = shape
        self.members: list[tuple[Instruction, Operation]] = []
        self.sums: list[Instruction] = []
        self.reads: set[int] = set()  # values from outside
        self.dear = 0
        self.after = 0  # the groups, as bits, that it depends on


class _Fuser:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.types = program.types
        self.groups: list[_Group] = []
        self.open: dict[tuple[int, ...], _Group] = {}
        self.member: dict[int, _Group] = {}  # by value
        self.taint: dict[int, int] = {}  # by value, the groups that lie before it, as bits
        self.nodes: list[_Group | Instruction] = []

    def run(self) -> Program:
        scalars = sum(1 for i in self.program.instructions if i.results and self.types[i.results[0]].size == 1)
        self.fuses_scalars = scalars <= MAX_SCALARS
        for instruction in self.program.instructions:
            if not self._join(instruction):
                self._alone(instruction)
        return self._assembled()

    # -- growing groups ----------------------------------------------------------------------------------------

    def _before(self, instruction: Instruction) -> int:
        """The groups that must have run before an instruction does."""
        bits = 0
        for value in instruction.operands:
            group = self.member.get(value)
            bits |= self.taint.get(value, 0) | (1 << group.index if group is not None else 0)
        return bits

    def _alone(self, instruction: Instruction) -> None:
        bits = self._before(instruction)
        for value in instruction.results:
            self.taint[value] = bits
        self.nodes.append(instruction)

    def _join(self, instruction: Instruction) -> bool:
        op = instruction.op
        if not isinstance(op, Op) or len(instruction.results) != 1:
            return False
        if op.name == "sum":
            return self._join_sum(instruction)
        described = self.types[instruction.results[0]]
        if described.size == 1 and not self.fuses_scalars:
            return False
        operation = self._operation(op, instruction)
        if operation is None:
            return False
        dear = isinstance(op, Elementwise) and isinstance(op.value, str)
        group = self.open.get(described.shape)
        if group is None or not self._fits(group, instruction, dear):
            group = self.open[described.shape] = _Group(len(self.groups), described.shape)
            self.groups.append(group)
            self.nodes.append(group)
        self._add(group, instruction)
        group.members.append((instruction, operation))
        group.dear += dear
        return True

    def _fits(self, group: _Group, instruction: Instruction, dear: bool) -> bool:
        if len(group.members) >= MAX_OPERATIONS or group.dear + dear > MAX_DEAR:
            return False
        outside = {value for value in instruction.operands if self.member.get(value) is not group}
        if len(group.reads | outside) > L.MAX_POINTERS // 2:
            return False
        for value in outside:
            if self.taint.get(value, 0) >> group.index & 1:
                return False  # it depends on the group, through something that is not in it
            other = self.member.get(value)
            if other is not None and other.after >> group.index & 1:
                return False
        return True

    def _add(self, group: _Group, instruction: Instruction) -> None:
        for value in instruction.operands:
            other = self.member.get(value)
            if other is not group:
                group.reads.add(value)
                group.after |= self.taint.get(value, 0)
                if other is not None:
                    group.after |= other.after | 1 << other.index
        result = instruction.results[0]
        self.member[result] = group
        self.taint[result] = group.after

    def _join_sum(self, instruction: Instruction) -> bool:
        (value,) = instruction.operands
        group = self.member.get(value)
        result = self.types[instruction.results[0]]
        kind = self.types[value]
        if group is None or result.size != 1 or kind.dtype != result.dtype or self.open.get(group.shape) is not group:
            return False
        if kind.size <= 1 or len(group.sums) >= 4:
            return False
        group.sums.append(instruction)
        result_id = instruction.results[0]
        self.taint[result_id] = group.after | 1 << group.index  # of use outside only: the loop must have ended
        return True

    # -- operations --------------------------------------------------------------------------------------------

    def _operation(self, op: Op, instruction: Instruction) -> Operation | None:
        """Say what an instruction does to the elements at one position; None if it is not of that kind."""
        result = self.types[instruction.results[0]]
        letter = _LETTERS.get(result.dtype)
        if letter is None:
            return None
        if op.name in _PREDICATES or op.name in _LOGIC:
            return self._discrete(op, instruction)
        if not isinstance(op, Elementwise) or letter == "?":
            return None
        kinds = [letter] * len(instruction.operands)
        if op.name == "where":
            kinds[0] = "?"
            references = self._references(instruction.operands, kinds)
            return None if references is None else Operation("select", "", references, letter)
        references = self._references(instruction.operands, kinds)
        return None if references is None else Operation("call", op.assembly(letter)[0], references, letter)

    def _discrete(self, op: Op, instruction: Instruction) -> Operation | None:
        if instruction.params["keywords"]:
            return None
        operands = iter(instruction.operands)
        arguments = [next(operands) if item is OPERAND else item for item in instruction.params["call"]]
        letters = {
            _LETTERS.get(self.types[value].dtype) for value in instruction.operands if value not in self.program.weak
        }
        if len(letters) != 1 or None in letters:
            return None
        (letter,) = letters
        if (op.name in _LOGIC) != (letter == "?"):
            return None
        references: list[Reference] = []
        for argument, item in zip(arguments, instruction.params["call"], strict=True):
            if item is OPERAND:
                found = self._references((argument,), [str(letter)])
                if found is None:
                    return None
                references += found
            elif isinstance(argument, (int, float)) and not isinstance(argument, bool):
                references.append(("number", float(argument).hex()))
            else:
                return None
        if all(kind == "number" for kind, _ in references):
            return None
        if op.name in _LOGIC:
            return Operation("logic", _LOGIC[op.name], tuple(references), "?")
        return Operation("compare", _PREDICATES[op.name], tuple(references), "?")

    def _references(self, values: tuple[int, ...], letters: list[str]) -> tuple[Reference, ...] | None:
        """Refer to operands by value id, for now; to Python numbers by their bits."""
        references: list[Reference] = []
        for value, letter in zip(values, letters, strict=True):
            constant = self.program.constants.get(value)
            if value in self.program.weak:
                if constant is None or isinstance(constant, complex):
                    if letter != "d" or constant is not None:
                        return None
                    references.append(("input", value))
                    continue
                references.append(("number", float(constant).hex()))
            elif _LETTERS.get(self.types[value].dtype) == letter:
                number = self.program.uniform(value)
                references.append(("input", value) if number is None else ("number", number.hex()))
            else:
                return None
        return tuple(references)

    # -- putting it together -----------------------------------------------------------------------------------

    def _assembled(self) -> Program:
        used: dict[int, int] = {}
        for instruction in self.program.instructions:
            for value in instruction.operands:
                used[value] = used.get(value, 0) + 1
        for value in self.program.outputs:
            used[value] = used.get(value, 0) + 1
        instructions: list[Instruction] = []
        for node in self._ordered():
            if isinstance(node, Instruction):
                instructions.append(node)
            elif len(node.members) + len(node.sums) > 1 or node.members[0][1].what != "call":
                instructions.append(self._fused(node, used))
            else:
                instructions.append(node.members[0][0])
        return self.program.with_instructions(instructions)

    def _ordered(self) -> list[_Group | Instruction]:
        """The nodes in an order in which they can run, near to the program's."""
        maker: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            for instruction in self._of(node):
                for value in instruction.results:
                    maker[value] = number
        needs: list[set[int]] = []
        wanted: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            before = {maker[v] for i in self._of(node) for v in i.operands if v in maker} - {number}
            needs.append(before)
            for other in before:
                wanted[other].append(number)
        ready = [number for number, before in enumerate(needs) if not before]
        heapq.heapify(ready)
        order: list[_Group | Instruction] = []
        while ready:
            number = heapq.heappop(ready)
            order.append(self.nodes[number])
            for later in wanted[number]:
                needs[later].discard(number)
                if not needs[later]:
                    heapq.heappush(ready, later)
        if len(order) != len(self.nodes):
            raise RuntimeError("groups of operations depend on each other")
        return order

    @staticmethod
    def _of(node: _Group | Instruction) -> list[Instruction]:
        if isinstance(node, Instruction):
            return [node]
        return [instruction for instruction, _ in node.members] + node.sums

    def _fused(self, group: _Group, used: dict[int, int]) -> Instruction:
        inputs: dict[int, int] = {}
        number: dict[int, int] = {}  # of the operation that makes a value
        operations: list[Operation] = []
        inside: dict[int, int] = {}
        scalars: dict[str, Any] = {}
        for instruction, operation in group.members:
            references: list[Reference] = []
            for kind, which in operation.operands:
                if kind == "number":
                    references.append((kind, which))
                elif which in number:
                    inside[int(which)] = inside.get(int(which), 0) + 1
                    references.append(("value", number[int(which)]))
                else:
                    references.append(("input", inputs.setdefault(int(which), len(inputs))))
            number[instruction.results[0]] = len(operations)
            operations.append(operation._replace(operands=tuple(references)))
            if operation.what == "call" and isinstance(instruction.op, Elementwise):
                symbol, fingerprint, make = instruction.op.assembly(operation.element)
                scalars[symbol] = fingerprint, make
        for instruction in group.sums:
            value = instruction.operands[0]
            inside[value] = inside.get(value, 0) + 1
        outputs = [value for value in number if used.get(value, 0) > inside.get(value, 0)]
        last = group.members[-1][0] if not group.sums else group.sums[-1]
        params = {
            "operations": tuple(operations),
            "outputs": tuple([number[value] for value in outputs]),
            "sums": tuple([number[instruction.operands[0]] for instruction in group.sums]),
            "scalars": scalars,
            "shape": group.shape,
            "members": tuple(self._of(group)),
        }
        results = (*outputs, *[instruction.results[0] for instruction in group.sums])
        return Instruction(FUSED, tuple(inputs), params, results, last.code, last.lasti)


def fuse(program: Program) -> Program:
    """Make loops of groups of elementwise operations."""
    return _Fuser(program).run()
