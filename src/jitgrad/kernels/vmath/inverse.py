"""arctan, arctan2, arcsin and arccos: one polynomial each on a short interval."""

from __future__ import annotations

from jitgrad.kernels.vmath.coefficients import ARCSIN, ARCTAN, PI
from jitgrad.kernels.vmath.emit import Num, Pair, copysign, fast_two_sum, fma, horner, select, sqrt


def _arctan(t: Num, add: Pair) -> Num:
    """``add + arctan(t)`` for t within [-1, 1]."""
    z = t * t
    total = fast_two_sum(add.hi, t)
    return total.hi + (total.lo + fma(t * z, horner(z, ARCTAN[t.fmt.bits]), add.lo))


def arctan(x: Num) -> Num:
    size = abs(x)
    large = size > 1.0
    one = x.const(1.0)
    t = select(large, -one, size) / select(large, size, one)
    high, low = PI[x.fmt.bits][0] / 2, PI[x.fmt.bits][1] / 2
    return copysign(_arctan(t, Pair(select(large, x.const(high), 0.0), select(large, x.const(low), 0.0))), x)
