"""Arithmetic: the four operations, remainders, powers, and the products that derivatives are made of."""

from __future__ import annotations

import numpy as np

from jitgrad.core.elementwise import elementwise
from jitgrad.core.protocol import method, operator
from jitgrad.core.samples import uniform

# ruff: noqa: E731  (declarations read best with the expressions in place)

add = elementwise(
    "add",
    lambda x, y: x + y,
    x=lambda: 1.0,
    y=lambda: 1.0,
    numpy=np.add,
    linear="jointly",
    absorbing=False,
    samples=uniform((-3, 3), (-3, 3)),
)

subtract = elementwise(
    "subtract",
    lambda x, y: x - y,
    x=lambda: 1.0,
    y=lambda: -1.0,
    numpy=np.subtract,
    linear="jointly",
    absorbing=False,
    node="Sub",
    samples=uniform((-3, 3), (-3, 3)),
)

multiply = elementwise(
    "multiply",
    lambda x, y: x * y,
    x=lambda y: y,
    y=lambda x: x,
    numpy=np.multiply,
    linear="each",
    node="Mul",
    samples=uniform((-3, 3), (-3, 3)),
)

multiply_no_nan = elementwise(
    "multiply_no_nan",
    lambda x, y: x if x == 0 else x * y,
    x=lambda y: y,
    y=lambda x: x,
    fallback=lambda x, y: np.where(np.equal(x, 0), x, np.multiply(x, y)),
    linear="each",
    samples=uniform((-3, 3), (-3, 3)),
    doc="Product that is ``x`` where ``x`` is exactly 0, whatever ``y``: infinite and NaN partials are not looked at.",
)

divide = elementwise(
    "divide",
    lambda x, y: x / y,
    x=lambda y: 1 / y,
    y=lambda out, y: -out / y,
    numpy=np.divide,
    node="Div",
    samples=uniform((-3, 3), (0.5, 3)),
)

negative = elementwise(
    "negative",
    lambda x: -x,
    x=lambda: -1.0,
    numpy=np.negative,
    linear="each",
    absorbing=False,
    node="Neg",
    samples=uniform((-3, 3)),
)

tanh = elementwise(
    "tanh",
    "tanh",
    x=lambda out: 1 - out * out,
    numpy=np.tanh,
    samples=uniform((-3, 3)),
)

operator(add, "add")
operator(subtract, "sub")
operator(multiply, "mul")
operator(divide, "truediv")
method("__neg__")(negative.call)
