"""Exponentials and logarithms."""

from __future__ import annotations

import numpy as np

from jitgrad.core.elementwise import elementwise
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
