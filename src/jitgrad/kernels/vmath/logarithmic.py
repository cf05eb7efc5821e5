"""log, log2, log10 and log1p: an exponent plus the logarithm of a number near one.

``x = 2**k (1 + f)`` with ``1 + f`` between the square roots of 1/2 and 2, and ``log(1 + f) = 2 atanh(s)`` with
``s = f / (2 + f)``, arranged so that the leading ``f - f**2 / 2`` suffers no rounding of s (the arrangement
is that of K. C. Ng in fdlibm).
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.kernels.vmath.coefficients import LN2, LOG, LOG2E, LOG10_2, LOG10E
from jitgrad.kernels.vmath.emit import F32, Num, Pair, copysign, fast_two_sum, fma, horner, select, two_product, two_sum


@dataclass(frozen=True)
class Split:
    """``x = 2**k m``, and ``2**-k``."""

    k: Num
    m: Num
    inverse: Num


def split(x: Num) -> Split:
    """The exponent and significand of a positive normal number, the significand around one."""
    fmt = x.fmt
    root = fmt.pattern(0.5**0.5)
    shifted = x.bits + (fmt.pattern(1.0) - root)
    # The exponent as a number: its bits below those of a power of two whose ulp is 1.
    unit = 2.0**fmt.fraction
    exponent = ((shifted >> fmt.fraction) | fmt.pattern(unit)).num - (unit + fmt.bias)
    power = (shifted & ~((1 << fmt.fraction) - 1)) - fmt.pattern(1.0)
    return Split(exponent, (x.bits - power).num, (fmt.pattern(1.0) - power).num)


def split_any(x: Num) -> Split:
    """The same for subnormal numbers too."""
    fmt = x.fmt
    small = x < fmt.tiny
    parts = split(select(small, x * 2.0**fmt.precision, x))
    return Split(parts.k - select(small, x.const(fmt.precision), 0.0), parts.m, parts.inverse)


def _log1p(f: Num) -> Pair:
    """``log(1 + f)`` is f less the high part of what is returned, plus the low part."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    return Pair(half_square, s * fma(z, horner(z, LOG[f.fmt.bits]), half_square))


def _domain(x: Num, result: Num) -> Num:
    """The values at zero, at infinity, and outside."""
    infinity = float("inf")
    outside = select(x.equals(0.0), x.const(-infinity), float("nan"))
    return select(x > 0.0, select(x < infinity, result, x), outside)


def log(x: Num) -> Num:
    parts = split_any(x)
    high, low = LN2[x.fmt.bits]
    f = parts.m - 1.0
    part = _log1p(f)
    rest = part.hi - fma(parts.k, low, part.lo)
    return _domain(x, fma(parts.k, high, f - rest))


def log1p(x: Num) -> Num:
    total = two_sum(x.const(1.0), x)
    parts = split(total.hi)
    # What 1 + x lost to rounding, in the scale of m. Nothing is lost at 2**60, where 2**-k may not exist.
    lost = select(x < 2.0**60, total.lo, 0.0)
    f = fma(lost, parts.inverse, parts.m - 1.0)
    high, low = LN2[x.fmt.bits]
    part = _log1p(f)
    rest = part.hi - fma(parts.k, low, part.lo)
    result = copysign(fma(parts.k, high, f - rest), x)
    infinity = float("inf")
    outside = select(x.equals(-1.0), x.const(-infinity), float("nan"))
    return select(x > -1.0, select(x < infinity, result, x), outside)


def _log_pair(f: Num) -> Pair:
    """``log(1 + f)`` to half as many digits again."""
    s = f / (2.0 + f)
    z = s * s
    half = two_product(0.5 * f, f)
    total = fast_two_sum(f, -half.hi)
    return Pair(total.hi, total.lo + (fma(s, fma(z, horner(z, LOG[f.fmt.bits]), half.hi), -half.lo)))


def log2(x: Num) -> Num:
    parts = split_any(x)
    high, low = LOG2E[x.fmt.bits]
    part = _log_pair(parts.m - 1.0)
    product = two_product(part.hi, high)
    rest = product.lo + fma(part.lo, high, part.hi * low)
    total = fast_two_sum(parts.k, product.hi)
    return _domain(x, total.hi + (total.lo + rest))


def log10(x: Num) -> Num:
    bits = x.fmt.bits
    parts = split_any(x)
    part = _log_pair(parts.m - 1.0)
    product = two_product(part.hi, LOG10E[bits][0])
    rest = product.lo + fma(part.lo, LOG10E[bits][0], part.hi * LOG10E[bits][1])
    exponent = two_product(parts.k, LOG10_2[bits][0])
    total = fast_two_sum(exponent.hi, product.hi)
    rest = fma(parts.k, LOG10_2[bits][1], exponent.lo) + rest
    return _domain(x, total.hi + (total.lo + rest))
