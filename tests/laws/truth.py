"""What elementwise ops and their derivatives truly are, in mpmath's arithmetic of 60 digits.

Each entry is written from a textbook, apart from the rules that it judges. Where a function or a derivative
is not real, or infinite, mpmath says so (a complex result, an exception): there is no truth to compare with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
from mpmath import mp, mpf

mp.dps = 60

Number = Any  # mpmath has no types
Function = Callable[..., Number]


class Truth(NamedTuple):
    """A function, its partial derivatives by operand, and their limits at minus and plus infinity, if any."""

    value: Function
    partials: tuple[Function, ...]
    at_infinity: tuple[float | None, float | None] = (None, None)


def _sign(x: Number) -> Number:
    return mp.sign(x)


def _one(*xs: Number) -> Number:
    return mpf(1)


def _zero(*xs: Number) -> Number:
    return mpf(0)


def _cbrt(x: Number) -> Number:
    return mp.sign(x) * mp.cbrt(abs(x))


def _expit(x: Number) -> Number:
    return 1 / (1 + mp.exp(-x))


def _sinc(x: Number) -> Number:
    return mpf(1) if x == 0 else mp.sinpi(x) / (mp.pi * x)


def _sinc_slope(x: Number) -> Number:
    """The first derivative, from its series where the closed form cancels."""
    if abs(x) < mpf("1e-5"):
        u = mp.pi * x
        return mp.pi * (-u / 3 + u**3 / 30 - u**5 / 840 + u**7 / 45360)
    return (mp.cospi(x) - _sinc(x)) / x


def _hypot(x: Number, y: Number) -> Number:
    return mp.sqrt(x * x + y * y)


def _ratio(x: Number, y: Number) -> Number:
    if x == 0 and y == 0:
        raise ValueError("0 / 0 has no value")
    return x / y


def _whole(x: Number, y: Number) -> Number:
    """The quotient rounded down; 60 digits are not enough for 1e300 // 1e-300."""
    if y == 0:
        raise ValueError("there is no remainder of a division by 0")
    with mp.workdps(700):
        return mp.floor(x / y)


def _modulus(x: Number, y: Number) -> Number:
    with mp.workdps(700):
        return x - y * _whole(x, y)


def _cut(x: Number, y: Number) -> Number:
    return mp.sign(x) * mp.sign(y) * _whole(abs(x), abs(y))


def _share(x: Number, y: Number) -> Number:
    return mpf(0.5) if x == y else mpf(1 if x > y else 0)


def _log_power(x: Number, y: Number) -> Number:
    if x == 0:
        return mpf(0) if y >= 0 else 1 / x
    return mp.power(x, y) * mp.log(x)


def _slope_of_power(x: Number, y: Number) -> Number:
    if y == 0:
        return mpf(0)
    with mp.workdps(400 if x < 0 else mp.dps):  # whether y - 1 is odd is in the last digit of 1e300
        return y * mp.power(x, y - 1)


def _power_of(base: Number, x: Number) -> Number:
    return mp.exp(x) if base is mp.e else mp.power(base, x)


def _softened(x: Number, y: Number, base: Number) -> Number:
    """log(base**x + base**y) / log(base) without a loss of digits."""
    large, small = max(x, y), min(x, y)
    return large + mp.log1p(_power_of(base, small - large)) / mp.log(base)


def _logistic_of(x: Number, y: Number, base: Number) -> Number:
    return 1 / (1 + _power_of(base, y - x))


def _logistic_slope(x: Number) -> Number:
    return 1 / (2 + mp.exp(x) + mp.exp(-x))


def _bend(x: Number) -> Number:
    return -mp.tanh(x / 2) * _logistic_slope(x)


def _no_nan(x: Number, y: Number) -> Number:
    return mpf(0) if y == 0 else x / y


def _cosine(x: Number, y: Number) -> Number:
    return mpf(0) if x == 0 else x / _hypot(x, y)


