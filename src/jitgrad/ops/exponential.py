"""Exponentials and logarithms, and the logistic function that derivatives are made of."""

from __future__ import annotations

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.samples import uniform

LN2 = 0.6931471805599453
LOG2E = 1.4426950408889634
LOG10E = 0.4342944819032518

exp = elementwise(
    "exp",
    "exp",
    x=lambda out: out,
    numpy=np.exp,
    samples=uniform((-3, 3)),
)

exp2 = elementwise(
    "exp2",
    "exp2",
    x=lambda out: LN2 * out,
    numpy=np.exp2,
    samples=uniform((-3, 3)),
)

expm1 = elementwise(
    "expm1",
    "expm1",
    # not out + 1, which is exactly 0 below x = -37.43
    x=lambda x: exp(x),
    numpy=np.expm1,
    samples=uniform((-3, 3)),
)

log = elementwise(
    "log",
    "log",
    x=lambda x: 1 / x,
    numpy=np.log,
    samples=uniform((0.5, 3)),
)

log2 = elementwise(
    "log2",
    "log2",
    x=lambda x: LOG2E / x,
    numpy=np.log2,
    samples=uniform((0.5, 3)),
)

log10 = elementwise(
    "log10",
    "log10",
    x=lambda x: LOG10E / x,
    numpy=np.log10,
    samples=uniform((0.5, 3)),
)

log1p = elementwise(
    "log1p",
    "log1p",
    x=lambda x: 1 / (1 + x),
    numpy=np.log1p,
    samples=uniform((-0.5, 3)),
)


def _logistic(x: float) -> float:
    """From the exponential that does not overflow: ``1 / (1 + exp(-x))`` is 0 from x = -709.8 on."""
    e: float = exp(-abs(x))
    return (1.0 if x >= 0 else e) / (1.0 + e)


expit: Elementwise = elementwise(
    "expit",
    _logistic,
    # not out * (1 - out), which is exactly 0 past x = 36.74
    x=lambda x: expit(x) * expit(-x),
    fallback=lambda x: 1 / (1 + np.exp(np.negative(x))),
    node="Sigmoid",
    samples=uniform((-3, 3)),
    doc="Logistic function ``s(x) = 1 / (1 + exp(-x))``.",
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

logaddexp = elementwise(
    "logaddexp",
    lambda x, y: (x if x > y else y) + log1p(exp(-abs(difference(x, y)))),
    # not exp(x - out), which is NaN where both are infinite
    x=lambda x, y: expit(difference(x, y)),
    y=lambda x, y: expit(difference(y, x)),
    numpy=np.logaddexp,
    samples=uniform((-3, 3), (-3, 3)),
)

logaddexp2 = elementwise(
    "logaddexp2",
    lambda x, y: (x if x > y else y) + LOG2E * log1p(exp2(-abs(difference(x, y)))),
    x=lambda x, y: expit(LN2 * difference(x, y)),
    y=lambda x, y: expit(LN2 * difference(y, x)),
    numpy=np.logaddexp2,
    samples=uniform((-3, 3), (-3, 3)),
)
