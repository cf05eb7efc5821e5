"""exp, exp2, expm1 and the hyperbolic functions: a power of two times a polynomial.

``x = k ln 2 + r`` with ``|r| <= ln(2) / 2``, where k comes from adding and subtracting a large number, and r
from subtracting ``k ln 2`` in two parts (Cody and Waite, 1980). The hyperbolic functions combine the powers
``2**k`` and ``2**-k`` with odd and even polynomials in r, in sums that keep their rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.kernels.vmath.coefficients import COSH, EXP, EXP2, EXPM1, LN2, LOG2E, SINH
from jitgrad.kernels.vmath.emit import (
    F32,
    Int,
    Num,
    Pair,
    at_least,
    at_most,
    copysign,
    divide,
    fast_two_sum,
    fma,
    horner,
    select,
)


@dataclass(frozen=True)
class Reduced:
    """``x = k ln 2 + r``; `k` is in the low bits of the integer, `r` has an error of its own rounding."""

    k: Int
    r: Num
    tail: Num


def reduce_ln2(x: Num) -> Reduced:
    bits = x.fmt.bits
    rounder = fma(x, LOG2E[bits][0], x.fmt.magic)
    k = rounder - x.fmt.magic
    exact = fma(-k, LN2[bits][0], x)
    r = fma(-k, LN2[bits][1], exact)
    return Reduced(rounder.bits, r, fma(-k, LN2[bits][1], exact - r))


def power_of_two(k: Int) -> Num:
    """``2**k`` for the exponents of normal numbers; only the low bits of `k` count."""
    return ((k << k.fmt.fraction) + k.fmt.pattern(1.0)).num


def scale(x: Num, k: Int) -> Num:
    """``x * 2**k`` for any k that fits the format's exponent twice over, in two steps so that neither overflows."""
    half = k >> 1
    return x * power_of_two(half) * power_of_two(k - half)


def _bounded(x: Num) -> Num:
    """Where exp has long become 0 or infinity, a number that keeps k small."""
    bound = 128.0 if x.fmt is F32 else 1024.0
    return at_most(at_least(x, -bound), bound)


def exp(x: Num) -> Num:
    reduced = reduce_ln2(_bounded(x))
    r = reduced.r
    return scale(fma(r * r, horner(r, EXP[x.fmt.bits]), r) + 1.0, reduced.k)


def exp2(x: Num) -> Num:
    bound = 256.0 if x.fmt is F32 else 2048.0
    x = at_most(at_least(x, -bound), bound)
    rounder = x + x.fmt.magic
    r = x - (rounder - x.fmt.magic)
    return scale(fma(r, horner(r, EXP2[x.fmt.bits]), 1.0), rounder.bits)


def _expm1(reduced: Reduced) -> Pair:
    """``exp(r) - 1`` as r and what is to be added to it."""
    r = reduced.r
    return Pair(r, fma(r * r, horner(r, EXPM1[r.fmt.bits]), fma(r, reduced.tail, reduced.tail)))


def expm1(x: Num) -> Num:
    # exp(x) - 1 is half of  2**(k - 1) expm1(r) + (2**(k - 1) - 1/2), which overflows only where it should.
    reduced = reduce_ln2(_bounded_below(x))
    part = _expm1(reduced)
    power = power_of_two(reduced.k - 1)
    total = fast_two_sum(power - 0.5, power * part.hi)
    result = 2.0 * (total.hi + fma(power, part.lo, total.lo))
    return select(abs(x) < x.fmt.tiny, x, result)


def _bounded_below(x: Num) -> Num:
    high = 90.0 if x.fmt is F32 else 710.0
    return at_most(at_least(x, -50.0), high)


@dataclass(frozen=True)
class _Hyperbolic:
    """sinh r and cosh r without their leading terms, and the weights of ``2**k`` and ``2**-k``.

    ``sinh x = 4 (even * minus + odd * plus)`` and ``cosh x = 4 (even * plus + odd * minus)`` where
    ``odd = r + sine``, ``even = 1 + cosine``, ``plus = 2**(k-3) + 2**(-k-3)``, ``minus`` is their difference.
    """

    r: Num
    sine: Num
    cosine: Num
    plus: Num
    minus: Num


def _hyperbolic(x: Num) -> _Hyperbolic:
    bits = x.fmt.bits
    reduced = reduce_ln2(at_most(abs(x), 128.0 if x.fmt is F32 else 1024.0))
    r = reduced.r
    z = r * r
    sine = fma(r * z, horner(z, SINH[bits]), reduced.tail)
    cosine = z * horner(z, COSH[bits])
    cosine = fma(r, reduced.tail, cosine)
    power = scale(x.const(0.125), reduced.k)
    inverse = scale(x.const(0.125), 0 - reduced.k)
    return _Hyperbolic(r, sine, cosine, power + inverse, power - inverse)


def sinh(x: Num) -> Num:
    h = _hyperbolic(x)
    product = h.plus * h.r
    lost = fma(h.plus, h.r, -product)
    total = fast_two_sum(h.minus, product)
    rest = fma(h.minus, h.cosine, fma(h.plus, h.sine, lost + total.lo))
    result = copysign(4.0 * (total.hi + rest), x)
    return select(abs(x) < x.fmt.tiny, x, result)


def cosh(x: Num) -> Num:
    h = _hyperbolic(x)
    rest = fma(h.plus, h.cosine, h.minus * (h.r + h.sine))
    return 4.0 * (h.plus + rest)


def tanh(x: Num) -> Num:
    # With u = 2|x|: (exp(u) - 1) / (exp(u) + 1), both divided by 2**k.
    reduced = reduce_ln2(2.0 * at_most(abs(x), 22.0))
    part = _expm1(reduced)
    part = fast_two_sum(part.hi, part.lo)
    inverse = power_of_two(0 - reduced.k)
    above = fast_two_sum(1.0 - inverse, part.hi)
    below = fast_two_sum(1.0 + inverse, part.hi)
    ratio = divide(Pair(above.hi, above.lo + part.lo), Pair(below.hi, below.lo + part.lo))
    return copysign(ratio.hi + ratio.lo, x)
