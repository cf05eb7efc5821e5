"""Hyperbolic functions and their inverses; tanh stands with the logistic function."""

from __future__ import annotations

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.protocol import answers
from jitgrad.core.samples import uniform
from jitgrad.ops.powers import sqrt

sinh = elementwise(
    "sinh",
    "sinh",
    x=lambda x: cosh(x),
    numpy=np.sinh,
    samples=uniform((-3, 3)),
)

cosh: Elementwise = elementwise(
    "cosh",
    "cosh",
    x=lambda x: sinh(x),
    numpy=np.cosh,
    samples=uniform((-3, 3)),
)


def _root(x: float) -> float:
    """``sqrt(1 + x * x)``, which is |x| to rounding long before the square overflows."""
    return abs(x) if abs(x) > 1e9 else np.sqrt(1.0 + x * x)


root_of_sum = elementwise(
    "root_of_sum",
    _root,
    x=lambda x, out: x / out,
    fallback=lambda x: np.sqrt(1 + np.square(x)),
    samples=uniform((-3, 3)),
    doc="``sqrt(1 + x**2)`` without overflow: `cosh` of `arcsinh`.",
)

arcsinh = elementwise(
    "arcsinh",
    "arcsinh",
    # not 1 / sqrt(1 + x**2), which is exactly 0 past |x| = 1e154
    x=lambda x: 1 / root_of_sum(x),
    numpy=np.arcsinh,
    node="Asinh",
    samples=uniform((-3, 3)),
)

arccosh = elementwise(
    "arccosh",
    "arccosh",
    # x**2 - 1 in two factors: no digits are lost near 1, and the square does not overflow
    x=lambda x: 1 / (sqrt(x - 1) * sqrt(x + 1)),
    numpy=np.arccosh,
    node="Acosh",
    samples=uniform((1.5, 3)),
)

arctanh = elementwise(
    "arctanh",
    "arctanh",
    # 1 - x**2 loses eight digits at x = 1 - 1e-8
    x=lambda x: 1 / ((1 - x) * (1 + x)),
    numpy=np.arctanh,
    node="Atanh",
    samples=uniform((-0.8, 0.8)),
)

for _name, _op in (("asinh", arcsinh), ("acosh", arccosh), ("atanh", arctanh)):
    answers(name=_name)(_op.call)
