"""A small language for writing scalar floating-point code as LLVM instructions.

Functions of `Num` are ordinary Python that runs while Numba lowers a call: every operator appends one
instruction, so a function costs Numba no type inference and LLVM sees exactly the operations written
here. Nothing branches: conditions are values, and `select` picks. That is what lets a loop vectorise.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

# Numba gives a caller's `fastmath` flags to the instructions that have none. This one means nothing to those
# that have it here, and keeps the others away: sums that recover rounding errors would not survive them.
EXACT = ("afn",)


@dataclass(frozen=True)
class Format:
    """An IEEE 754 binary format and the LLVM types that hold it."""

    bits: int
    precision: int
    real: Any
    integer: Any

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.precision - 1)) - 1

    @property
    def fraction(self) -> int:
        """Bits of the stored significand, which is also the place of the exponent field."""
        return self.precision - 1

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer and leaves that integer in the low bits of the sum."""
        return 1.5 * 2.0**self.fraction

    @property
    def ulp(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0**-self.fraction

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    def pattern(self, value: float) -> int:
        """The bits of a constant."""
        code = "<d", "<q"
        if self.bits == 32:
            code = "<f", "<i"
        return int(struct.unpack(code[1], struct.pack(code[0], value))[0])


F64 = Format(64, 53, ir.DoubleType(), ir.IntType(64))
F32 = Format(32, 24, ir.FloatType(), ir.IntType(32))


@dataclass(frozen=True)
class Bool:
    """A condition."""

    build: Any
    ref: Any

    def __and__(self, other: Bool) -> Bool:
        return Bool(self.build, self.build.and_(self.ref, other.ref))

    def __or__(self, other: Bool) -> Bool:
        return Bool(self.build, self.build.or_(self.ref, other.ref))

    def __xor__(self, other: Bool) -> Bool:
        return Bool(self.build, self.build.xor(self.ref, other.ref))

    def __invert__(self) -> Bool:
        return Bool(self.build, self.build.not_(self.ref))


@dataclass(frozen=True)
class Int:
    """The bits of a `Num`: an integer of the same width, with wrapping arithmetic and logical shifts."""

    fmt: Format
    build: Any
    ref: Any

    def _other(self, other: Int | int) -> Any:
        return other.ref if isinstance(other, Int) else ir.Constant(self.fmt.integer, other)

    def __add__(self, other: Int | int) -> Int:
        return Int(self.fmt, self.build, self.build.add(self.ref, self._other(other)))

    def __sub__(self, other: Int | int) -> Int:
        return Int(self.fmt, self.build, self.build.sub(self.ref, self._other(other)))

    def __rsub__(self, other: int) -> Int:
        return Int(self.fmt, self.build, self.build.sub(self._other(other), self.ref))

    def __and__(self, other: Int | int) -> Int:
        return Int(self.fmt, self.build, self.build.and_(self.ref, self._other(other)))

    def __or__(self, other: Int | int) -> Int:
        return Int(self.fmt, self.build, self.build.or_(self.ref, self._other(other)))

    def __xor__(self, other: Int | int) -> Int:
        return Int(self.fmt, self.build, self.build.xor(self.ref, self._other(other)))

    def __lshift__(self, places: int) -> Int:
        return Int(self.fmt, self.build, self.build.shl(self.ref, self._other(places)))

    def __rshift__(self, places: int) -> Int:
        return Int(self.fmt, self.build, self.build.lshr(self.ref, self._other(places)))

    def __gt__(self, other: Int | int) -> Bool:
        """Compare as signed integers, which for positive numbers is also how they compare."""
        return Bool(self.build, self.build.icmp_signed(">", self.ref, self._other(other)))

    @property
    def wide(self) -> Int:
        """A float32's bits as an integer of 64 bits."""
        return Int(F64, self.build, self.build.zext(self.ref, F64.integer))

    @property
    def negative(self) -> Bool:
        """Whether the highest bit is set."""
        return Bool(self.build, self.build.icmp_signed("<", self.ref, self._other(0)))

    @property
    def num(self) -> Num:
        """The number that has these bits."""
        return Num(self.fmt, self.build, self.build.bitcast(self.ref, self.fmt.real))


@dataclass(frozen=True, eq=False)
class Num:
    """A floating-point value in the function being built. Its operators round as IEEE 754 says."""

    fmt: Format
    build: Any
    ref: Any

    def _other(self, other: Num | float) -> Any:
        return other.ref if isinstance(other, Num) else ir.Constant(self.fmt.real, float(other))

    def _new(self, ref: Any) -> Num:
        return Num(self.fmt, self.build, ref)

    def _call(self, name: str, *arguments: Num | float) -> Num:
        kind = ir.FunctionType(self.fmt.real, [self.fmt.real] * (1 + len(arguments)))
        function = self.build.module.declare_intrinsic(name, [self.fmt.real], kind)
        return self._new(self.build.call(function, [self.ref, *map(self._other, arguments)]))

    def _compare(self, relation: str, other: Num | float) -> Bool:
        return Bool(self.build, self.build.fcmp_ordered(relation, self.ref, self._other(other), flags=EXACT))

    def const(self, value: float) -> Num:
        """A constant of this format."""
        return self._new(self._other(value))

    def __add__(self, other: Num | float) -> Num:
        return self._new(self.build.fadd(self.ref, self._other(other), flags=EXACT))

    def __radd__(self, other: float) -> Num:
        return self._new(self.build.fadd(self._other(other), self.ref, flags=EXACT))

    def __sub__(self, other: Num | float) -> Num:
        return self._new(self.build.fsub(self.ref, self._other(other), flags=EXACT))

    def __rsub__(self, other: float) -> Num:
        return self._new(self.build.fsub(self._other(other), self.ref, flags=EXACT))

    def __mul__(self, other: Num | float) -> Num:
        return self._new(self.build.fmul(self.ref, self._other(other), flags=EXACT))

    def __rmul__(self, other: float) -> Num:
        return self._new(self.build.fmul(self._other(other), self.ref, flags=EXACT))

    def __truediv__(self, other: Num | float) -> Num:
        return self._new(self.build.fdiv(self.ref, self._other(other), flags=EXACT))

    def __rtruediv__(self, other: float) -> Num:
        return self._new(self.build.fdiv(self._other(other), self.ref, flags=EXACT))

    def __neg__(self) -> Num:
        return self._new(self.build.fneg(self.ref))

    def __abs__(self) -> Num:
        return self._call("llvm.fabs")

    def __lt__(self, other: Num | float) -> Bool:
        return self._compare("<", other)

    def __le__(self, other: Num | float) -> Bool:
        return self._compare("<=", other)

    def __gt__(self, other: Num | float) -> Bool:
        return self._compare(">", other)

    def __ge__(self, other: Num | float) -> Bool:
        return self._compare(">=", other)

    def equals(self, other: Num | float) -> Bool:
        """Ordered equality: false where either is NaN."""
        return self._compare("==", other)

    @property
    def bits(self) -> Int:
        return Int(self.fmt, self.build, self.build.bitcast(self.ref, self.fmt.integer))

    def to(self, fmt: Format) -> Num:
        """Convert to another format (rounds to nearest)."""
        if fmt is self.fmt:
            return self
        convert = self.build.fpext if fmt.bits > self.fmt.bits else self.build.fptrunc
        return Num(fmt, self.build, convert(self.ref, fmt.real))


def fma(a: Num, b: Num | float, c: Num | float) -> Num:
    """``a * b + c`` rounded once."""
    return a._call("llvm.fma", b, c)


def sqrt(x: Num) -> Num:
    """The correctly rounded square root."""
    return x._call("llvm.sqrt")


def rint(x: Num) -> Num:
    """Round to the nearest integer, ties to even."""
    return x._call("llvm.rint")


def copysign(x: Num, sign: Num) -> Num:
    """The magnitude of `x` with the sign of `sign`."""
    return x._call("llvm.copysign", sign)


def select(condition: Bool, a: Num, b: Num | float) -> Num:
    """`a` where the condition holds, else `b`; both are evaluated."""
    return a._new(a.build.select(condition.ref, a.ref, a._other(b)))


def at_least(x: Num, bound: float) -> Num:
    """The larger of `x` and `bound`; a NaN stays."""
    return select(x < bound, x.const(bound), x)


def at_most(x: Num, bound: float) -> Num:
    """The smaller of `x` and `bound`; a NaN stays."""
    return select(x > bound, x.const(bound), x)


def horner(x: Num, coefficients: Sequence[float]) -> Num:
    """The polynomial with these coefficients, lowest order first, by two interleaved Horner chains.

    Two half-length chains in ``x * x`` leave the processor something to do during the latency of a
    multiplication, at the price of one more instruction.
    """
    if len(coefficients) < 6:
        return _chain(x, coefficients)
    square = x * x
    return fma(_chain(square, coefficients[1::2]), x, _chain(square, coefficients[::2]))


def paired(x: Num, coefficients: Sequence[float]) -> Num:
    """The same polynomial as a chain in ``x * x`` of its neighbouring pairs of terms.

    For long series of alternating sign at `x` near 1, of which the odd and even halves nearly cancel.
    """
    pairs = [fma(x, high, low) for low, high in zip(coefficients[::2], coefficients[1::2], strict=True)]
    square = x * x
    result = pairs[-1]
    for pair in reversed(pairs[:-1]):
        result = fma(result, square, pair)
    return result


def _chain(x: Num, coefficients: Sequence[float]) -> Num:
    result = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


@dataclass(frozen=True)
class Pair:
    """An unevaluated sum ``hi + lo`` with `lo` at most about half an ulp of `hi`."""

    hi: Num
    lo: Num


def two_product(a: Num, b: Num | float) -> Pair:
    """``a * b`` exactly (Dekker's product, with a fused multiply-add)."""
    product = a * b
    return Pair(product, fma(a, b, -product))


def fast_two_sum(a: Num | float, b: Num) -> Pair:
    """``a + b`` exactly, if `a` is zero or a multiple of ulp(`b`) (Dekker)."""
    total = a + b
    return Pair(total, b - (total - a))


def two_sum(a: Num | float, b: Num) -> Pair:
    """``a + b`` exactly (Knuth)."""
    total = a + b
    part = total - a
    return Pair(total, (b - part) + (a - (total - part)))


def divide(numerator: Pair, denominator: Pair) -> Pair:
    """A quotient of pairs, by one division and one step of correction."""
    inverse = 1.0 / denominator.hi
    quotient = numerator.hi * inverse
    remainder = fma(-quotient, denominator.hi, numerator.hi)
    remainder = remainder + fma(-quotient, denominator.lo, numerator.lo)
    return Pair(quotient, remainder * inverse)


def look_up(table: np.ndarray[Any, Any], row: Int, name: str, like: Num) -> list[Num]:
    """One row of a constant table (2-dimensional, of the format of `like`), as one value a column."""
    kind = ir.ArrayType(like.fmt.real, table.size)
    constant = ir.Constant(kind, [ir.Constant(like.fmt.real, float(value)) for value in table.ravel()])
    module = like.build.module
    data = module.globals.get(name)
    if data is None:
        data = cgutils.global_constant(module, name, constant)
    columns = table.shape[1]
    start = like.build.mul(row.ref, ir.Constant(row.fmt.integer, columns))
    zero = ir.Constant(row.fmt.integer, 0)
    values = []
    for column in range(columns):
        index = like.build.add(start, ir.Constant(row.fmt.integer, column))
        pointer = like.build.gep(data, [zero, index], inbounds=True)
        values.append(like._new(like.build.load(pointer)))
    return values