LN2, LN10 = mp.log(2), mp.log(10)

TRUTHS: dict[str, Truth] = {
    "add": Truth(lambda x, y: x + y, (_one, _one)),
    "subtract": Truth(lambda x, y: x - y, (_one, lambda x, y: mpf(-1))),
    "difference": Truth(lambda x, y: x - y, (_one, lambda x, y: mpf(-1))),
    "multiply": Truth(lambda x, y: x * y, (lambda x, y: y, lambda x, y: x)),
    "multiply_no_nan": Truth(lambda x, y: x * y, (lambda x, y: y, lambda x, y: x)),
    "multiply_absorbing": Truth(lambda x, y: x * y, (lambda x, y: y, lambda x, y: x)),
    "divide": Truth(_ratio, (lambda x, y: 1 / y, lambda x, y: -_ratio(x, y**2))),
    "negative": Truth(lambda x: -x, (lambda x: mpf(-1),), (-1, -1)),
    "positive": Truth(lambda x: x, (_one,), (1, 1)),
    "sign": Truth(_sign, (_zero,), (0, 0)),
    "absolute": Truth(abs, (_sign,), (-1, 1)),
    "fabs": Truth(abs, (_sign,), (-1, 1)),
    "copysign": Truth(lambda x, y: abs(x) * (_sign(y) or 1), (lambda x, y: _sign(x) * (_sign(y) or 1), _zero)),
    "floor_divide": Truth(_whole, (_zero, _zero)),
    "remainder": Truth(_modulus, (_one, lambda x, y: -_whole(x, y))),
    "fmod": Truth(lambda x, y: _sign(x) * _modulus(abs(x), abs(y)), (_one, lambda x, y: -_cut(x, y))),
    "square": Truth(lambda x: x * x, (lambda x: 2 * x,)),
    "cube": Truth(lambda x: x**3, (lambda x: 3 * x * x,)),
    "reciprocal": Truth(lambda x: 1 / x, (lambda x: -1 / x**2,), (0, 0)),
    "sqrt": Truth(mp.sqrt, (lambda x: 1 / (2 * mp.sqrt(x)),), (None, 0)),
    "cbrt": Truth(_cbrt, (lambda x: 1 / (3 * _cbrt(x) ** 2),), (0, 0)),
    "power": Truth(mp.power, (_slope_of_power, _log_power)),
    "exp": Truth(mp.exp, (mp.exp,), (0, None)),
    "exp2": Truth(lambda x: mp.power(2, x), (lambda x: LN2 * mp.power(2, x),), (0, None)),
    "expm1": Truth(mp.expm1, (mp.exp,), (0, None)),
    "log": Truth(mp.log, (lambda x: 1 / x,), (None, 0)),
    "log2": Truth(lambda x: mp.log(x) / LN2, (lambda x: 1 / (x * LN2),), (None, 0)),
    "log10": Truth(lambda x: mp.log(x) / LN10, (lambda x: 1 / (x * LN10),), (None, 0)),
    "log1p": Truth(mp.log1p, (lambda x: 1 / (1 + x),), (None, 0)),
    "expit": Truth(_expit, (_logistic_slope,), (0, 0)),
    "logaddexp": Truth(
        lambda x, y: _softened(x, y, mp.e),
        (lambda x, y: _logistic_of(x, y, mp.e), lambda x, y: _logistic_of(y, x, mp.e)),
    ),
    "logaddexp2": Truth(
        lambda x, y: _softened(x, y, mpf(2)),
        (lambda x, y: _logistic_of(x, y, mpf(2)), lambda x, y: _logistic_of(y, x, mpf(2))),
    ),
    "sin": Truth(mp.sin, (mp.cos,)),
    "cos": Truth(mp.cos, (lambda x: -mp.sin(x),)),
    "tan": Truth(mp.tan, (lambda x: mp.sec(x) ** 2,)),
    "arcsin": Truth(mp.asin, (lambda x: 1 / mp.sqrt((1 - x) * (1 + x)),)),
    "arccos": Truth(mp.acos, (lambda x: -1 / mp.sqrt((1 - x) * (1 + x)),)),
    "arctan": Truth(mp.atan, (lambda x: 1 / (1 + x * x),), (0, 0)),
    "arctan2": Truth(mp.atan2, (lambda y, x: _ratio(x, x * x + y * y), lambda y, x: _ratio(-y, x * x + y * y))),
    "hypot": Truth(_hypot, (_cosine, lambda x, y: _cosine(y, x))),
    "cosine_of": Truth(
        _cosine, (lambda x, y: _ratio(y * y, _hypot(x, y) ** 3), lambda x, y: _ratio(-x * y, _hypot(x, y) ** 3))
    ),
    "radians": Truth(lambda x: x * mp.pi / 180, (lambda x: mp.pi / 180,)),
    "degrees": Truth(lambda x: x * 180 / mp.pi, (lambda x: 180 / mp.pi,)),
    "sinpi": Truth(mp.sinpi, (lambda x: mp.pi * mp.cospi(x),)),
    "cospi": Truth(mp.cospi, (lambda x: -mp.pi * mp.sinpi(x),)),
    "sinc": Truth(_sinc, (_sinc_slope,)),
    "sinh": Truth(mp.sinh, (mp.cosh,)),
    "cosh": Truth(mp.cosh, (mp.sinh,)),
    "tanh": Truth(mp.tanh, (lambda x: mp.sech(x) ** 2,), (0, 0)),
    "root_of_sum": Truth(lambda x: mp.sqrt(1 + x * x), (lambda x: x / mp.sqrt(1 + x * x),)),
    "arcsinh": Truth(mp.asinh, (lambda x: 1 / mp.sqrt(1 + x * x),), (0, 0)),
    "arccosh": Truth(mp.acosh, (lambda x: 1 / (mp.sqrt(x - 1) * mp.sqrt(x + 1)),), (None, 0)),
    "arctanh": Truth(mp.atanh, (lambda x: 1 / ((1 - x) * (1 + x)),)),
    "maximum": Truth(max, (_share, lambda x, y: _share(y, x))),
    "minimum": Truth(min, (lambda x, y: _share(y, x), _share)),
    "fmax": Truth(max, (_share, lambda x, y: _share(y, x))),
    "fmin": Truth(min, (lambda x, y: _share(y, x), _share)),
    "heaviside": Truth(
        lambda x, y: y if x == 0 else mpf(1 if x > 0 else 0), (_zero, lambda x, y: mpf(1 if x == 0 else 0))
    ),
    "exp_of_difference": Truth(lambda x, y: mp.exp(x - y), (lambda x, y: mp.exp(x - y), lambda x, y: -mp.exp(x - y))),
    "divide_no_nan": Truth(_no_nan, (lambda x, y: _no_nan(mpf(1), y), lambda x, y: -_no_nan(x, y**2))),
    "logistic_slope": Truth(_logistic_slope, (_bend,), (0, 0)),
    "fraction": Truth(
        lambda x, y: _logistic_of(x, y, mp.e),
        (lambda x, y: _logistic_slope(x - y), lambda x, y: -_logistic_slope(x - y)),
    ),
    "sqrt_no_inf": Truth(mp.sqrt, (lambda x: _ratio(mpf(0.5) if x else mpf(0), mp.sqrt(x)),), (None, 0)),
    "share": Truth(_share, (_zero, _zero)),
}

