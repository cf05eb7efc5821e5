"""Fused kernels: a chain of elementwise operations, and sums of it, as one loop that keeps the rest in registers.

Written in LLVM's assembly, around the scalar functions of the ops as Numba has compiled them: Numba's own front
end would take twenty times as long. A kernel has NumPy's inner-loop signature, as every other: inputs, outputs, sums.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import llvmlite.binding as llvm

from jitgrad.kernels import cache
from jitgrad.kernels import compile as compiler

__all__ = ["LONGEST_UNROLLED", "Loop", "Operation", "Reference", "address_of"]

Reference = tuple[str, int | str]  # ("input", k), ("value", k): result of an operation, or ("number", its bits in hex)

LONGEST_UNROLLED = 64  # elements up to which a kernel is made for one extent

_ELEMENTS = {"d": "double", "f": "float", "?": "i1"}
_IN_MEMORY = {"d": "double", "f": "float", "?": "i8"}
_SIZE = {"d": 8, "f": 4, "?": 1}


class Operation(NamedTuple):
    """One operation on the elements at a position.

    ``what`` is "call" (of the scalar function ``which``), "compare" (``which`` is a predicate of fcmp), "select", or
    "logic" (``which`` is and, or, xor, not). ``element`` is the type of the result.
    """

    what: str
    which: str
    operands: tuple[Reference, ...]
    element: str


class Loop(NamedTuple):
    """What a fused kernel does.

    ``inputs`` and ``outputs`` are pairs: of an element type and a layout, of the number of an operation and a
    layout. A layout is "c" (contiguous), "s" (one element for all positions) or "g" (any step). ``sums`` are numbers of
    operations. ``extent`` is the number of elements if it is fixed, else 0.
    """

    inputs: tuple[tuple[str, str], ...]
    operations: tuple[Operation, ...]
    outputs: tuple[tuple[int, str], ...]
    sums: tuple[int, ...]
    extent: int


def _number(text: str, element: str) -> str:
    value = float.fromhex(text)
    if element == "?":
        return "true" if value else "false"
    if element == "f":
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class _Writer:
    """Writes the assembly of one kernel."""

    def __init__(self, name: str, loop: Loop) -> None:
        self.loop = loop
        self.name = name
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.unrolled = loop.extent > 0

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def element_of(self, reference: Reference) -> str:
        """The element type of an operand; numbers take that of the operand beside them."""
        kind, which = reference
        if kind == "input":
            return self.loop.inputs[int(which)][0]
        return self.loop.operations[int(which)].element

    def operand(self, reference: Reference, element: str) -> str:
        """An operand as assembly."""
        kind, which = reference
        if kind == "number":
            return _number(str(which), element)
        return f"%x{which}" if kind == "input" else f"%t{which}"

    def pointer(self, label: str, at: int) -> None:
        self(f"  %{label}_at = getelementptr ptr, ptr %args, i64 {at}")
        self(f"  %{label} = load ptr, ptr %{label}_at")

    def step(self, label: str, at: int) -> None:
        self(f"  %{label}_step_at = getelementptr i64, ptr %steps, i64 {at}")
        self(f"  %{label}_step = load i64, ptr %{label}_step_at")

    def place(self, label: str, layout: str, element: str, buffered: bool) -> str:
        """Write where the element at the position is; returns its name."""
        memory = _IN_MEMORY[element]
        if buffered:
            self(f"  %{label}_p = getelementptr {memory}, ptr %{label}_b, i64 %i")
        elif layout == "c":
            self(f"  %{label}_p = getelementptr {memory}, ptr %{label}, i64 %i")
        else:
            self(f"  %{label}_o = mul i64 %i, %{label}_step")
            self(f"  %{label}_p = getelementptr i8, ptr %{label}, i64 %{label}_o")
        return f"%{label}_p"

    def load(self, k: int, place: str, element: str, group: str = ", !llvm.access.group !1") -> None:
        if element == "?":
            self(f"  %x{k}_byte = load i8, ptr {place}{group}")
            self(f"  %x{k} = icmp ne i8 %x{k}_byte, 0")
        else:
            self(f"  %x{k} = load {_ELEMENTS[element]}, ptr {place}{group}")

    def operation(self, k: int, operation: Operation) -> None:
        kinds = [self.element_of(reference) for reference in operation.operands if reference[0] != "number"]
        wide = next((kind for kind in kinds if kind != "?"), operation.element if operation.element != "?" else "d")
        what, which, operands, element = operation
        if what == "compare":
            x, y = (self.operand(reference, wide) for reference in operands)
            self(f"  %t{k} = fcmp {which} {_ELEMENTS[wide]} {x}, {y}")
        elif what == "logic":
            values = [self.operand(reference, "?") for reference in operands]
            if which == "not":
                self(f"  %t{k} = xor i1 {values[0]}, true")
            else:
                self(f"  %t{k} = {which} i1 {values[0]}, {values[1]}")
        elif what == "select":
            condition = self.operand(operands[0], "?")
            kind = _ELEMENTS[element]
            x, y = (self.operand(reference, element) for reference in operands[1:])
            self(f"  %t{k} = select i1 {condition}, {kind} {x}, {kind} {y}")
        else:
            kind = _ELEMENTS[element]
            values = [f"{kind} {self.operand(reference, element)}" for reference in operands]
            self.declared[which] = f"declare {kind} @{which}({', '.join([kind] * len(operands))})"
            self(f"  %t{k} = call {kind} @{which}({', '.join(values)})")

    def write(self) -> str:
        """Return the module."""
        loop = self.loop
        lanes = 8 if any(operation.element == "f" for operation in loop.operations) else 4
        padded = 1 if loop.extent == 1 else -(-loop.extent // lanes) * lanes
        self(f"define void @{self.name}(ptr %args, ptr %dims, ptr %steps, i64 %data) {{")
        self("entry:")
        if self.unrolled:
            self(f"  %n = add i64 0, {padded}")
        else:
            self("  %n = load i64, ptr %dims")
        for k, (element, layout) in enumerate(loop.inputs):
            self.pointer(f"a{k}", k)
            if layout == "g":
                self.step(f"a{k}", k)
            if layout == "s":
                self.load(k, f"%a{k}", element, "")
            elif layout == "c" and self.unrolled:
                self._buffer_in(f"a{k}", element, loop.extent, padded)
        first = len(loop.inputs)
        for k, (value, layout) in enumerate(loop.outputs):
            self.pointer(f"o{k}", first + k)
            if layout == "g":
                self.step(f"o{k}", first + k)
            elif self.unrolled:
                memory = _IN_MEMORY[loop.operations[value].element]
                self(f"  %o{k}_b = alloca [{padded} x {memory}], align 32")
        first += len(loop.outputs)
        for k in range(len(loop.sums)):
            self.pointer(f"s{k}", first + k)
        if not self.unrolled:
            self("  %some = icmp sgt i64 %n, 0")
            self("  br i1 %some, label %body, label %none")
        else:
            self("  br label %body")
        self("body:")
        self("  %i = phi i64 [ 0, %entry ], [ %next, %body ]")
        for k, value in enumerate(loop.sums):
            kind = _ELEMENTS[loop.operations[value].element]
            self(f"  %sum{k} = phi {kind} [ 0.0, %entry ], [ %sum{k}_next, %body ]")
        for k, (element, layout) in enumerate(loop.inputs):
            if layout != "s":
                self.load(k, self.place(f"a{k}", layout, element, layout == "c" and self.unrolled), element)
        for k, operation in enumerate(loop.operations):
            self.operation(k, operation)
        for k, (value, layout) in enumerate(loop.outputs):
            element = loop.operations[value].element
            place = self.place(f"o{k}", layout, element, layout == "c" and self.unrolled)
            if element == "?":
                self(f"  %o{k}_v = zext i1 %t{value} to i8")
                self(f"  store i8 %o{k}_v, ptr {place}, !llvm.access.group !1")
            else:
                self(f"  store {_ELEMENTS[element]} %t{value}, ptr {place}, !llvm.access.group !1")
        if self.unrolled and loop.sums:
            self(f"  %inside = icmp ult i64 %i, {loop.extent}")
        for k, value in enumerate(loop.sums):
            kind = _ELEMENTS[loop.operations[value].element]
            term = f"%t{value}"
            if self.unrolled:
                self(f"  %term{k} = select i1 %inside, {kind} {term}, {kind} 0.0")
                term = f"%term{k}"
            self(f"  %sum{k}_next = fadd reassoc contract {kind} %sum{k}, {term}")
        self("  %next = add nuw nsw i64 %i, 1")
        self("  %more = icmp ult i64 %next, %n")
        self("  br i1 %more, label %body, label %done, !llvm.loop !0")
        self("done:")
        for k, (value, layout) in enumerate(loop.outputs):
            if self.unrolled and layout == "c":
                size = loop.extent * _SIZE[loop.operations[value].element]
                self(f"  call void @llvm.memcpy.p0.p0.i64(ptr %o{k}, ptr %o{k}_b, i64 {size}, i1 false)")
        for k, value in enumerate(loop.sums):
            kind = _ELEMENTS[loop.operations[value].element]
            self(f"  %s{k}_old = load {kind}, ptr %s{k}")
            self(f"  %s{k}_new = fadd {kind} %s{k}_old, %sum{k}_next")
            self(f"  store {kind} %s{k}_new, ptr %s{k}")
        self("  ret void")
        if not self.unrolled:
            self("none:")
            self("  ret void")
        self("}")
        self("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.lines += self.declared.values()
        self("!0 = distinct !{!0, !2}")
        self("!1 = distinct !{}")
        self('!2 = !{!"llvm.loop.parallel_accesses", !1}')
        return "\n".join(self.lines)

    def _buffer_in(self, label: str, element: str, extent: int, padded: int) -> None:
        """Copy an input to the stack, with ones behind it, so that whole vectors can be read."""
        memory, size = _IN_MEMORY[element], _SIZE[element]
        one = "1" if element == "?" else "1.0"
        self(f"  %{label}_b = alloca [{padded} x {memory}], align 32")
        self(f"  call void @llvm.memcpy.p0.p0.i64(ptr %{label}_b, ptr %{label}, i64 {extent * size}, i1 false)")
        for k in range(extent, padded):
            self(f"  %{label}_pad{k} = getelementptr {memory}, ptr %{label}_b, i64 {k}")
            self(f"  store {memory} {one}, ptr %{label}_pad{k}")


def _compiled(name: str, loop: Loop, scalars: Sequence[tuple[str, Callable[[], str]]]) -> bytes:
    module = llvm.parse_assembly(_Writer(name, loop).write())
    for symbol, assembly in scalars:
        part = llvm.parse_assembly(assembly())
        function = part.get_function(symbol)
        function.add_function_attribute("alwaysinline")
        module.link_in(part)
        linked = module.get_function(symbol)
        linked.linkage = "internal"
    return compiler.emitted(module)


def address_of(loop: Loop, scalars: dict[str, tuple[str, Callable[[], str]]]) -> int:
    """Return the address of the kernel of a loop, compiled if no cache has it.

    Parameters
    ----------
    loop : Loop
        What it does.
    scalars : dict
        By the name that operations call, a fingerprint of the scalar function and a function that returns its
        assembly.
    """
    digest = hashlib.sha256(repr((cache.sources("fused"), loop)).encode())
    for symbol, (fingerprint, _) in sorted(scalars.items()):
        digest.update(f"{symbol} {fingerprint}".encode())
    name = f"fused_{digest.hexdigest()[:24]}"
    return compiler.address_of_code(
        name, lambda: _compiled(name, loop, [(symbol, made) for symbol, (_, made) in scalars.items()])
    )
