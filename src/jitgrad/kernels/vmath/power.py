"""pow and cbrt.

pow is two to the power of y times a logarithm that is kept as a pair, with the special cases of C99. cbrt
refines a rough inverse cube root, of a significand within a factor of 2.83 of one.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.kernels.vmath.coefficients import (
    CBRT,
    EXP2,
    POW_CENTRE_LOGS,
    POW_CENTRES,
    POW_EXP2_SHORT,
    POW_LEAD,
    POW_LOG2,
    POW_LOG2_SHORT,
)
from jitgrad.kernels.vmath.emit import (
    F32,
    F64,
    Bool,
    Num,
    Pair,
    at_least,
    at_most,
    copysign,
    fast_two_sum,
    fma,
    horner,
    rint,
    select,
    two_product,
)
from jitgrad.kernels.vmath.exponential import power_of_two, two_to
from jitgrad.kernels.vmath.logarithmic import ROOT, split, split_any


def _log2(x: Num) -> Pair:
    """The base 2 logarithm of a positive float64, to about 63 bits."""
    parts = split_any(x, 2.0 ** (-1 / 8))
    m = parts.m
    # The nearest of four centres c, so that s = (m - c) / (m + c) is at most 0.044 and only its leading term
    # needs more than float64's precision.
    bounds = [m.bits > m.fmt.pattern(2.0**power) for power in (1 / 8, 3 / 8, 5 / 8)]
    c = _choose(bounds, [x.const(value) for value in POW_CENTRES[64]])
    centre = _choose(bounds, [x.const(value) for value in POW_CENTRE_LOGS[64]])
    difference = m - c  # exact
    total = fast_two_sum(c, m)
    # Two divisions, as the second runs while the first is already in use.
    s = difference / total.hi
    s_low = fma(-s, total.lo, fma(-s, total.hi, difference)) * (1.0 / total.hi)
    z = s * s
    lead = two_product(s, POW_LEAD[64][0])
    slope = fma(z, 3.0 * POW_LOG2[64][0], POW_LEAD[64][0])
    lead_low = fma(s, POW_LEAD[64][1], fma(s_low, slope, lead.lo))
    # The terms in falling order. The cubic one is taken into the sum before the others are known.
    cube = s * z
    first = fast_two_sum(parts.k + centre, lead.hi)
    second = fast_two_sum(first.hi, cube * POW_LOG2[64][0])
    low = fma(cube * z, horner(z, POW_LOG2[64][1:]), (lead_low + first.lo) + second.lo)
    return Pair(second.hi, low)


def _choose(bounds: list[Bool], values: list[Num]) -> Num:
    """The value after the last bound that holds."""
    result = values[0]
    for bound, value in zip(bounds, values[1:], strict=True):
        result = select(bound, value, result)
    return result


def _infinite(x: Num, size: Num, logarithm: Num) -> Num:
    """The logarithm of `size`, which is ``|x|``, also where that is 0, infinity or NaN."""
    infinity = float("inf")
    return select(x.equals(0.0), x.const(-infinity), select(size < infinity, logarithm, size))


def _magnitude(x: Num, size: Num, y: Num) -> Num:
    """``size**y``, where `size` is ``|x|``."""
    logarithm = _log2(size)
    logarithm = Pair(_infinite(x, size, logarithm.hi), logarithm.lo)
    product = at_most(at_least(y * logarithm.hi, -1100.0), 1100.0)
    rest = fma(y, logarithm.lo, fma(y, logarithm.hi, -product))
    # Small, unless the product was out of bounds: then far beyond the same bound, or NaN.
    rest = select(rest > -1.0, rest, -1.0)
    rounder = product + F64.magic
    r = (product - (rounder - F64.magic)) + rest
    return two_to(r, horner(r, EXP2[64]), rounder.bits)


def _magnitude32(x: Num, size: Num, y: Num) -> Num:
    """The same to float32's precision, for float64 values that float32 could hold."""
    parts = split(size, ROOT)
    f = parts.m - 1.0
    s = f / (parts.m + 1.0)
    logarithm = _infinite(x, size, fma(s, horner(s * s, POW_LOG2_SHORT[64]), parts.k))
    product = at_most(at_least(y * logarithm, -300.0), 300.0)
    rounder = product + F64.magic
    r = product - (rounder - F64.magic)
    return fma(r, horner(r, POW_EXP2_SHORT[64]), 1.0) * power_of_two(rounder.bits)


def pow(x: Num, y: Num) -> Num:
    if x.fmt is F32:
        return _pow(x.to(F64), y.to(F64), _magnitude32).to(F32)
    return _pow(x, y, _magnitude)


def _pow(x: Num, y: Num, power: Callable[[Num, Num, Num], Num]) -> Num:
    size = abs(x)
    magnitude = power(x, size, y)
    magnitude = select(size.equals(1.0) | y.equals(0.0), x.const(1.0), magnitude)
    whole = rint(y).equals(y)
    half = 0.5 * y
    odd = whole & ~rint(half).equals(half)
    signed = (magnitude.bits ^ (select(odd, x, 0.0).bits & x.fmt.pattern(-0.0))).num
    # A finite negative number has whole powers only, and none where y is NaN.
    undefined = (x < 0.0) & (size < float("inf")) & ~whole
    return select(undefined, x.const(float("nan")), signed)


def cbrt(x: Num) -> Num:
    size = abs(x)
    parts = split_any(size)
    rounder = fma(parts.k, 1 / 3, x.fmt.magic)
    left = fma(rounder - x.fmt.magic, -3.0, parts.k)
    m = parts.m * select(left > 0.5, x.const(2.0), select(left < -0.5, x.const(0.5), 1.0))
    w = horner(m, CBRT[x.fmt.bits])
    # The inverse root is w (1 - h)**(-1/3): the binomial series, to the fourth power of h or the second.
    h = fma(-(m * w), w * w, 1.0)
    w = fma(w * h, horner(h, (1 / 3, 2 / 9, 14 / 81, 35 / 243)[: 4 if x.fmt is F64 else 2]), w)
    # One step of Newton's from m w**2, with a residual of twice the precision.
    square = w * w
    root = m * square
    power = two_product(root, root)
    rest = fma(-power.lo, root, fma(-power.hi, root, m))
    result = fma(rest * square, 1 / 3, root) * power_of_two(rounder.bits)
    return copysign(select(size.equals(0.0), size, select(size < float("inf"), result, size)), x)
