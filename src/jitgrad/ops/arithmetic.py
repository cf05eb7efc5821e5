"""Arithmetic: the four operations, remainders, absolute values, and the products in derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.op import Op
from jitgrad.core.protocol import answers, method, operator
from jitgrad.core.samples import uniform
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.errors import NoGradientError
from jitgrad.ops.casting import real

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
    node="Mul",
    samples=uniform((-3, 3), (-3, 3)),
    doc="Product that is ``x`` where ``x`` is exactly 0, whatever ``y``, be it infinite or NaN.",
)

multiply_absorbing = elementwise(
    "multiply_absorbing",
    lambda x, y: x if x == 0 else (y if y == 0 else x * y),
    x=lambda y: y,
    y=lambda x: x,
    fallback=lambda x, y: np.where(np.equal(x, 0), x, np.where(np.equal(y, 0), y, np.multiply(x, y))),
    linear="each",
    node="Mul",
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
    doc="Product that is 0 where either factor is exactly 0, whatever the other.",
)

divide = elementwise(
    "divide",
    lambda x, y: x / y,
    x=lambda y: 1 / y,
    # not -x / y**2, whose square overflows at y = 1e155
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

positive = elementwise(
    "positive",
    lambda x: x,
    x=lambda: 1.0,
    numpy=np.positive,
    linear="each",
    absorbing=False,
    node="Alias",
    samples=uniform((-3, 3)),
)


class _Sign(Elementwise):
    """`sign`: its derivative at complex numbers, ``z / abs(z)``, is no multiple of a tangent."""

    def contribution(self, k: int, g: Any, residuals: Sequence[Any]) -> Any:
        """Return 0, or refuse."""
        if g.dtype.kind == "c":
            raise NoGradientError("sign of complex numbers has no derivative that jitgrad knows: write z / abs(z)")
        return super().contribution(k, g, residuals)


class _Absolute(Elementwise):
    """`absolute`: of a complex number it is real, and moves by the real part of ``conj(sign(z))`` times a tangent."""

    def contribution(self, k: int, g: Any, residuals: Sequence[Any]) -> Any:
        """Return what a cotangent, which is real, or a tangent contributes."""
        (x,) = residuals
        if x.dtype.kind != "c":
            return super().contribution(k, g, residuals)
        product = multiply_no_nan(g, conjugate(sign(x)))
        return real(product) if g.dtype.kind == "c" else product


sign = _Sign(
    "sign",
    lambda x: x if x != x else (1.0 if x > 0 else (-1.0 if x < 0 else 0.0)),
    ("x",),
    {"x": lambda: 0.0},
    fallback=np.sign,
    absorbing="both",
    node=None,
    numpy=(np.sign,),
    samples=uniform((-3, 3)),
    linear=None,
    doc=np.sign.__doc__,
)

# At 0 the derivative is taken to be 0, the middle of -1 and 1.
absolute = _Absolute(
    "absolute",
    lambda x: abs(x),
    ("x",),
    {"x": lambda x: sign(x)},
    fallback=np.absolute,
    absorbing=True,
    node="Abs",
    numpy=(np.absolute,),
    samples=uniform((-3, 3)),
    linear=None,
    doc=np.absolute.__doc__,
)

fabs = elementwise(
    "fabs",
    lambda x: abs(x),
    x=lambda x: sign(x),
    numpy=np.fabs,
    node="Abs",
    samples=uniform((-3, 3)),
)

copysign: Elementwise = elementwise(
    "copysign",
    lambda x, y: math.copysign(x, y),
    # from the sign bit, as the sign of y is lost at y = -0.0 in sign(y)
    x=lambda x, y: sign(x) * copysign(1.0, y),
    y=lambda: 0.0,
    numpy=np.copysign,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
)


def _quotient(x: float, y: float) -> float:
    """From the exact remainder, as NumPy: ``1 // 0.1`` is 9 though ``1 / 0.1`` rounds to 10."""
    rest: float = np.fmod(x, y)
    q = (x - rest) / y
    if rest != 0 and (y < 0) != (rest < 0):
        q = q - 1.0
    below: float = np.floor(q)
    if q - below > 0.5:
        below = below + 1.0
    if q == 0:
        below = math.copysign(0.0, x / y)
    return x / y if y == 0 else below


