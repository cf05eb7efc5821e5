"""Elementwise families: the special points, ties, powers at zero, operators, and NumPy's signatures and dtypes."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

import mpmath
import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import FUNCTIONS, NAMESPACE, REGISTRY, Op
from jitgrad.core.tensor import Tensor, constant
from jitgrad.errors import NoGradientError, ShapeError
from tests.laws.cases import every_op, parts

# NumPy 2.5 deprecates np.fix, with which ours is compared for as long as it is there.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")

mpmath.mp.dps = 60
INF, NAN = math.inf, math.nan


def derivatives(f: Callable[[Any], Any], x: float, order: int) -> list[float]:
    """The first derivatives of a function of one number."""
    found = []
    for _ in range(order):
        f = jg.grad(f)
        found.append(float(f(np.float64(x))))
    return found


def partials(f: Callable[..., Any], *point: float) -> list[float]:
    """The first derivatives of a function of several numbers, by reverse and by forward mode."""
    arrays = [np.float64(x) for x in point]
    bars = jg.vjp(f, *arrays)[1](np.float64(1.0))
    pushed = [jg.jvp(f, arrays, [np.float64(float(j == k)) for j in range(len(arrays))])[1] for k in range(len(arrays))]
    np.testing.assert_array_equal(np.array(bars), np.array(pushed))
    return [float(bar) for bar in bars]


# -- values and dtypes ------------------------------------------------------------------------------------------

UNARY = [
    "negative",
    "positive",
    "sign",
    "absolute",
    "fabs",
    "square",
    "reciprocal",
    "sqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "radians",
    "degrees",
    "deg2rad",
    "rad2deg",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "fix",
    "round",
    "sinc",
    "conjugate",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "isneginf",
    "isposinf",
    "isreal",
    "iscomplex",
    "logical_not",
    "nan_to_num",
    "angle",
    "clip_of_one",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "heaviside",
    "hypot",
    "arctan2",
    "logaddexp",
    "logaddexp2",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "isclose",
    "where_positive",
]
ALIASES = [
    "abs",
    "mod",
    "true_divide",
    "conj",
    "around",
    "pow",
    "asin",
    "acos",
    "atan",
    "atan2",
    "asinh",
    "acosh",
    "atanh",
]
DTYPES = "?bhilBQefdgFD"
SPECIAL = {
    "clip_of_one": lambda np_, x: np_.clip(x, 0, 2),
    "where_positive": lambda np_, x, y: np_.where(np.asarray([True, False, True]), x, y),
}


class Ours:
    """Attribute access to the functions that answer for NumPy's."""

    def __getattr__(self, name: str) -> Any:
        return NAMESPACE[name]


def run(name: str, namespace: Any, args: list[Any]) -> Any:
    """Run a function from NumPy or from us: what it returns, or the type of the error that it raises."""
    function = SPECIAL[name] if name in SPECIAL else lambda np_, *xs: getattr(np_, name)(*xs)
    with np.errstate(all="ignore"):
        try:
            return function(namespace, *args)
        except TypeError:
            return TypeError


