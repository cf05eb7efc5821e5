"""pow, with the special cases of C99: two to the power of y times a logarithm that is kept as a pair."""

from __future__ import annotations

from jitgrad.kernels.vmath.coefficients import EXP2, POW_C0, POW_C1, POW_EXP2_SHORT, POW_LOG2, POW_LOG2_SHORT
from jitgrad.kernels.vmath.emit import (
    F32,
    F64,
    Bool,
    Num,
    Pair,
    at_least,
    at_most,
    divide,
    fast_two_sum,
    fma,
    horner,
    rint,
    select,
    two_product,
)
from jitgrad.kernels.vmath.exponential import power_of_two, scale
from jitgrad.kernels.vmath.logarithmic import split, split_any


def _log2(x: Num) -> Pair:
    """The base 2 logarithm of a non-negative float64, to about 65 bits; infinite at 0 and infinity."""
    parts = split_any(x)
    f = parts.m - 1.0
    # s = f / (2 + f) and log2(m) = s (C0 + z (C1 + z q(z))) with z = s * s
    below = fast_two_sum(f.const(2.0), f)
    s = divide(Pair(f, f.const(0.0)), below)
    z = two_product(s.hi, s.hi)
    z = Pair(z.hi, fma(s.hi + s.hi, s.lo, z.lo))
    inner = fast_two_sum(f.const(POW_C1[64][0]), z.hi * horner(z.hi, POW_LOG2[64]))
    inner = Pair(inner.hi, inner.lo + POW_C1[64][1])
    outer = _product(z, inner)
    total = fast_two_sum(f.const(POW_C0[64][0]), outer.hi)
    series = _product(s, Pair(total.hi, total.lo + (outer.lo + POW_C0[64][1])))
    result = fast_two_sum(parts.k, series.hi)
    infinity = float("inf")
    high = select(x.equals(0.0), x.const(-infinity), select(x < infinity, result.hi, x))
    return Pair(high, result.lo + series.lo)


def _product(a: Pair, b: Pair) -> Pair:
    product = two_product(a.hi, b.hi)
    return Pair(product.hi, fma(a.hi, b.lo, fma(a.lo, b.hi, product.lo)))


def _magnitude(x: Num, y: Num) -> Num:
    """``x**y`` for non-negative x."""
    logarithm = _log2(x)
    # So large a y gives 0, 1 or infinity whatever else it is; smaller ones keep the products finite.
    y = at_most(at_least(y, -(2.0**70)), 2.0**70)
    product = y * logarithm.hi
    lost = fma(y, logarithm.hi, -product)
    rest = fma(y, logarithm.lo, lost)
    rest = select(abs(product) < 1100.0, rest, 0.0)
    product = at_most(at_least(product, -1100.0), 1100.0)
    rounder = product + F64.magic
    r = (product - (rounder - F64.magic)) + rest
    return scale(fma(r, horner(r, EXP2[64]), 1.0), rounder.bits)


def _magnitude32(x: Num, y: Num) -> Num:
    """The same for float32 values in float64, rounded to float32."""
    parts = split(x)
    f = parts.m - 1.0
    s = f / (2.0 + f)
    logarithm = fma(s, horner(s * s, POW_LOG2_SHORT[64]), parts.k)
    infinity = float("inf")
    logarithm = select(x.equals(0.0), x.const(-infinity), select(x < infinity, logarithm, x))
    product = at_most(at_least(at_most(at_least(y, -(2.0**70)), 2.0**70) * logarithm, -300.0), 300.0)
    rounder = product + F64.magic
    r = product - (rounder - F64.magic)
    power = fma(r, horner(r, POW_EXP2_SHORT[64]), 1.0) * power_of_two(rounder.bits)
    return power.to(F32)


def pow(x: Num, y: Num) -> Num:
    magnitude = _magnitude(abs(x), y) if x.fmt is F64 else _magnitude32(abs(x).to(F64), y.to(F64))
    whole = rint(y).equals(y)
    half = 0.5 * y
    odd = whole & ~rint(half).equals(half)
    signed = (magnitude.bits ^ (select(odd, x, 0.0).bits & x.fmt.pattern(-0.0))).num
    # A finite negative number has no fractional powers.
    undefined = (x < 0.0) & (x > -float("inf")) & ~whole
    result = select(undefined, x.const(float("nan")), signed)
    return select(x.equals(1.0) | y.equals(0.0), x.const(1.0), result)