def _modulus(x: float, y: float) -> float:
    rest: float = np.fmod(x, y)
    if rest == 0:
        return math.copysign(0.0, y)
    return rest + y if (y < 0) != (rest < 0) else rest


floor_divide = elementwise(
    "floor_divide",
    _quotient,
    x=lambda: 0.0,
    y=lambda: 0.0,
    numpy=np.floor_divide,
    absorbing="both",
    samples=uniform((-3, 3), (0.5, 3)),
)

remainder = elementwise(
    "remainder",
    _modulus,
    x=lambda: 1.0,
    y=lambda x, y: -floor_divide(x, y),
    numpy=np.remainder,
    samples=uniform((-3, 3), (0.5, 3)),
)

fmod = elementwise(
    "fmod",
    lambda x, y: np.fmod(x, y),
    x=lambda: 1.0,
    # trunc(x / y), of the exact quotient
    y=lambda x, y: -sign(x) * sign(y) * floor_divide(absolute(x), absolute(y)),
    numpy=np.fmod,
    samples=uniform((-3, 3), (0.5, 3)),
)


@method("__divmod__")
@answers(np.divmod)
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:  # noqa: A001
    """Quotient and remainder, as `numpy.divmod`."""
    return floor_divide(x1, x2), remainder(x1, x2)


@method("__rdivmod__")
def _rdivmod(self: Any, other: Any) -> tuple[Any, Any]:
    return floor_divide(other, self), remainder(other, self)


def _ldexp_rule(g: Any, n: Any) -> Any:
    return ldexp(g, n)


ldexp = Op(
    "ldexp",
    lambda x, n: np.ldexp(x, n),
    ("x", "n"),
    rules={"x": _ldexp_rule},
    discrete=("n",),
    numpy=(np.ldexp,),
    samples=lambda rng: [((rng.uniform(-3, 3, (3, 4)), rng.integers(-3, 4, (4,))), {})],
    doc=np.ldexp.__doc__,
)


exponent_op = Op(
    "exponent",
    lambda x: np.frexp(x)[1],
    ("x",),
    rules={},
    discrete=("x",),
    samples=uniform((-30, 30)),
    doc="The exponent of two that `frexp` returns.",
)


@answers(np.frexp)
def frexp(x: Any, /) -> tuple[Any, Any]:
    """Mantissa and exponent of two, as `numpy.frexp`; the exponent has no derivative."""
    if type(x) is not Tensor:
        mantissa, exponent = np.frexp(x)
        return mantissa, exponent
    exponent = exponent_op(x)
    return ldexp(x, np.negative(exponent)), exponent


def _modf_rule(g: Any) -> Any:
    return g[0]


modf = Op(
    "modf",
    lambda x: np.modf(x),
    ("x",),
    rules={"x": _modf_rule},
    n_results=2,
    numpy=(np.modf,),
    samples=uniform((-3, 3)),
    doc=np.modf.__doc__,
)


def _conjugate_rule(g: Any, x_t: ArrayType) -> Any:
    return conjugate(g) if x_t.dtype.kind == "c" else g


conjugate = Op(
    "conjugate",
    lambda x: np.conjugate(x),
    ("x",),
    rules={"x": _conjugate_rule},
    node="Conj",
    numpy=(np.conjugate,),
    samples=uniform((-3, 3)),
    doc=np.conjugate.__doc__,
)


@method("conj", "conjugate")
def _conjugate_method(self: Any) -> Any:
    """Return the complex conjugate, as `numpy.ndarray.conj`."""
    return conjugate(self)


operator(add, "add")
operator(subtract, "sub")
operator(multiply, "mul")
operator(divide, "truediv")
operator(floor_divide, "floordiv")
operator(remainder, "mod")
method("__neg__")(negative.call)
method("__pos__")(positive.call)
method("__abs__")(absolute.call)
answers(name="abs")(absolute.call)
answers(name="true_divide")(divide.call)
answers(name="mod")(remainder.call)
answers(name="conj")(conjugate)
