"""Powers and roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.protocol import answers, method
from jitgrad.core.samples import uniform
from jitgrad.core.tensor import Tensor
from jitgrad.ops.arithmetic import multiply_absorbing, multiply_no_nan
from jitgrad.ops.casting import asarray, astype
from jitgrad.ops.exponential import log
from jitgrad.ops.selection import where_op

square = elementwise(
    "square",
    lambda x: x * x,
    x=lambda x: 2 * x,
    numpy=np.square,
    node="Pow",
    samples=uniform((-3, 3)),
)

cube = elementwise(
    "cube",
    lambda x: x * x * x,
    x=lambda x: 3 * square(x),
    fallback=lambda x: np.power(x, 3),
    node="Pow",
    samples=uniform((-3, 3)),
    doc="Third power.",
)

reciprocal = elementwise(
    "reciprocal",
    lambda x: 1 / x,
    x=lambda out: -square(out),
    numpy=np.reciprocal,
    samples=uniform((0.5, 3)),
)

sqrt = elementwise(
    "sqrt",
    "sqrt",
    x=lambda out: 0.5 / out,
    numpy=np.sqrt,
    samples=uniform((0.5, 3)),
)

cbrt = elementwise(
    "cbrt",
    "cbrt",
    x=lambda out: 1 / (3 * square(out)),
    numpy=np.cbrt,
    samples=uniform((0.5, 3)),
)

# In y: out * log(x), but 0 at x = 0 for y >= 0, where 0 * -inf is NaN; log(1) stands for log(0) there, so
# that the second derivative is 0 too. Where out is 0 the logarithm is not looked at: inf**-1.
power = elementwise(
    "power",
    "pow",
    x=lambda x, y: power_slope(x, y),
    y=lambda x, y, out: multiply_no_nan(out, log(where_op((x == 0) & (y >= 0), 1.0, x))),
    fallback=np.power,
    node="Pow",
    samples=uniform((0.5, 3), (-2, 3)),
    doc=np.power.__doc__,
)


TINY, HUGE = 2.0**-1022, 1.7976931348623157e308  # the smallest normal number, and the largest


def _power_slope(x: float, y: float) -> float:
    """``y * x**(y - 1)`` without the rounding of y - 1 for small y, which the power multiplies by log(x).

    As ``y * (x**y / x)`` or ``(y / x) * x**y`` where the factors are normal numbers in float64, in which
    float32 is computed too. And 0 where y is 0, also at x = 0, where 0 * 0**-1 is NaN: so the derivatives
    of whole powers at 0 are right to any order, as y, y - 1, y - 2, ... arrive at 0.
    """
    x, y = 1.0 * x, 1.0 * y
    p: float = power(x, y)
    q: float = p / x
    r: float = y / x
    slope: float = y * power(x, y - 1.0)
    # y - 1 is odd, but rounded to an even number
    slope = -slope if (x < 0) & (abs(y) >= 2.0**53) else slope
    if (abs(p) >= TINY) & (abs(p) <= HUGE):
        slope = r * p if (abs(r) >= TINY) & (abs(r) <= HUGE) else slope
        slope = y * q if (abs(q) >= TINY) & (abs(q) <= HUGE) else slope
    slope = p if p != p else slope
    return 0.0 if y == 0 else slope


def _power_slope_of_arrays(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(np.equal(y, 0), 0.0, y * np.power(x, y - 1))


power_slope: Elementwise = elementwise(
    "power_slope",
    _power_slope,
    x=lambda x, y: multiply_no_nan(y, power_slope(x, y - 1)),
    y=lambda x, y: power(x, y - 1) + multiply_absorbing(power_slope(x, y), log(where_op((x == 0) & (y >= 0), 1.0, x))),
    fallback=_power_slope_of_arrays,
    samples=uniform((0.5, 3), (-2, 3)),
    doc="The derivative of ``x**y`` with respect to x.",
)

# NumPy too takes these for scalar exponents.
_BY_EXPONENT: dict[float, Callable[..., Any]] = {
    -1: reciprocal.call,
    0.5: sqrt.call,
    2: square.call,
    3: cube.call,
}


def _raise(x: Any, y: Any, /) -> Any:
    """Elementwise power, as `numpy.power`."""
    if (type(y) is int or type(y) is float) and type(x) is Tensor and x.dtype.kind in "fc":
        short = _BY_EXPONENT.get(y)
        if short is not None:
            return short(x)
    return power.call(x, y)


@method("__pow__")
def _pow(self: Any, other: Any, modulo: None = None, /) -> Any:
    if modulo is not None:
        return NotImplemented
    return _raise(self, other)


@method("__rpow__")
def _rpow(self: Any, other: Any, modulo: None = None, /) -> Any:
    if modulo is not None:
        return NotImplemented
    return power.call(other, self)


answers(np.power, name="pow")(_raise)


@answers(np.float_power)
def float_power(x1: Any, x2: Any, /) -> Any:
    """Elementwise power in float64 or complex128, as `numpy.float_power`."""
    x1, x2 = asarray(x1), asarray(x2)
    wide = np.result_type(x1.dtype, x2.dtype, np.float64)
    return power.call(astype(x1, wide, copy=False), astype(x2, wide, copy=False))
