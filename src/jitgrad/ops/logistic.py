"""The logistic function and its kin: tanh, and logarithms of sums of exponentials."""

from __future__ import annotations

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.samples import uniform
from jitgrad.ops.exponential import LN2, LOG2E, exp, exp2, log1p


def _logistic(x: float) -> float:
    """From the exponential that does not overflow: ``1 / (1 + exp(-x))`` is 0 from x = -709.8 on."""
    e: float = exp(-abs(x))
    return (1.0 if x >= 0 else e) / (1.0 + e)


def _logistic_slope(x: float) -> float:
    e: float = exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


expit = elementwise(
    "expit",
    _logistic,
    x=lambda x: logistic_slope(x),
    fallback=lambda x: 1 / (1 + np.exp(np.negative(x))),
    node="Sigmoid",
    samples=uniform((-3, 3)),
    doc="Logistic function ``s(x) = 1 / (1 + exp(-x))``.",
)

# Not s(x) (1 - s(x)), which is exactly 0 past x = 36.74. Nor is its own derivative s'(x) (s(-x) - s(x)), of whose
# digits half are lost at x = 1e-8.
logistic_slope: Elementwise = elementwise(
    "logistic_slope",
    _logistic_slope,
    x=lambda x: -logistic_slope(x) * tanh(0.5 * x),
    fallback=lambda x: 1 / (2 + np.exp(x) + np.exp(np.negative(x))),
    samples=uniform((-3, 3)),
    doc="The derivative of the logistic function, ``s(x) s(-x)``: a quarter of ``sech(x / 2)**2``.",
)

tanh: Elementwise = elementwise(
    "tanh",
    "tanh",
    # 4 s(2x) s(-2x). 1 - out**2 is exactly 0 past |x| = 19.07; in terms of exp(-2|x|) with no rule of its own, the
    # third derivative at 0 is 0 instead of -2.
    x=lambda x: 4 * logistic_slope(2 * x),
    numpy=np.tanh,
    samples=uniform((-3, 3)),
)

# x - y, which of equal infinities is not NaN. To choose 1/2 where x == y instead loses the second derivative.
difference = elementwise(
    "difference",
    lambda x, y: 0.0 if x == y else x - y,
    x=lambda: 1.0,
    y=lambda: -1.0,
    fallback=lambda x, y: np.where(np.equal(x, y), 0.0, np.subtract(x, y)),
    linear="jointly",
    absorbing=False,
    node="Sub",
    samples=uniform((-3, 3), (-3, 3)),
    doc="Difference that is 0 where the operands are equal, be they infinite.",
)


# The slope of log(s) is 1 - s: the 6e-14 that rounding may take from x - y = -750 is 6e-14 of the fraction.
# The two functions below find it (Knuth's two-sum) and put it back.


def _fraction(x: float, y: float) -> float:
    d = x - y
    lost = (x - (d - (d - x))) - (y + (d - x))
    lost = lost if lost == lost else 0.0
    e: float = exp(-abs(difference(x, y)))
    larger, smaller = 1.0 / (1.0 + e), e / (1.0 + e)
    return larger * (1.0 + lost * smaller) if x >= y else smaller * (1.0 + lost * larger)


def _fraction2(x: float, y: float) -> float:
    d = x - y
    lost = (x - (d - (d - x))) - (y + (d - x))
    lost = LN2 * lost if lost == lost else 0.0
    e: float = exp2(-abs(difference(x, y)))
    larger, smaller = 1.0 / (1.0 + e), e / (1.0 + e)
    return larger * (1.0 + lost * smaller) if x >= y else smaller * (1.0 + lost * larger)


fraction = elementwise(
    "fraction",
    _fraction,
    x=lambda x, y: logistic_slope(difference(x, y)),
    y=lambda x, y: -logistic_slope(difference(x, y)),
    fallback=lambda x, y: expit(difference(x, y)),
    samples=uniform((-3, 3), (-3, 3)),
    doc="What ``exp(x)`` is of ``exp(x) + exp(y)``: a half each if x and y are equal, be they infinite.",
)

fraction2 = elementwise(
    "fraction2",
    _fraction2,
    x=lambda x, y: LN2 * logistic_slope(LN2 * difference(x, y)),
    y=lambda x, y: -LN2 * logistic_slope(LN2 * difference(x, y)),
    fallback=lambda x, y: expit(np.multiply(LN2, difference(x, y))),
    samples=uniform((-3, 3), (-3, 3)),
    doc="What ``2**x`` is of ``2**x + 2**y``.",
)

logaddexp = elementwise(
    "logaddexp",
    lambda x, y: (x if x > y else y) + log1p(exp(-abs(difference(x, y)))),
    # not exp(x - out), which is NaN where both are infinite
    x=lambda x, y: fraction(x, y),
    y=lambda x, y: fraction(y, x),
    numpy=np.logaddexp,
    samples=uniform((0, 3), (0, 3)),
)

logaddexp2 = elementwise(
    "logaddexp2",
    lambda x, y: (x if x > y else y) + LOG2E * log1p(exp2(-abs(difference(x, y)))),
    x=lambda x, y: fraction2(x, y),
    y=lambda x, y: fraction2(y, x),
    numpy=np.logaddexp2,
    samples=uniform((0, 3), (0, 3)),
)
