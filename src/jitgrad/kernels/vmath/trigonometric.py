"""sin, cos and tan, right for every finite argument without a branch.

The argument is divided by pi with as much of 1/pi as its exponent calls for (Payne and Hanek, "Radian
reduction for trigonometric functions", 1983), looked up in a table by the exponent. The `_fast` forms
subtract a multiple of pi in three parts instead (Cody and Waite, 1980), for arguments up to `FAST_LIMIT`.
float32 works in float64, where one reduction step is enough.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgrad.kernels.vmath.coefficients import (
    COS,
    INVERSE_PI,
    INVERSE_PI_BITS,
    PI,
    SIN,
    SINPI,
    TAN_DENOMINATOR,
    TAN_NUMERATOR,
)
from jitgrad.kernels.vmath.emit import (
    F32,
    F64,
    Bool,
    Int,
    Num,
    Pair,
    divide,
    fast_two_sum,
    fma,
    horner,
    look_up,
    select,
    two_product,
)

FAST_LIMIT = 2.0**30

_PLACES = 1280  # of `INVERSE_PI_BITS`
_GROUP = 5  # the exponents of a row of the float64 table differ in so many bits


def _chunks(power: int, unit: int, lead: int | None, count: int) -> list[float]:
    """``2**power / pi`` less a multiple of ``2**unit``, as a sum of `count` floats.

    The first is a multiple of ``2**lead`` (0 if `lead` is None), the others are as long as a float is.
    """
    shifted = INVERSE_PI_BITS << power if power >= 0 else INVERSE_PI_BITS >> -power
    rest = shifted & (1 << unit + _PLACES) - 1
    chunks = [0.0]
    if lead is not None:
        multiple = rest + (1 << lead + _PLACES - 1) >> lead + _PLACES
        rest -= multiple << lead + _PLACES
        chunks = [multiple * 2.0**lead]
    for _ in range(count - 1):
        chunk = rest / (1 << _PLACES)
        chunks.append(chunk)
        numerator, denominator = chunk.as_integer_ratio()
        rest -= numerator * (1 << _PLACES) // denominator
    return chunks


@functools.cache
def _table64() -> np.ndarray[Any, Any]:
    """2/pi for groups of 32 exponents: row g is for ``x = 2**(32 (g - 31)) t`` with ``2**-31 <= t < 2``.

    Such a t is a multiple of ``2**-83``, so its product with a multiple of ``2**85`` is a multiple of 4,
    which changes no quadrant: that much is taken from 2/pi. For the same reason ``2**85`` may be added to the
    first chunk. That makes ``t * first`` at least ``2**54``, so that rounding it gives another multiple of 4,
    and only what the rounding lost counts. Rows 0 to 30 are for smaller x, which have no use for them.
    """
    rows = [[0.0] * 4] * 31 + [_chunks(1, 85, None, 4)]
    for group in range(1, 33):
        first, *others = _chunks((group << _GROUP) + 1, 85, 33, 4)
        rows.append([first + 2.0**85, *others])
    return np.array(rows)


@functools.cache
def _table32() -> np.ndarray[Any, Any]:
    """1/pi for every biased exponent of float32; NaN for that of the infinities.

    As above, but the first chunk is so short that its product with a 24-bit significand is exact.
    """
    rows = [_chunks(exponent - 127, 24, -5 if exponent > 127 else None, 2) for exponent in range(255)]
    return np.array([*rows, [np.nan, np.nan]])


def _quarter_turns(x: Num) -> tuple[Pair, Int]:
    """``2 x / pi`` less the nearest integer n, and n in the low bits, for a float64 of at least ``2**-31``.

    The parts are good for 60 bits even of the smallest of remainders, which is ``2**-61``: in all, the four
    chunks hold 2/pi to ``2**-130``.
    """
    fraction = F64.fraction + _GROUP
    a0, a1, a2, a3 = look_up(_table64(), (x.bits >> fraction) & 63, "jitgrad.inverse_pi.64", x)
    t = ((x.bits & ~(63 << fraction)) | 31 << fraction).num
    # The products in falling order; the high part of the first is a multiple of 4 and is dropped.
    integer = two_product(t, a0).lo
    first = two_product(t, a1)
    second = two_product(t, a2)
    rounder = (integer + first.hi) + fma(x, 0.0, F64.magic)  # NaN where x is infinite
    # Exact: `integer` is a multiple of an ulp of `first.hi`, and so is what is left of it after that.
    near = fast_two_sum(integer - (rounder - F64.magic), first.hi)
    far = fast_two_sum(first.lo, second.hi)
    total = fast_two_sum(near.hi, far.hi)
    low = (far.lo + fma(t, a3, second.lo)) + near.lo + total.lo
    return Pair(total.hi, low), rounder.bits


def _half_turns32(x: Num, scale: float, shift: float) -> tuple[Num, Int]:
    """``scale * x / pi + shift`` less the nearest integer n, in float64, and n, for a float32 x."""
    a0, a1 = look_up(_table32(), ((x.bits >> F32.fraction) & 255).wide, "jitgrad.inverse_pi.32", x.to(F64))
    fraction = F64.fraction
    t = ((x.to(F64).bits & ~(2047 << fraction)) | F64.bias << fraction).num
    if scale != 1.0:
        t = t * scale
    integer = t * a0
    if shift:
        integer = integer + shift
    rounder = fma(t, a1, integer) + F64.magic
    return fma(t, a1, integer - (rounder - F64.magic)), rounder.bits


def _radians(turns: Pair) -> Pair:
    """Quarter turns to radians."""
    high, low = PI[64][0] / 2, PI[64][1] / 2
    angle = two_product(turns.hi, high)
    return Pair(angle.hi, angle.lo + fma(turns.hi, low, turns.lo * high))


def _subtract(x: Num, scale: float, shift: float) -> tuple[Pair, Int]:
    """``x + shift * pi / scale`` less the nearest multiple of ``pi / scale``, for moderate `x`."""
    rounder = fma(x, scale * INVERSE_PI[64][0], shift) + F64.magic
    n = shift - (rounder - F64.magic)
    first = fma(n, PI[64][0] / scale, x)  # exact
    second = two_product(n, PI[64][1] / scale)
    total = fast_two_sum(first, second.hi)
    low = total.lo + fma(n, PI[64][2] / scale, second.lo)
    return Pair(total.hi, low), rounder.bits


def _sine(angle: Pair, quadrant: Int) -> Num:
    """The sine of an angle within an eighth of a turn and so many quarter turns."""
    r, low = angle.hi, angle.lo
    z = r * r
    level = fma(z, -0.5, 1.0)
    lost = fma(z, -0.5, 1.0 - level)
    sine = r + fma(r * z, horner(z, SIN[64]), low * level)
    cosine = level + fma(z * z, horner(z, COS[64]), fma(-r, low, lost))
    return _negate(select(_odd(quadrant), cosine, sine), quadrant >> 1)


def _negate(x: Num, parity: Int) -> Num:
    return (x.bits ^ (parity << x.fmt.bits - 1)).num


def _odd(n: Int) -> Bool:
    """Whether the lowest bit is set."""
    return (n << n.fmt.bits - 1).negative


def _small(x: Num, result: Num) -> Num:
    """`x` itself where it equals sin(x) and tan(x), which also keeps -0.0 and tiny numbers exact."""
    return select(abs(x) < (2.0**-27 if x.fmt is F64 else 2.0**-13), x, result)


def sin(x: Num) -> Num:
    if x.fmt is F32:
        return _small(x, _sine_of_half_turns(*_half_turns32(x, 1.0, 0.0)))
    quarter, n = _quarter_turns(x)
    return _small(x, _sine(_radians(quarter), n))


def cos(x: Num) -> Num:
    if x.fmt is F32:
        return _sine_of_half_turns(*_half_turns32(x, 1.0, 0.5))
    quarter, n = _quarter_turns(x)
    return select(abs(x) < 2.0**-27, x.const(1.0), _sine(_radians(quarter), n + 1))


def tan(x: Num) -> Num:
    if x.fmt is F32:
        turns, n = _half_turns32(x, 2.0, 0.0)
        return _small(x, _tangent32(turns * (PI[64][0] / 2), n))
    quarter, n = _quarter_turns(x)
    return _small(x, _tangent(_radians(quarter), n))


def sin_fast(x: Num) -> Num:
    if x.fmt is F32:
        angle, n = _subtract(x.to(F64), 1.0, 0.0)
        return _small(x, _sine_of_half_turns(angle.hi * INVERSE_PI[64][0], n))
    angle, n = _subtract(x, 2.0, 0.0)
    return _small(x, _sine(angle, n))


def cos_fast(x: Num) -> Num:
    if x.fmt is F32:
        angle, n = _subtract(x.to(F64), 1.0, 0.5)
        return _sine_of_half_turns(angle.hi * INVERSE_PI[64][0], n)
    angle, n = _subtract(x, 2.0, 0.0)
    return _sine(angle, n + 1)


def tan_fast(x: Num) -> Num:
    if x.fmt is F32:
        angle, n = _subtract(x.to(F64), 2.0, 0.0)
        return _small(x, _tangent32(angle.hi, n))
    angle, n = _subtract(x, 2.0, 0.0)
    return _small(x, _tangent(angle, n))


def _sine_of_half_turns(turns: Num, parity: Int) -> Num:
    """float32 ``sin(pi t)`` of a float64 t."""
    return _negate(turns * horner(turns * turns, SINPI[64]), parity).to(F32)


def _tangent(angle: Pair, quadrant: Int) -> Num:
    """The tangent of an angle within an eighth of a turn, or -1 over it where the quadrant is odd."""
    # Near a multiple of pi / 2 the low part may be far above an ulp of the high one.
    angle = fast_two_sum(angle.hi, angle.lo)
    r = angle.hi
    z = r * r
    # N / D is a rational approximation; N(r + l) / D(r + l) = (N + l D) / (D - l N) to first order in l.
    sine = fast_two_sum(r, (r * z) * horner(z, TAN_NUMERATOR[64]))
    cosine = fast_two_sum(r.const(1.0), z * horner(z, TAN_DENOMINATOR[64]))
    sine = Pair(sine.hi, fma(angle.lo, cosine.hi, sine.lo))
    cosine = Pair(cosine.hi, fma(-angle.lo, sine.hi, cosine.lo))
    odd = _odd(quadrant)
    above = Pair(select(odd, cosine.hi, sine.hi), select(odd, cosine.lo, sine.lo))
    below = Pair(select(odd, sine.hi, cosine.hi), select(odd, sine.lo, cosine.lo))
    ratio = divide(above, below)
    return _negate(ratio.hi + ratio.lo, quadrant)


def _tangent32(angle: Num, quadrant: Int) -> Num:
    z = angle * angle
    sine = fma(angle * z, horner(z, TAN_NUMERATOR[32]), angle)
    cosine = fma(z, horner(z, TAN_DENOMINATOR[32]), 1.0)
    odd = _odd(quadrant)
    return _negate(select(odd, cosine, sine) / select(odd, sine, cosine), quadrant).to(F32)