def assert_numpys(name: str, args: list[Any]) -> None:
    """Assert what NumPy returns: on arrays, and on tensors through our functions and NumPy's."""
    expected = run(name, np, args)
    tensors = [constant(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    for found in (run(name, Ours(), args), run(name, Ours(), tensors), run(name, np, tensors)):
        if expected is TypeError:
            assert found is TypeError
            continue
        value = found._value if isinstance(found, Tensor) else found
        wanted = np.asarray(expected)
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in "fc":
            eps = np.finfo(wanted.dtype).eps
            # NumPy's sinc(1) is sin(3.14159...), which is not 0
            np.testing.assert_allclose(value, wanted, rtol=2 * eps, atol=eps if name == "sinc" else 0)
        else:
            np.testing.assert_array_equal(value, wanted)
    if expected is not TypeError:
        assert isinstance(run(name, Ours(), tensors), Tensor)


@pytest.mark.parametrize("name", UNARY)
def test_unary_dtypes_are_numpys(name: str) -> None:
    for code in DTYPES:
        assert_numpys(name, [np.array([0, 1, 0.7 if code in "efdgFD" else 1]).astype(code)])


@pytest.mark.parametrize("name", BINARY)
def test_binary_dtypes_are_numpys(name: str) -> None:
    x, y = np.array([0, 1, 2]), np.array([1, 2, 2])
    for left, right in itertools.product(DTYPES, "?lQfdD"):
        assert_numpys(name, [x.astype(left), y.astype(right)])
    for scalar in (2, 0.5, True, np.float32(2), np.float64(0.5), np.int8(2)):
        for code in "lfd":
            assert_numpys(name, [x.astype(code), scalar])
            assert_numpys(name, [scalar, y.astype(code)])


OPERANDS = {f: f.nin for f in FUNCTIONS if isinstance(f, np.ufunc) and f.signature is None} | {
    **{f: len(op.operands or ()) for op in REGISTRY.values() if isinstance(op, Elementwise) for f in op.numpy},
    **dict.fromkeys([np.where, np.clip], 3),
    **dict.fromkeys([np.round, np.nan_to_num, np.real, np.imag, np.angle, np.isreal, np.iscomplex], 1),
    np.isclose: 2,
}
SCALARS = [1, 2, 3, 0, -2, True, False, 0.5, 2.0, -1.5, 0.3 + 1j]
NUMPY_SCALARS = [np.float32(0.5), np.float64(3.0), np.int32(3), np.int8(2), np.uint8(4), np.bool_(True)]


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results, or the type of the error."""
    try:
        with np.errstate(all="ignore"):
            return parts(function(*args))
    except (TypeError, ValueError, OverflowError) as error:
        return (type(error),)


@pytest.mark.parametrize("function", OPERANDS, ids=lambda f: f.__name__)
def test_of_scalars_value_and_dtype_are_numpys(function: Callable[..., Any]) -> None:
    n = OPERANDS[function]
    several = SCALARS[:8] if n == 3 else [*SCALARS, *NUMPY_SCALARS]
    for args in itertools.product(several, repeat=n):
        wanted, found = outcome(function, args), outcome(FUNCTIONS[function], args)
        assert len(found) == len(wanted)
        for ours, numpys in zip(found, wanted, strict=True):
            assert type(ours) is type(numpys), args
            if not isinstance(numpys, type):
                assert np.asarray(ours).dtype == np.asarray(numpys).dtype, args
                # NumPy's own sine of pi, in sinc, is not 0
                exact = np.asarray(numpys).dtype.kind not in "fc"
                eps = 0.0 if exact else 8 * np.finfo(np.asarray(numpys).dtype).eps
                np.testing.assert_allclose(ours, numpys, rtol=eps, atol=eps * (function is np.sinc), err_msg=str(args))


def test_names_that_numpy_gives_twice() -> None:
    for name in ALIASES:
        assert NAMESPACE[name] is FUNCTIONS[getattr(np, name)], name


@pytest.mark.parametrize("decimals", [0, 1, -1, 3])
def test_round(decimals: int) -> None:
    for code in "lfd":
        x = np.array([1.25, -2.5, 13.75, 0.5, 1.5]).astype(code)
        for found in (np.round(constant(x), decimals), constant(x).round(decimals), round(constant(x), decimals)):
            np.testing.assert_array_equal(found._value, np.round(x, decimals), strict=True)
    assert derivatives(lambda x: np.round(x, decimals) * x, 2.6, 1) == [np.round(2.6, decimals)]


def test_parts_of_numbers() -> None:
    x = np.array([2.75, -1.5])
    part, whole = NAMESPACE["modf"](constant(x))
    np.testing.assert_array_equal(part._value, [0.75, -0.5])
    np.testing.assert_array_equal(whole._value, [2.0, -1.0])
    np.testing.assert_array_equal(jg.grad(lambda x: (np.modf(x)[0] * np.modf(x)[1]).sum())(x), [2.0, -1.0])
    mantissa, exponent = np.frexp(constant(x))
    np.testing.assert_array_equal(mantissa._value, np.frexp(x)[0])
    np.testing.assert_array_equal(exponent._value, np.frexp(x)[1], strict=True)
    np.testing.assert_array_equal(jg.grad(lambda x: np.frexp(x)[0].sum())(x), [0.25, 0.5])
    np.testing.assert_array_equal(jg.grad(lambda x: np.ldexp(x, np.array([3, -1])).sum())(x), [8.0, 0.5])


# -- derivatives at special points --------------------------------------------------------------------------------

mp = mpmath.mp
SMOOTH: list[tuple[str, Any, list[float]]] = [
    ("tanh", mp.tanh, [0.0, 0.3, -2.0, 19.07, 25.0]),
    ("exp", mp.exp, [0.0, -40.0]),
    ("exp2", lambda x: mp.power(2, x), [0.0, 3.0]),
    ("expm1", mp.expm1, [0.0, 1e-9, -40.0]),
    ("log", mp.log, [1.0, 1e-9, 1e9]),
    ("log2", lambda x: mp.log(x) / mp.log(2), [1.0, 8.0]),
    ("log10", lambda x: mp.log(x) / mp.log(10), [1.0, 1e-3]),
    ("log1p", mp.log1p, [0.0, 1e-9, -0.999999, 1e9]),
    ("sin", mp.sin, [0.0, 1.0, 100.0]),
    ("cos", mp.cos, [0.0, 1.0, 100.0]),
    ("tan", mp.tan, [0.0, 1.5]),
    ("arcsin", mp.asin, [0.0, 0.5, 1 - 1e-8, -1 + 1e-8]),
    ("arccos", mp.acos, [0.0, 0.5, 1 - 1e-8, -1 + 1e-8]),
    ("arctan", mp.atan, [0.0, 1.0, 1e5]),
    ("sinh", mp.sinh, [0.0, 1.0]),
    ("cosh", mp.cosh, [0.0, 1.0]),
    ("arcsinh", mp.asinh, [0.0, 1.0, 1e5]),
    ("arccosh", mp.acosh, [1 + 1e-8, 2.0, 1e5]),
    ("arctanh", mp.atanh, [0.0, 0.5, 1 - 1e-8]),
    ("sqrt", mp.sqrt, [1e-9, 1.0]),
    ("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), [1e-9, -8.0]),
    ("square", lambda x: x * x, [0.0, -3.0]),
    ("reciprocal", lambda x: 1 / x, [1e-3, -3.0]),
]


@pytest.mark.parametrize(("name", "truth", "points"), SMOOTH, ids=[name for name, *_ in SMOOTH])
def test_derivatives_to_third_order(name: str, truth: Any, points: list[float]) -> None:
    for x in points:
        for order, found in enumerate(derivatives(getattr(np, name), x, 3), 1):
            expected = float(mpmath.diff(truth, mpmath.mpf(x), order, h=mpmath.mpf(10) ** -25))
            # zero to the derivative of a function of size 1; the differences are of 60 digits
            assert found == pytest.approx(
                expected, rel=2e-13, abs=1e-15 if expected and abs(expected) < 1e-14 else 1e-13
            )


def test_tanh_does_not_saturate() -> None:
    for x in (19.07, 25.0, -30.0, 300.0):
        assert derivatives(np.tanh, x, 1)[0] == pytest.approx(float(mpmath.sech(x) ** 2), rel=1e-14)
    assert derivatives(np.tanh, 0.0, 3) == [1.0, 0.0, -2.0]


def sinc_derivative(order: int, x: float) -> float:
    """From the integral of ``t**k cos(pi x t + k pi / 2)``, which has no special points."""
    with mpmath.workdps(30):
        u = mpmath.pi * mpmath.mpf(x)
        integral = mpmath.quad(lambda t: t**order * mpmath.cos(u * t + order * mpmath.pi / 2), mpmath.linspace(0, 1, 5))
    return float(mpmath.pi**order * integral)


@pytest.mark.parametrize("x", [0.0, 1e-12, 1e-8, 1e-4, -0.3, 0.4774, 0.4776, 1.0, 1.2732, 2.5, 7.0])
def test_sinc_derivatives(x: float) -> None:
    for order, found in enumerate(derivatives(np.sinc, x, 5), 1):
        expected = sinc_derivative(order, x)
        assert found == pytest.approx(expected, rel=1e-13, abs=1e-14 * math.pi**order * (x != 0 or order % 2))


def test_sinc_values_are_exact_at_integers() -> None:
    np.testing.assert_array_equal(NAMESPACE["sinc"](np.array([0.0, 1.0, -2.0, 1e15])), [1.0, 0.0, 0.0, 0.0])


def test_sqrt_at_zero() -> None:
    assert derivatives(np.sqrt, 0.0, 1) == [INF]
    assert derivatives(np.cbrt, 0.0, 1) == [INF]
    # what is not looked at has no derivative, be it infinite
    assert derivatives(lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 2) == [0.0, 0.0]
    assert derivatives(lambda x: 0.0 * np.sqrt(x), 0.0, 1) == [0.0]


def test_absolute_and_sign_at_zero() -> None:
    for f in (np.abs, np.fabs, abs):
        assert derivatives(f, 0.0, 2) == [0.0, 0.0]
        assert derivatives(f, -2.0, 2) == [-1.0, 0.0]
    assert derivatives(np.sign, 0.0, 2) == [0.0, 0.0]


def test_absolute_of_complex_numbers() -> None:
    z = np.array([3.0 + 4.0j, -1.0, 0.0])
    out, pullback = jg.vjp(np.abs, z)
    np.testing.assert_array_equal(out, [5.0, 1.0, 0.0])
    np.testing.assert_allclose(pullback(np.ones(3))[0], [0.6 - 0.8j, -1.0, 0.0], rtol=1e-15)
    np.testing.assert_allclose(jg.jvp(np.abs, (z,), (np.array([1.0j, 1.0, 1.0]),))[1], [0.8, -1.0, 0.0])
    with pytest.raises(NoGradientError, match="complex"):
        jg.vjp(np.sign, z)[1](z)


def test_steps_have_derivative_zero() -> None:
    for f in (np.floor, np.ceil, np.trunc, np.rint, np.fix, np.sign, math.floor, math.ceil, math.trunc, round):
        assert derivatives(lambda x: f(x) + x * 3, 1.25, 2) == [3.0, 0.0]  # noqa: B023
        np.testing.assert_array_equal(jg.grad(lambda x: f(x).sum())(np.array([0.5])), [0.0])  # noqa: B023
    assert partials(np.heaviside, 0.0, 0.3) == [0.0, 1.0]
    assert partials(np.heaviside, 2.0, 0.3) == [0.0, 0.0]
    assert partials(np.floor_divide, 7.0, 2.0) == [0.0, 0.0]


def test_remainders() -> None:
    for x, y in itertools.product((7.5, -7.5, 0.5), (2.0, -2.0, 0.1)):
        assert partials(np.remainder, x, y) == [1.0, -np.floor_divide(x, y)]
        assert partials(np.fmod, x, y) == [
            1.0,
            -float(mpmath.mpf(x) / mpmath.mpf(y) // 1) if x / y > 0 else float(-mpmath.mpf(x) / mpmath.mpf(y) // 1),
        ]


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_remainders_are_numpys(name: str) -> None:
    points = np.array([0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 7.5, 1e300, -5e-324, INF, -INF, NAN])
    x, y = (points.copy() for _ in range(2))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x[:, None], y)
    found = NAMESPACE[name](x[:, None], y)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


# -- powers -------------------------------------------------------------------------------------------------------


def falling(y: float, order: int) -> float:
    """``y (y - 1) (y - 2) ...``."""
    return math.prod(y - k for k in range(order))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 0.0, 1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("spelling", ["operator", "power", "array", "float_power"])
def test_whole_powers_have_all_derivatives(exponent: float, spelling: str) -> None:
    def f(x: Any) -> Any:
        if spelling == "operator":
            return x**exponent
        if spelling == "float_power":
            return np.float_power(x, exponent)
        return np.power(x, exponent if spelling == "power" else np.float64(exponent))

    for x in (0.0, -1.5, 2.0):
        expected = [falling(exponent, k) * (x ** (exponent - k) if exponent >= k else 0.0) for k in range(1, 5)]
        assert derivatives(f, x, 4) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("exponent", [-1, -2, 0.5, -0.5, 1.5, 2.5, -3.0])
def test_other_powers(exponent: float) -> None:
    expected = [falling(exponent, k) * 2.0 ** (exponent - k) for k in range(1, 4)]
    assert derivatives(lambda x: x**exponent, 2.0, 3) == pytest.approx(expected, rel=1e-15)
    assert derivatives(lambda x: np.power(x, np.float64(exponent)), 2.0, 3) == pytest.approx(expected, rel=1e-15)
    infinite = derivatives(lambda x: x**exponent, 0.0, 1)[0]
    assert abs(infinite) == (INF if exponent < 1 else 0.0)


def test_powers_in_the_exponent() -> None:
    assert partials(np.power, 2.0, 3.0) == pytest.approx([12.0, 8.0 * math.log(2.0)], rel=1e-15)
    assert partials(np.power, 0.0, 2.0) == [0.0, 0.0]
    assert partials(np.power, 0.0, 0.0) == [0.0, 0.0]
    assert partials(np.power, 0.0, 1.0) == [1.0, 0.0]
    assert partials(np.power, 0.0, -1.0) == [-INF, -INF]
    assert partials(np.power, INF, -1.0) == [0.0, 0.0]
    in_x, in_y = partials(np.power, -2.0, 3.0)
    assert in_x == 12.0
    assert math.isnan(in_y)  # there is no real power near by
    assert derivatives(lambda y: 0.0**y, 2.0, 3) == [0.0, 0.0, 0.0]
    assert derivatives(lambda y: 2.0**y, 3.0, 3) == pytest.approx([8 * math.log(2) ** k for k in (1, 2, 3)], rel=2e-15)


def test_powers_of_integers_are_integers() -> None:
    x = constant(np.array([1, 2, 3]))
    for exponent in (2, 3):
        np.testing.assert_array_equal((x**exponent)._value, np.array([1, 2, 3]) ** exponent, strict=True)
    np.testing.assert_array_equal((x**0.5)._value, np.array([1, 2, 3]) ** 0.5)
    with pytest.raises(ValueError, match="negative integer powers"):
        x**-1
    np.testing.assert_array_equal((2**x)._value, 2 ** np.array([1, 2, 3]), strict=True)


def test_powers_of_negative_numbers_and_infinities() -> None:
    x = np.array([-INF, -2.0, -0.0, 0.0, INF, NAN])
    for exponent in (2, 3, -1, 0.5, 0, 1):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal((constant(x) ** exponent)._value, x**exponent)


# -- pairs of infinities and zeros ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("f", "base"), [(np.logaddexp, math.e), (np.logaddexp2, 2.0)])
def test_logaddexp_at_infinities(f: Any, base: float) -> None:
    for infinity in (INF, -INF):
        assert partials(f, infinity, infinity) == [0.5, 0.5]
    assert partials(f, -INF, 1.0) == [0.0, 1.0]
    assert partials(f, INF, 1.0) == [1.0, 0.0]
    slope = math.log(base)
    second = jg.hessian(lambda v: f(v[0], v[1]))
    for x in (0.0, -INF, 1e300):
        expected = np.array([[0.25, -0.25], [-0.25, 0.25]]) * slope
        np.testing.assert_allclose(second(np.array([x, x])), expected, rtol=1e-15)


def test_distances_and_angles() -> None:
    assert partials(np.hypot, 0.0, 0.0) == [0.0, 0.0]
    assert partials(np.arctan2, 0.0, 0.0) == [0.0, 0.0]
    np.testing.assert_array_equal(jg.hessian(lambda v: np.hypot(v[0], v[1]))(np.zeros(2)), np.zeros((2, 2)))
    np.testing.assert_array_equal(jg.hessian(lambda v: np.arctan2(v[0], v[1]))(np.zeros(2)), np.zeros((2, 2)))
    for size in (1e-300, 1e-170, 1.0, 1e170, 1e300):
        assert partials(np.hypot, 3 * size, 4 * size) == pytest.approx([0.6, 0.8], rel=1e-15)
        assert [p * size for p in partials(np.arctan2, 3 * size, 4 * size)] == pytest.approx([0.16, -0.12], rel=1e-15)
        assert NAMESPACE["hypot"](3 * size, 4 * size) == pytest.approx(5 * size, rel=1e-15)
    assert partials(np.hypot, INF, 1.0) == [1.0, 0.0]
    assert partials(np.arctan2, INF, 1.0) == [0.0, 0.0]
    assert np.hypot(INF, NAN) == INF == NAMESPACE["hypot"](INF, NAN)


def test_angle_of_real_numbers() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(np.angle(constant(x), deg=True)._value, np.angle(x, deg=True))
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(np.angle(x) * x))(x), np.angle(x))


def test_inverse_hyperbolic_far_out() -> None:
    for x in (1e160, 1e300):
        assert partials(np.arcsinh, x) == pytest.approx([1 / x], rel=1e-15)
        assert partials(np.arccosh, x) == pytest.approx([1 / x], rel=1e-15)
        assert partials(np.divide, 1.0, x)[1] == pytest.approx(-1 / x / x)


# -- choices --------------------------------------------------------------------------------------------------------


def test_ties_split_evenly() -> None:
    for f in (np.maximum, np.minimum, np.fmax, np.fmin):
        for x in (1.0, 0.0, INF, -INF):
            assert partials(f, x, x) == [0.5, 0.5]
        assert sum(partials(f, -0.0, 0.0)) == 1.0
    assert partials(np.maximum, 2.0, 1.0) == partials(np.minimum, 1.0, 2.0) == [1.0, 0.0]
    assert partials(np.maximum, 1.0, 2.0) == partials(np.minimum, 2.0, 1.0) == [0.0, 1.0]
    assert derivatives(lambda x: np.maximum(x, x), 3.0, 2) == [1.0, 0.0]


def test_nan_among_the_choices() -> None:
    for f in (np.fmax, np.fmin):
        assert partials(f, NAN, 1.0) == [0.0, 1.0]
        assert partials(f, 1.0, NAN) == [1.0, 0.0]
        assert sum(partials(f, NAN, NAN)) == 1.0
    for f in (np.maximum, np.minimum):
        # the result is NaN, and its gradient does not vanish in silence
        assert partials(f, NAN, 1.0)[0] == partials(f, 1.0, NAN)[1] == 1.0


def test_what_is_not_chosen_has_no_derivative() -> None:
    """Though its cotangent is infinite: the root of 0."""
    for f in (
        lambda x: np.sqrt(np.maximum(x, 0.0)),
        lambda x: np.sqrt(-np.minimum(-x, 0.0)),
        lambda x: np.sqrt(np.clip(x, 0.0, 1.0)),
        lambda x: np.sqrt(np.where(x > 0, x, 0.0)),
        lambda x: np.sqrt(np.fmax(x, 0.0)),
        lambda x: np.sqrt(np.floor(x) + 2.0),
        lambda x: np.sqrt(np.nan_to_num(x * INF, neginf=0.0)),
    ):
        assert derivatives(f, -1.5, 2) == [0.0, 0.0]
        assert jg.jvp(f, (np.float64(-1.5),), (np.float64(1.0),))[1] == 0.0


CLIPS: list[tuple[tuple[float, float, float], list[float]]] = [
    ((0.5, 0.0, 1.0), [1.0, 0.0, 0.0]),
    ((-1.0, 0.0, 1.0), [0.0, 1.0, 0.0]),
    ((2.0, 0.0, 1.0), [0.0, 0.0, 1.0]),
    ((0.0, 0.0, 1.0), [0.5, 0.5, 0.0]),
    ((1.0, 0.0, 1.0), [0.5, 0.0, 0.5]),
    ((2.0, 2.0, 2.0), [0.25, 0.25, 0.5]),
    ((0.5, 1.0, 0.0), [0.0, 0.0, 1.0]),
]


@pytest.mark.parametrize(("point", "expected"), CLIPS)
def test_clip(point: tuple[float, float, float], expected: list[float]) -> None:
    assert partials(np.clip, *point) == expected
    assert partials(lambda x, low, high: np.minimum(np.maximum(x, low), high), *point) == expected
    x, low, high = point
    assert derivatives(lambda x: np.clip(x, low, high), x, 2) == [expected[0], 0.0]


def test_clip_signatures() -> None:
    x = np.array([-1.0, 0.5, 3.0])
    forms: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda a: np.clip(a, 0, None), [0.0, 1.0, 1.0]),
        (lambda a: np.clip(a, None, 1), [1.0, 1.0, 0.0]),
        (lambda a: np.clip(a, a_min=0, a_max=1), [0.0, 1.0, 0.0]),
        (lambda a: np.clip(a, min=0, max=1), [0.0, 1.0, 0.0]),
        (lambda a: a.clip(0, 1), [0.0, 1.0, 0.0]),
        (lambda a: a.clip(max=1), [1.0, 1.0, 0.0]),
        (lambda a: np.clip(a, np.array([[0.0], [1.0]]), 2), [0.0, 1.0, 0.0]),
        (lambda a: np.clip(a, None, None), [1.0, 1.0, 1.0]),
    ]
    for form, expected in forms:
        np.testing.assert_array_equal(jg.vjp(form, x)[0], form(x), strict=True)
        np.testing.assert_array_equal(jg.grad(lambda a: form(a).sum())(x), expected)  # noqa: B023
    bound = np.array([0.0, 1.0, 5.0])
    np.testing.assert_array_equal(jg.grad(lambda b: np.clip(x, b, 4.0).sum())(bound), [1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="not both"):
        np.clip(constant(x), 0, 1, min=0)
    with pytest.raises(TypeError, match="out"):
        np.clip(constant(x), 0, 1, out=np.empty(3))


def test_where() -> None:
    condition = np.array([True, False, True])
    x, y = np.array([1.0, 2.0, 3.0]), np.array(5.0)
    out, pullback = jg.vjp(lambda x, y: np.where(condition, x, y), x, y)
    np.testing.assert_array_equal(out, [1.0, 5.0, 3.0])
    bars = pullback(np.array([1.0, 10.0, 100.0]))
    np.testing.assert_array_equal(bars[0], [1.0, 0.0, 100.0])
    assert bars[1] == 10.0
    # lists of tensors; a condition that varies; Python scalars
    np.testing.assert_array_equal(
        jg.grad(lambda x: NAMESPACE["where"]([x[0] > 0, x[1] > 5], [x[0], x[1]], 0.0).sum())(x), [1.0, 0.0, 0.0]
    )
    np.testing.assert_array_equal(jg.grad(lambda x: np.where(x - 2.0, x, 7.0).sum())(x), [1.0, 0.0, 1.0])
    assert np.where(constant(condition), constant(x.astype(np.float32)), 0.0).dtype == np.float32
    np.testing.assert_array_equal(np.where(constant(condition))[0], [0, 2])
    with pytest.raises(ValueError, match="both or neither"):
        NAMESPACE["where"](condition, x)


def test_nan_to_num() -> None:
    x = np.array([1.0, NAN, INF, -INF])
    for kwargs in ({}, {"nan": 2.0}, {"posinf": 3.0, "neginf": -3.0}):
        out, pullback = jg.vjp(lambda x: np.nan_to_num(x, **kwargs), x)  # noqa: B023
        np.testing.assert_array_equal(out, np.nan_to_num(x, **kwargs))
        np.testing.assert_array_equal(pullback(np.full(4, INF))[0], [INF, 0.0, 0.0, 0.0])
    with pytest.raises(TypeError, match="copy"):
        np.nan_to_num(constant(x), copy=False)


def test_copysign() -> None:
    assert partials(np.copysign, -3.0, 2.0) == [-1.0, 0.0]
    assert partials(np.copysign, -3.0, -0.0) == [1.0, 0.0]
    assert partials(np.copysign, 0.0, -1.0) == [0.0, 0.0]


# -- operators ------------------------------------------------------------------------------------------------------

OPERATORS: list[tuple[Callable[[Any, Any], Any], float, float]] = [
    (lambda x, y: x + y, 1.0, 1.0),
    (lambda x, y: x - y, 1.0, -1.0),
    (lambda x, y: x * y, 2.5, 7.0),
    (lambda x, y: x / y, 0.4, -7.0 / 6.25),
    (lambda x, y: x // y, 0.0, 0.0),
    (lambda x, y: x % y, 1.0, -2.0),
    (lambda x, y: x**y, 2.5 * 7.0**1.5, 7.0**2.5 * math.log(7.0)),
    (lambda x, y: divmod(x, y)[0] * 3 + divmod(x, y)[1], 1.0, -2.0),
]


@pytest.mark.parametrize(("f", "in_x", "in_y"), OPERATORS)
def test_operators(f: Callable[[Any, Any], Any], in_x: float, in_y: float) -> None:
    x, y = np.float64(7.0), np.float64(2.5)
    assert partials(f, x, y) == pytest.approx([in_x, in_y], rel=1e-15)
    for left, right in ((7.0, 2.5), (np.float64(7.0), np.float64(2.5)), (np.array([7.0]), np.array([2.5]))):
        out, pullback = jg.vjp(lambda x: f(x, right), np.array([7.0]))  # noqa: B023
        np.testing.assert_allclose(out, [f(7.0, 2.5)], rtol=1e-15)
        np.testing.assert_allclose(pullback(np.ones(1))[0], [in_x], rtol=1e-15)
        out, pullback = jg.vjp(lambda y: f(left, y), np.array([2.5]))  # noqa: B023
        np.testing.assert_allclose(out, [f(7.0, 2.5)], rtol=1e-15)
        np.testing.assert_allclose(pullback(np.ones(1))[0], [in_y], rtol=1e-15)


def test_unary_operators() -> None:
    assert derivatives(lambda x: -x, 2.0, 1) == [-1.0]
    assert derivatives(lambda x: +x, 2.0, 1) == [1.0]
    assert derivatives(lambda x: abs(x), -2.0, 1) == [-1.0]
    x = constant(np.array([1.5, -2.5]))
    np.testing.assert_array_equal(math.floor(x)._value, [1.0, -3.0])
    np.testing.assert_array_equal(math.ceil(x)._value, [2.0, -2.0])
    np.testing.assert_array_equal(math.trunc(x)._value, [1.0, -2.0])
    np.testing.assert_array_equal(round(x)._value, [2.0, -2.0])
    np.testing.assert_array_equal(x.conj()._value, x._value)


def test_comparisons_are_off_the_tape() -> None:
    x, y = np.array([1.0, 2.0, NAN]), np.array([2.0, 2.0, NAN])
    comparisons: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a == b,
        lambda a, b: a != b,
        lambda a, b: a < b,
        lambda a, b: a <= b,
        lambda a, b: a > b,
        lambda a, b: a >= b,
    ]
    for compare in comparisons:
        seen: list[Any] = []
        jg.vjp(lambda a: seen.extend([compare(a, y), compare(y, a), compare(a, 2), compare(2.0, a)]) or a, x)  # noqa: B023
        for found, wanted in zip(seen, [compare(x, y), compare(y, x), compare(x, 2), compare(2.0, x)], strict=True):
            assert isinstance(found, Tensor)
            assert found._tape is None
            np.testing.assert_array_equal(found._value, wanted, strict=True)


def test_logic_of_tensors() -> None:
    a, b = np.array([True, False, True]), np.array([True, True, False])
    for left, right in ((constant(a), constant(b)), (constant(a), b), (a, constant(b))):
        np.testing.assert_array_equal((left & right)._value, a & b, strict=True)
        np.testing.assert_array_equal((left | right)._value, a | b, strict=True)
        np.testing.assert_array_equal((left ^ right)._value, a ^ b, strict=True)
    np.testing.assert_array_equal((~constant(a))._value, ~a, strict=True)
    np.testing.assert_array_equal((1 << constant(np.array([1, 2])))._value, [2, 4])
    np.testing.assert_array_equal((constant(np.array([8, 4])) >> 1)._value, [4, 2])
    with pytest.raises(TypeError):
        constant(np.ones(2)) & 1


def test_tensors_are_keys_by_identity() -> None:
    x, y = constant(np.ones(2)), constant(np.ones(2))
    assert {x: 1, y: 2}[x] == 1
    assert hash(x) != hash(y)


def test_truth_of_arrays_is_plain() -> None:
    x = constant(np.array([1.0, 2.0]))
    for answer in (np.allclose(x, [1.0, 2.0]), np.array_equal(x, x), np.array_equiv(x, x), np.isrealobj(x)):
        assert answer is True


def test_keywords_that_are_not_supported_are_refused() -> None:
    x = constant(np.ones(2))
    for call in (
        lambda: np.add(x, x, out=np.empty(2)),
        lambda: np.exp(x, where=np.array([True, False])),
        lambda: np.power(x, 2, out=np.empty(2)),
        lambda: np.greater(x, 0, out=np.empty(2, bool)),
        lambda: np.isnan(x, where=np.array([True, False])),
        lambda: np.divmod(x, x, out=(np.empty(2), np.empty(2))),
        lambda: np.round(x, out=np.empty(2)),
        lambda: np.fix(x, out=np.empty(2)),
    ):
        with pytest.raises(TypeError, match=r"out|where"):
            call()


# -- shapes that do not broadcast -----------------------------------------------------------------------------------

DYADIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
IN_PLACE = ["iadd", "isub", "imul", "itruediv", "ipow"]


def _on(f: Callable[[Any, Any], Any], left: Callable[[Any], Any], right: Callable[[Any], Any]) -> Any:
    return lambda x, y: f(left(x), right(y))


def _same(x: Any) -> Any:
    return x


def _array(x: Any) -> Any:
    return np.ones(x.shape)


def _positive(x: Any) -> Any:
    return x > 0


MISFITS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"x {name} y": getattr(operator, name) for name in DYADIC},
    **{f"x {name} array": _on(getattr(operator, name), _same, _array) for name in DYADIC},
    **{f"array {name} y": _on(getattr(operator, name), _array, _same) for name in DYADIC},
    **{f"x {name} y": _on(getattr(operator, name), lambda x: x * 1.0, _same) for name in IN_PLACE},
    **{f"x {name} y": _on(getattr(operator, f"{name}_"), _positive, _positive) for name in ("and", "or")},
    "x ^ y": lambda x, y: (x > 0) ^ (y > 0),
    "x << y": lambda x, y: x.astype(int) << y.astype(int),
    "divmod": divmod,
    "np.where(c, x, y)": lambda x, y: np.where(x > 0, x, y),
    "np.where(c, x, 0)": lambda x, y: np.where(y > 0, x, 0.0),
    "np.where(array, 0, y)": lambda x, y: np.where(np.ones(x.shape) > 0, 0.0, y),
    "np.clip(x, y, 1)": lambda x, y: np.clip(x, y, 1.0),
    "np.clip(x, None, y)": lambda x, y: np.clip(x, None, y),
    "np.clip(x, y, y)": lambda x, y: np.clip(x, y, y),
    "np.clip(array, y, None)": lambda x, y: np.clip(np.ones(x.shape), y, None),
    "x.clip(y)": lambda x, y: jg.numpy.clip(x, y),
    "isclose": np.isclose,
    **{
        name: np_ufunc
        for name, np_ufunc in [(f.__name__, f) for f in FUNCTIONS if isinstance(f, np.ufunc)]
        if np_ufunc.nin == 2 and "dd->" in "".join(np_ufunc.types) and np_ufunc.signature is None
    },
}


@pytest.mark.parametrize("call", MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("shapes", [((2, 3), (4,)), ((2, 1, 3), (5, 2)), ((30000,), (30001,))], ids=str)
def test_operands_that_do_not_broadcast(call: Callable[[Any, Any], Any], shapes: tuple[Any, Any]) -> None:
    x, y = np.ones(shapes[0]), np.ones(shapes[1])
    line = call.__code__.co_firstlineno if isinstance(call, FunctionType) else None

    def refused(x: Any, y: Any) -> None:
        with pytest.raises(ShapeError) as caught:
            call(x, y)
        assert isinstance(caught.value, ValueError)  # as NumPy's
        message = str(caught.value)
        found = re.search(r"with shapes ((?:\S*\) ?)+)[:\n]", message)
        assert found is not None, message
        assert {shape.replace(" ", "") for shape in map(str, shapes)} <= set(found[1].split())
        assert re.search(r"^(\S.* )?[a-z_0-9]+ needs lengths that are equal or 1", message, re.MULTILINE)
        last = message.splitlines()[-1]
        assert last.startswith(f'  File "{__file__}", line ')
        assert line is None or int(last.rpartition(" ")[2]) == line
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    refused(jg.tensor(x), jg.tensor(y))
    refused(jg.tensor(x, requires_grad=True), jg.tensor(y, requires_grad=True))
    jg.vjp(lambda x, y: refused(x, y) or x, x, y)
    jg.vjp(lambda x: refused(x, jg.tensor(y)) or x, x)
    with jg.no_grad():
        refused(jg.tensor(x, requires_grad=True), jg.tensor(y))


@every_op(where=lambda op: isinstance(op, Elementwise) and len(op.operands or ()) > 1)
def test_every_elementwise_op_names_itself_when_shapes_do_not_broadcast(op: Op) -> None:
    shapes = [(2, 3), (4,), (3,)][: len(op.operands or ())]
    arrays = [np.full(shape, 0.5) for shape in shapes]
    several = NAMESPACE["where"] if op.name == "where" else op
    for operands in (
        arrays,
        [array.astype(np.float32) for array in arrays],
        [array.astype(int) for array in arrays],
        list(map(jg.tensor, arrays)),
    ):
        with pytest.raises(ShapeError, match=rf"\b{op.name} needs lengths") as caught:
            several(*operands)
        assert str(caught.value).splitlines()[-1].startswith(f'  File "{__file__}", line ')


def test_other_mistakes_keep_numpys_words() -> None:
    x = jg.tensor([2, 3])
    with pytest.raises(ValueError, match="negative integer powers") as caught:
        x**-1
    assert not isinstance(caught.value, ShapeError)
    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        np.add(x, [[1, 2], [3]])
    assert not isinstance(caught.value, ShapeError)


# -- dtypes of derivatives ------------------------------------------------------------------------------------------

FLOAT32: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "expit": lambda x: np.logaddexp(x, 0),
    "clip": lambda x: np.clip(x, 0.1, 0.5),
    "power": lambda x: x**2.5 + x**2 + 2.0**x + x**3 + x**-1,
    "sinc": np.sinc,
    "where": lambda x: np.where(x > 0.5, x, 2.0),
    "maximum": lambda x: np.maximum(x, 0.5),
    "arctan2": lambda x: np.arctan2(x, 1.0) + np.hypot(2.0, x),
    "inverse": lambda x: np.arcsin(x) + np.arcsinh(x) + np.arctanh(x) + np.arccosh(x + 2),
    "rounding": lambda x: np.round(x, 1) * np.floor(x) * np.remainder(x, 0.3),
    "angles": lambda x: np.deg2rad(x) * np.degrees(x),
    "logs": lambda x: np.log2(x) + np.log10(x) + np.log1p(x) + np.exp2(x) + np.expm1(x),
    "nan_to_num": lambda x: np.nan_to_num(x) * np.ldexp(x, 2),
    "absolute": lambda x: abs(x) * np.sign(x) * np.copysign(x, -1.0),
}


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_stays_float32(name: str) -> None:
    f = FLOAT32[name]
    x = np.array([0.25, 0.75], np.float32)
    dtypes: list[Any] = []

    def total(x: Any) -> Any:
        out = f(x)
        dtypes.append(out.dtype)
        return out.sum()

    first = jg.grad(total)(x)
    second = jg.grad(lambda x: jg.grad(total)(x).sum())(x)
    assert {first.dtype, second.dtype, *dtypes} == {np.dtype(np.float32)}
    exact = jg.grad(lambda x: f(x).sum())(x.astype(np.float64))
    np.testing.assert_allclose(first, exact, rtol=2e-5)