# The points at which a rule that is right elsewhere goes wrong in a higher derivative: ends of saturation,
# zeros, where branches meet, and where closed forms cancel.
SPECIAL_POINTS: list[tuple[str, tuple[float, ...]]] = [
    *(("tanh", (x,)) for x in (0.0, 1e-9, 0.5, -3.0, 19.07, 25.0)),
    *(("expit", (x,)) for x in (0.0, 1.5, -3.0, 36.8, -40.0)),
    *(("sinc", (x,)) for x in (0.0, 1e-9, 1e-3, 0.3, 1.0, 2.5)),
    *(("sqrt", (x,)) for x in (1e-12, 4.0, 1e12)),
    *(("cbrt", (x,)) for x in (1e-9, 8.0, -8.0)),
    *(("exp", (x,)) for x in (0.0, -40.0, 40.0)),
    *(("expm1", (x,)) for x in (0.0, 1e-20, -40.0)),
    *(("log1p", (x,)) for x in (0.0, 1e-20, -0.999)),
    *(("log", (x,)) for x in (1e-10, 1.0, 1e10)),
    *(("arctan", (x,)) for x in (0.0, 1.0, 1e5)),
    *(("arcsin", (x,)) for x in (0.0, 0.999, -0.9)),
    *(("arccos", (x,)) for x in (0.0, 0.999, -0.9)),
    *(("arcsinh", (x,)) for x in (0.0, 1e-9, 1e4)),
    *(("arccosh", (x,)) for x in (1.001, 100.0)),
    *(("arctanh", (x,)) for x in (0.0, 0.999)),
    *(("sinh", (x,)) for x in (0.0, 1e-9, 20.0)),
    *(("cosh", (x,)) for x in (0.0, 1e-9, 20.0)),
    *(("sin", (x,)) for x in (0.0, 1e-9, 1e6)),
    *(("cos", (x,)) for x in (0.0, 1e-9, 1e6)),
    *(("tan", (x,)) for x in (0.0, 1e-9, 1.5)),
    *(("square", (x,)) for x in (0.0, -2.0)),
    *(("cube", (x,)) for x in (0.0, -2.0)),
    *(("reciprocal", (x,)) for x in (-0.5, 1e5)),
    *(("absolute", (x,)) for x in (-1e-300, 2.0)),
    *(("multiply", xy) for xy in ((0.0, 0.0), (2.0, -3.0))),
    *(("divide", xy) for xy in ((0.0, 2.0), (1e-3, -3.0))),
    *(("power", xy) for xy in ((2.0, 3.0), (2.0, -1.5), (1e-3, 0.5), (3.0, 0.0))),
    *(("hypot", xy) for xy in ((3.0, 4.0), (1.0, 0.0), (0.0, -2.0), (1e-5, 1.0), (2e150, 1e150))),
    *(("arctan2", xy) for xy in ((1.0, 2.0), (1.0, -2.0), (0.0, 2.0), (-1.0, 0.0), (1e-9, 1.0))),
    *(("logaddexp", xy) for xy in ((0.0, 0.0), (1.0, -2.0), (30.0, -30.0), (700.0, 700.5))),
    *(("logaddexp2", xy) for xy in ((0.0, 0.0), (1.0, -2.0))),
]

# Whole powers at 0 have derivatives that x**y as a function of two variables has not.
ZERO_POWERS: list[tuple[float, tuple[float, float, float]]] = [
    (0.0, (0.0, 0.0, 0.0)),
    (1.0, (1.0, 0.0, 0.0)),
    (2.0, (0.0, 2.0, 0.0)),
    (3.0, (0.0, 0.0, 6.0)),
    (4.0, (0.0, 0.0, 0.0)),
]


def derivative(function: Function, point: tuple[float, ...], orders: tuple[int, ...]) -> float:
    """Return a derivative of any order by differences of 60-digit numbers."""
    # steps in proportion to the point, by substitution of x = size * t, so that no digits are needed for the ratio
    size = mpf(max(map(abs, point)) or 1.0)
    with mp.workdps(120):
        scaled = tuple(mpf(x) / size for x in point)
        found = mpmath.diff(
            lambda *ts: function(*(size * t for t in ts)),
            scaled[0] if len(point) == 1 else scaled,
            orders[0] if len(point) == 1 else orders,
            h=mpf(10) ** -25,
        )
        return float(found / size ** sum(orders))
