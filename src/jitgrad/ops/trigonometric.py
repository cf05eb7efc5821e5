"""Trigonometric functions and their inverses, angles and distances in the plane, and sinc."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.protocol import answers
from jitgrad.core.samples import uniform
from jitgrad.errors import NoGradientError
from jitgrad.ops.arithmetic import multiply_no_nan
from jitgrad.ops.casting import asarray, imag, real
from jitgrad.ops.powers import sqrt, square

PI = math.pi
RADIANS = math.pi / 180
DEGREES = 180 / math.pi

sin = elementwise(
    "sin",
    "sin",
    x=lambda x: cos(x),
    numpy=np.sin,
    samples=uniform((-3, 3)),
)

cos: Elementwise = elementwise(
    "cos",
    "cos",
    x=lambda x: -sin(x),
    numpy=np.cos,
    samples=uniform((-3, 3)),
)

tan = elementwise(
    "tan",
    "tan",
    x=lambda out: 1 + square(out),
    numpy=np.tan,
    samples=uniform((-1.2, 1.2)),
)

arcsin = elementwise(
    "arcsin",
    "arcsin",
    # 1 - x**2 loses eight digits at x = 1 - 1e-8
    x=lambda x: 1 / sqrt((1 - x) * (1 + x)),
    numpy=np.arcsin,
    node="Asin",
    samples=uniform((-0.8, 0.8)),
)

arccos = elementwise(
    "arccos",
    "arccos",
    x=lambda x: -1 / sqrt((1 - x) * (1 + x)),
    numpy=np.arccos,
    node="Acos",
    samples=uniform((-0.8, 0.8)),
)

arctan = elementwise(
    "arctan",
    "arctan",
    x=lambda x: 1 / (1 + square(x)),
    numpy=np.arctan,
    node="Atan",
    samples=uniform((-3, 3)),
)


def _distance(x: float, y: float) -> float:
    """The root of the sum of squares, of numbers scaled by a power of two: no square over- or underflows."""
    size = max(abs(x), abs(y))
    scale = 2.0**-600 if size > 2.0**500 else (2.0**600 if size < 2.0**-500 else 1.0)
    back = 2.0**600 if size > 2.0**500 else (2.0**-600 if size < 2.0**-500 else 1.0)
    a, b = x * scale, y * scale
    r = np.sqrt(a * a + b * b) * back
    return np.inf if (abs(x) == np.inf) | (abs(y) == np.inf) else r


def _cosine(x: float, y: float) -> float:
    """From the ratio of the smaller to the larger coordinate; that of equal ones, be they infinite, is 1."""
    a, b = abs(x), abs(y)
    t = 1.0 if a == b else (b / a if a > b else a / b)
    c = (1.0 if a >= b else t) / np.sqrt(1.0 + t * t)
    return x if (x == 0) & (y == y) else math.copysign(c, x)


def _cosine_of_arrays(x: Any, y: Any) -> Any:
    kind = np.result_type(x, y)
    out = cosine_of(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    return out.astype(kind) if kind.kind == "f" else out


# Right where x / hypot(x, y) is NaN, at 0 / 0 and inf / inf.
cosine_of: Elementwise = elementwise(
    "cosine_of",
    _cosine,
    x=lambda x, y: multiply_no_nan(square(cosine_of(y, x)), 1 / hypot(x, y)),
    y=lambda x, y: -multiply_no_nan(cosine_of(x, y) * cosine_of(y, x), 1 / hypot(x, y)),
    fallback=_cosine_of_arrays,
    absorbing="both",
    samples=uniform((0.5, 3), (0.5, 3)),
    doc="Cosine of the angle of the point (x, y): ``x / hypot(x, y)``, and 0 at the origin.",
)

hypot: Elementwise = elementwise(
    "hypot",
    _distance,
    x=lambda x, y: cosine_of(x, y),
    y=lambda x, y: cosine_of(y, x),
    numpy=np.hypot,
    samples=uniform((0.5, 3), (0.5, 3)),
)

arctan2 = elementwise(
    "arctan2",
    "arctan2",
    # not x / (x**2 + y**2), which is 0 at 1e200, infinite at 1e-200, and NaN at the origin, where ours is 0
    y=lambda y, x: multiply_no_nan(cosine_of(x, y), 1 / hypot(x, y)),
    x=lambda y, x: -multiply_no_nan(cosine_of(y, x), 1 / hypot(x, y)),
    numpy=np.arctan2,
    node="Atan2",
    samples=uniform((0.5, 3), (0.5, 3)),
)

radians = elementwise(
    "radians",
    lambda x: x * RADIANS,
    x=lambda: RADIANS,
    numpy=(np.radians, np.deg2rad),
    linear="each",
    absorbing=False,
    node="Deg2Rad",
    samples=uniform((-3, 3)),
)

degrees = elementwise(
    "degrees",
    lambda x: x * DEGREES,
    x=lambda: DEGREES,
    numpy=(np.degrees, np.rad2deg),
    linear="each",
    absorbing=False,
    node="Rad2Deg",
    samples=uniform((-3, 3)),
)


@answers(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """Angle in the complex plane, as `numpy.angle`; that of a real number is 0 or pi, of derivative 0."""
    z = asarray(z)
    turned = arctan2.call(imag(z), real(z)) if z.dtype.kind == "c" else arctan2.call(0, z)
    return degrees.call(turned) if deg else turned


# -- sinc --------------------------------------------------------------------------------------------------


def _sine_of_half_turns(x: float) -> float:
    """From the distance to the nearest integer, which is exact: sin(pi * 5) is 0, not 6e-16."""
    n = np.rint(x)
    value: float = sin(PI * (x - n))
    parity: float = n - 2.0 * np.floor(0.5 * n)
    return value * (1.0 - 2.0 * parity)


def _cosine_of_half_turns(x: float) -> float:
    n = np.rint(x)
    value: float = sin(PI * (0.5 - abs(x - n)))
    parity: float = n - 2.0 * np.floor(0.5 * n)
    return value * (1.0 - 2.0 * parity)


sinpi = elementwise(
    "sinpi",
    _sine_of_half_turns,
    x=lambda x: PI * cospi(x),
    fallback=lambda x: np.sin(np.multiply(PI, x)),
    samples=uniform((-3, 3)),
    doc="``sin(pi * x)``, exactly 0 at the integers.",
)

cospi: Elementwise = elementwise(
    "cospi",
    _cosine_of_half_turns,
    x=lambda x: -PI * sinpi(x),
    fallback=lambda x: np.cos(np.multiply(PI, x)),
    samples=uniform((-3, 3)),
    doc="``cos(pi * x)``, exactly 0 halfway between integers.",
)


def _sinc_derivative(x: float, k: float) -> float:
    """The k-th derivative of ``sin(u) / u`` at ``u = pi * x``, times ``pi**k``.

    From Leibniz' rule for ``u * S(u) = sin(u)``, that is ``u S_k + k S_{k-1} = sin(u + k pi / 2)``, where the
    factors ``k / u`` do not let rounding errors grow; for smaller u from the Taylor series.
    """
    if not (0.0 <= k <= 100.0):
        return np.nan
    x = 1.0 * x  # float32 too is computed in float64
    u = PI * x
    scale = 1.0
    for _ in range(int(k)):
        scale *= PI
    if abs(u) < max(1.5, k):
        m: float = np.ceil(0.5 * k)
        power = 2.0 * m - k
        term: float = u if power == 1.0 else 1.0
        if m % 2.0 == 1.0:
            term = -term
        total = term / (2.0 * m + 1.0)
        for _ in range(12 + 2 * int(k)):
            term *= -(u / (power + 1.0)) * (u / (power + 2.0))
            power += 2.0
            m += 1.0
            total += term / (2.0 * m + 1.0)
        return scale * total
    s, c = sinpi(x), cospi(x)
    value: float = s / u
    for j in range(1, int(k) + 1):
        s, c = c, -s
        value = (s - j * value) / u
    return scale * value


def _sinc_derivative_of_arrays(x: Any, k: Any) -> Any:
    kind = np.result_type(x, k)
    if kind.kind == "c":
        raise NoGradientError("the derivative of sinc at complex numbers is not known; write sin(pi * x) / x")
    out = sinc_derivative(np.asarray(x, dtype=np.float64), np.asarray(k, dtype=np.float64))
    return out.astype(kind) if kind.kind == "f" else out


sinc_derivative: Elementwise = elementwise(
    "sinc_derivative",
    _sinc_derivative,
    x=lambda x, k: sinc_derivative(x, k + 1.0),
    discrete=("k",),
    fallback=_sinc_derivative_of_arrays,
    samples=lambda rng: [((rng.uniform(-3, 3, (3, 4)), rng.integers(0, 4, (3, 4)).astype(np.float32)), {})],
    doc="The derivative of `sinc` of order ``k``, a whole number up to 100.",
)

sinc = elementwise(
    "sinc",
    lambda x: 1.0 if x == 0 else sinpi(x) / (PI * x),
    # not (cos(pi x) - sinc(x)) / x, of whose digits none are right at x = 1e-8
    x=lambda x: sinc_derivative(x, 1.0),
    numpy=np.sinc,
    samples=uniform((-0.5, 0.5)),
)

for _name, _op in (
    ("asin", arcsin),
    ("acos", arccos),
    ("atan", arctan),
    ("atan2", arctan2),
    ("deg2rad", radians),
    ("rad2deg", degrees),
):
    answers(name=_name)(_op.call)
