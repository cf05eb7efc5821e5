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
    two_product,
)


@dataclass(frozen=True)
class Reduced:
    """``x = k ln 2 + r + tail``: k as a number and as low bits of an integer, `tail` below an ulp of r."""

    whole: Num
    k: Int
    r: Num
    tail: Num


def reduce_ln2(x: Num) -> Reduced:
    """Subtract the nearest multiple of ln 2."""
    bits = x.fmt.bits
    rounder = fma(x, LOG2E[bits][0], x.fmt.magic)
    k = rounder - x.fmt.magic
    exact = fma(-k, LN2[bits][0], x)
    r = fma(-k, LN2[bits][1], exact)
    return Reduced(k, rounder.bits, r, fma(-k, LN2[bits][1], exact - r))


def power_of_two(k: Int) -> Num:
    """``2**k`` for the exponents of normal numbers; only the low bits of `k` count."""
    return ((k << k.fmt.fraction) + k.fmt.pattern(1.0)).num


def halves(k: Int) -> tuple[Num, Num]:
    """Two factors of ``2**k``, of which neither overflows where `k` is up to twice the largest exponent."""
    half = k >> 1
    return power_of_two(half), power_of_two(k - half)


def two_to(r: Num, series: Num, k: Int) -> Num:
    """``2**k (1 + r series)``, which is ``2**(k + r)``."""
    first, second = halves(k)
    return fma(r * first, series, first) * second


def exp(x: Num) -> Num:
    # Beyond these bounds the result has long been 0 or infinity.
    bound = 128.0 if x.fmt is F32 else 1024.0
    reduced = reduce_ln2(at_most(at_least(x, -bound), bound))
    r = reduced.r
    first, second = halves(reduced.k)
    return fma(fma(r * r, horner(r, EXP[x.fmt.bits]), r), first, first) * second


def exp2(x: Num) -> Num:
    bound = 160.0 if x.fmt is F32 else 1100.0
    x = at_most(at_least(x, -bound), bound)
    rounder = x + x.fmt.magic
    r = x - (rounder - x.fmt.magic)
    return two_to(r, horner(r, EXP2[x.fmt.bits]), rounder.bits)


def _expm1(reduced: Reduced) -> Pair:
    """``exp(r) - 1`` as r and what is to be added to it."""
    r = reduced.r
    return Pair(r, fma(r * r, horner(r, EXPM1[r.fmt.bits]), fma(r, reduced.tail, reduced.tail)))


def expm1(x: Num) -> Num:
    # The bounds are just past the overflow, where 2**(k-1) is still finite, and well past the last -1 + ulp.
    reduced = reduce_ln2(at_most(at_least(x, -50.0), 88.8 if x.fmt is F32 else 710.0))
    part = _expm1(reduced)
    # Half of exp(x) - 1 is 2**(k-1) (exp(r) - 1) + (2**(k-1) - 1/2).
    power = power_of_two(reduced.k - 1)
    total = fast_two_sum(power - 0.5, power * part.hi)
    result = 2.0 * (total.hi + fma(power, part.lo, total.lo))
    return select(abs(x) < x.fmt.ulp / 64, x, result)


@dataclass(frozen=True)
class _Hyperbolic:
    """sinh r and cosh r without their leading terms, and the weights of ``2**k`` and ``2**-k``.

    ``sinh x = 4 (even * minus + odd * plus)`` and ``cosh x = 4 (even * plus + odd * minus)`` where
    ``odd = r + sine``, ``even = 1 + cosine``, ``plus = 2**(k-3) + 2**(-k-3)``, ``minus`` is their difference.
    """

    r: Num
    sine: Num
    cosine: Num
    plus: Pair
    minus: Pair


def _hyperbolic(x: Num) -> _Hyperbolic:
    bits = x.fmt.bits
    # The bound is just past the overflow, so that 2**(k-3) is still finite.
    reduced = reduce_ln2(at_most(abs(x), 90.0 if x.fmt is F32 else 711.0))
    r = reduced.r
    z = r * r
    sine = fma(r * z, horner(z, SINH[bits]), reduced.tail)
    cosine = fma(z, horner(z, COSH[bits]), r * reduced.tail)
    power = power_of_two(reduced.k - 3)
    # 2**-k no longer counts at k = 64, and might not exist further on.
    inverse = power_of_two(-3 - (at_most(reduced.whole, 64.0) + x.fmt.magic).bits)
    return _Hyperbolic(r, sine, cosine, fast_two_sum(power, inverse), fast_two_sum(power, -inverse))


def _combine(a: Pair, b: Pair, h: _Hyperbolic) -> Num:
    """Add up ``4 (a (1 + cosine) + b (r + sine))``."""
    product = two_product(b.hi, h.r)
    total = fast_two_sum(a.hi, product.hi)
    return 4.0 * (total.hi + fma(a.hi, h.cosine, fma(b.hi, h.sine, (product.lo + a.lo) + total.lo)))


def sinh(x: Num) -> Num:
    h = _hyperbolic(x)
    result = copysign(_combine(h.minus, h.plus, h), x)
    return select(abs(x) < 2.0 ** -(x.fmt.precision // 2 + 2), x, result)


def cosh(x: Num) -> Num:
    h = _hyperbolic(x)
    return _combine(h.plus, h.minus, h)


def tanh(x: Num) -> Num:
    # With u = 2|x|: (exp(u) - 1) / (exp(u) + 1), both divided by 2**k.
    reduced = reduce_ln2(2.0 * at_most(abs(x), 22.0))
    part = _expm1(reduced)
    part = fast_two_sum(part.hi, part.lo)
    inverse = power_of_two(0 - reduced.k)
    less, more = fast_two_sum(x.const(1.0), -inverse), fast_two_sum(x.const(1.0), inverse)
    above = fast_two_sum(less.hi, part.hi)
    below = fast_two_sum(more.hi, part.hi)
    above = Pair(above.hi, above.lo + (less.lo + part.lo))
    below = Pair(below.hi, below.lo + (more.lo + part.lo))
    ratio = divide(above, below)
    return copysign(ratio.hi + ratio.lo, x)
