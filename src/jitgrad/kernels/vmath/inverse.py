"""arctan, arctan2, arcsin and arccos: one polynomial on a short interval, and a multiple of pi to add."""

from __future__ import annotations

from jitgrad.kernels.vmath.coefficients import ARCSIN, ARCTAN, PI
from jitgrad.kernels.vmath.emit import (
    Bool,
    Num,
    Pair,
    copysign,
    fast_two_sum,
    fma,
    horner,
    paired,
    select,
    sqrt,
)


def _half_pi(x: Num, factor: float) -> Pair:
    """A multiple of pi / 2 (by a power of two or by 0) as a pair."""
    high, low, _ = PI[x.fmt.bits]
    return Pair(x.const(high / 2 * factor), x.const(low / 2 * factor))


def _choose(condition: Bool, a: Pair, b: Pair) -> Pair:
    return Pair(select(condition, a.hi, b.hi), select(condition, a.lo, b.lo))


def _arctan(t: Num, add: Pair) -> Num:
    """``add + arctan(t)`` for t within [-1, 1]."""
    z = t * t
    total = fast_two_sum(add.hi, t)
    return total.hi + (total.lo + fma(t * z, paired(z, ARCTAN[t.fmt.bits]), add.lo))


def arctan(x: Num) -> Num:
    size = abs(x)
    large = size > 1.0
    one = x.const(1.0)
    t = select(large, -one, size) / select(large, size, one)
    return copysign(_arctan(t, _choose(large, _half_pi(x, 1.0), _half_pi(x, 0.0))), x)


def arctan2(y: Num, x: Num) -> Num:
    width, height = abs(x), abs(y)
    steep = height > width
    short, long = select(steep, width, height), select(steep, height, width)
    # Equal sides have the ratio 1, also infinite ones; that of 0 to 0 is taken as 0.
    t = select(short.equals(long), select(long.equals(0.0), x.const(0.0), 1.0), short / long)
    # What t lost to rounding, where no side is 0 or infinite.
    lost = fma(-t, long, short) / long
    lost = select(abs(lost) < x.fmt.ulp, lost, 0.0)
    left = x.bits.negative
    add = _choose(steep, _half_pi(x, 1.0), _choose(left, _half_pi(x, 2.0), _half_pi(x, 0.0)))
    turned = steep ^ left
    add = Pair(add.hi, add.lo + select(turned, -lost, lost))
    return copysign(_arctan(select(turned, -t, t), add), y)


def _arcsin_parts(x: Num) -> tuple[Bool, Num, Num]:
    """Whether ``|x| > 1/2``, s, and ``arcsin(s) - s``.

    If so, ``arcsin|x| = pi / 2 - 2 arcsin(s)``; else s is ``|x|``.
    """
    size = abs(x)
    large = size > 0.5
    half = fma(size, -0.5, 0.5)
    z = select(large, half, size * size)
    s = select(large, sqrt(half), size)
    return large, s, s * z * horner(z, ARCSIN[x.fmt.bits])


def arcsin(x: Num) -> Num:
    large, s, rest = _arcsin_parts(x)
    factor = select(large, x.const(-2.0), 1.0)
    add = _choose(large, _half_pi(x, 1.0), _half_pi(x, 0.0))
    total = fast_two_sum(add.hi, factor * s)
    return copysign(total.hi + (total.lo + fma(factor, rest, add.lo)), x)


def arccos(x: Num) -> Num:
    large, s, rest = _arcsin_parts(x)
    negative = x < 0.0
    factor = copysign(select(large, x.const(2.0), 1.0), x)
    factor = select(large, factor, -factor)
    add = _choose(large, _choose(negative, _half_pi(x, 2.0), _half_pi(x, 0.0)), _half_pi(x, 1.0))
    total = fast_two_sum(add.hi, factor * s)
    return total.hi + (total.lo + fma(factor, rest, add.lo))
