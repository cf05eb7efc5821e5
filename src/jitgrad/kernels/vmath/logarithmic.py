"""log, log2, log10 and log1p: an exponent plus the logarithm of a number near one.

``x = 2**k (1 + f)`` with ``1 + f`` between the square roots of 1/2 and 2, and ``log(1 + f) = 2 atanh(s)``
with ``s = f / (2 + f)``. As ``2 s = f - s f``, the leading term suffers no rounding (K. C. Ng, fdlibm).
The inverse hyperbolic functions are log1p of arguments that are kept as pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.kernels.vmath.coefficients import LN2, LOG, LOG2E, LOG10_2, LOG10E
from jitgrad.kernels.vmath.emit import (
    Num,
    Pair,
    at_most,
    copysign,
    divide,
    fast_two_sum,
    fma,
    horner,
    select,
    sqrt,
    two_product,
    two_sum,
)

ROOT = 0.5**0.5


@dataclass(frozen=True)
class Split:
    """``x = 2**k m``, and ``2**-k``."""

    k: Num
    m: Num
    inverse: Num


def split(x: Num, lowest: float, bias: Num | float | None = None) -> Split:
    """The exponent of a positive normal number, and its significand between `lowest` and twice that.

    A `bias` other than the format's is for numbers that have been scaled.
    """
    fmt = x.fmt
    # The exponent as a number: its bits below those of a power of two whose ulp is 1.
    unit = 2.0**fmt.fraction
    if bias is None:
        bias = unit + fmt.bias
    shifted = x.bits + (fmt.pattern(1.0) - fmt.pattern(lowest))
    k = ((shifted >> fmt.fraction) | fmt.pattern(unit)).num - bias
    mask = (1 << fmt.fraction) - 1
    inverse = 2 * fmt.pattern(1.0) - (shifted & ~mask)
    return Split(k, ((shifted & mask) + fmt.pattern(lowest)).num, inverse.num)


def split_any(x: Num, lowest: float = ROOT) -> Split:
    """The same for subnormal numbers too."""
    small = x < x.fmt.tiny
    places = x.fmt.precision
    base = 2.0**x.fmt.fraction + x.fmt.bias
    return split(select(small, x * 2.0**places, x), lowest, select(small, x.const(base + places), base))


def _log1p(f: Num, above: Num, k: Num, lost: Num | None = None) -> Num:
    """``log(1 + f + lost) + k log(2)``, where `above` is ``2 + f`` and `lost` is below an ulp of f."""
    high, low = LN2[f.fmt.bits]
    s = f / above
    z = s * s
    # log(1 + f) = 2 s + s z L(z), where 2 s = f - s f
    rest = fma(s, f, -(k * low))
    if lost is not None:
        # The derivative in f is 1 / (1 + f) = (1 - s) / (1 + s), for which two terms do.
        rest = fma(lost, fma(s, 2.0, -1.0), rest)
    rest = fma(-(s * z), horner(z, LOG[f.fmt.bits]), rest)
    return fma(k, high, f - rest)


def _domain(x: Num, result: Num) -> Num:
    """The values at zero, at infinity, and outside."""
    result = select(x < float("inf"), result, x)
    result = select(x.bits.negative, x.const(float("nan")), result)
    return select(x.equals(0.0), x.const(-float("inf")), result)


def log(x: Num) -> Num:
    parts = split_any(x)
    return _domain(x, _log1p(parts.m - 1.0, parts.m + 1.0, parts.k))


def _log1p_sum(x: Num, low: Num | None = None, extra: Num | None = None) -> Num:
    """``log(1 + x + low) + extra * log(2)`` where `low` is below an ulp of x."""
    total = two_sum(x.const(1.0), x)
    parts = split(total.hi, ROOT)
    # What 1 + x lost to rounding, in the scale of m. Nothing is lost at 2**60, where 2**-k may not exist.
    inverse = select(x < 2.0**60, parts.inverse, 0.0)
    f = fast_two_sum(parts.m - 1.0, total.lo * inverse)
    lost = f.lo if low is None else fma(low, inverse, f.lo)
    return _log1p(f.hi, 2.0 + f.hi, parts.k if extra is None else parts.k + extra, lost)


def log1p(x: Num) -> Num:
    result = copysign(_log1p_sum(x), x)
    infinity = float("inf")
    outside = select(x.equals(-1.0), x.const(-infinity), float("nan"))
    return select(x > -1.0, select(x < infinity, result, x), outside)


def _scaled(m: Num, factor: tuple[float, ...], base: Pair) -> Num:
    """``factor * log(m) + base`` where the factor and the base have two parts."""
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    # log(m) = f - rest, of which only f needs a product without rounding.
    rest = fma(-(s * z), horner(z, LOG[m.fmt.bits]), s * f)
    product = two_product(f, factor[0])
    total = fast_two_sum(base.hi, product.hi)
    low = fma(-rest, factor[0], fma(f, factor[1], product.lo))
    return total.hi + (total.lo + (low + base.lo))


def log2(x: Num) -> Num:
    parts = split_any(x)
    return _domain(x, _scaled(parts.m, LOG2E[x.fmt.bits], Pair(parts.k, x.const(0.0))))


def log10(x: Num) -> Num:
    high, low = LOG10_2[x.fmt.bits]
    parts = split_any(x)
    exponent = two_product(parts.k, high)
    exponent = Pair(exponent.hi, fma(parts.k, low, exponent.lo))
    return _domain(x, _scaled(parts.m, LOG10E[x.fmt.bits], exponent))


def _root(square: Pair) -> Pair:
    """The square root of a pair."""
    root = sqrt(square.hi)
    rest = fma(-root, root, square.hi) + square.lo
    return Pair(root, select(root > 0.0, rest / (2.0 * root), 0.0))


def arcsinh(x: Num) -> Num:
    # log1p(w + w**2 / (1 + sqrt(1 + w**2))), or log(w) + log(2) where 1 is nothing to w
    size = abs(x)
    limit = 2.0 ** (x.fmt.precision + 1)
    w = at_most(size, limit)
    square = two_product(w, w)
    above = two_sum(x.const(1.0), square.hi)
    root = _root(Pair(above.hi, above.lo + square.lo))
    below = two_sum(x.const(1.0), root.hi)
    ratio = divide(square, Pair(below.hi, below.lo + root.lo))
    total = two_sum(w, ratio.hi)
    large = size >= limit
    low = select(large, x.const(0.0), total.lo + ratio.lo)
    result = _log1p_sum(select(large, size, total.hi), low, select(large, x.const(1.0), 0.0))
    return copysign(select(size < float("inf"), select(size < x.fmt.ulp, size, result), size), x)


def arccosh(x: Num) -> Num:
    # log1p(t + sqrt(t (t + 2))) with t = x - 1, or log(x) + log(2)
    limit = 2.0 ** (x.fmt.precision + 1)
    w = at_most(x, limit)
    t = two_sum(w, x.const(-1.0))
    above = two_sum(w, x.const(1.0))
    product = two_product(t.hi, above.hi)
    root = _root(Pair(product.hi, product.lo + fma(t.hi, above.lo, t.lo * above.hi)))
    total = two_sum(t.hi, root.hi)
    large = x >= limit
    low = select(large, x.const(0.0), total.lo + (t.lo + root.lo))
    result = _log1p_sum(select(large, x, total.hi), low, select(large, x.const(1.0), 0.0))
    return select(x >= 1.0, select(x < float("inf"), result, x), float("nan"))


def arctanh(x: Num) -> Num:
    # log1p(2 w / (1 - w)) / 2
    size = abs(x)
    below = two_sum(x.const(1.0), -size)
    ratio = divide(Pair(2.0 * size, x.const(0.0)), below)
    result = 0.5 * _log1p_sum(ratio.hi, ratio.lo)
    result = select(size < 1.0, result, select(size.equals(1.0), x.const(float("inf")), float("nan")))
    return copysign(select(size < x.fmt.ulp, size, result), x)
