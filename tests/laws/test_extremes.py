"""The law of extremes: elementwise ops and their derivatives at zeros, tiny, huge, infinite and NaN ones."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import jitgrad as jg
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import REGISTRY
from tests.laws.cases import case_of, every_op
from tests.laws.truth import SPECIAL_POINTS, TRUTHS, ZERO_POWERS, Truth, derivative

MAGNITUDES = [
    *(0.0, 5e-324, 1e-310, np.finfo(float).tiny, 1e-300, 1e-160, 1e-40, 1e-20, 1e-8, 1e-3),
    *(
        0.1,
        0.5,
        0.75,
        0.999999,
        1.0,
        1.000001,
        1.5,
        2.0,
        3.0,
        5.0,
        10.0,
        19.07,
        22.5,
        37.5,
        88.7,
        100.0,
        300.0,
    ),
    *(354.0, 700.0, 709.7, 745.1, 750.0, 1e4, 1e8, 1e16, 1e20, 1e100, 1e160, 1e300, np.finfo(float).max),
]
UNARY = np.array([*MAGNITUDES, *(-m for m in MAGNITUDES), np.inf, -np.inf, np.nan])
_FEW = [0.0, 5e-324, 1e-300, 1e-170, 1e-8, 0.5, 1.0, 2.0, 3.0, 40.0, 750.0, 1e16, 1e170, 1e300]
BINARY = np.array([*_FEW, *(-m for m in _FEW), np.inf, -np.inf, np.nan])
DTYPES = [np.float64, np.float32]


# Of which of the zeros is larger, NumPy says one thing on one processor and another on the next.
ANY_ZERO = {"maximum", "minimum", "fmax", "fmin"}


def grid(op: Elementwise, dtype: Any) -> list[Any]:
    """Return operands that meet in every combination, of the kinds that the op's samples have."""
    sample = case_of(op, 0).args
    points = UNARY if len(sample) == 1 else BINARY if len(sample) == 2 else BINARY[::4]
    if dtype == np.float32:
        points = points[~(np.isfinite(points) & (np.abs(points) > np.finfo(np.float32).max))]
    varying = case_of(op, 0).varying
    # an operand without a derivative, as a condition or an order is, has values of its own
    axes = [points if k in varying or not op.rules else np.unique(arg) for k, arg in enumerate(sample)]
    meshed = np.meshgrid(*axes, indexing="ij")
    return cast([m.ravel() for m in meshed], dtype)


def cast(arrays: Any, dtype: Any) -> list[Any]:
    """Return the arrays of floats in another dtype."""
    return [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]


@functools.cache
def true_values(name: str, which: int, points: tuple[tuple[float, ...], ...]) -> list[Any]:
    """Return mpmath's numbers: "pole" where the truth is infinite, None where there is none."""
    truth = TRUTHS[name]
    function = truth.value if which < 0 else truth.partials[which]
    found: list[Any] = []
    for point in points:
        # mpmath has no signed zero: what depends on it is NumPy's word against ours
        known = all(np.isfinite(point)) and not (len(point) > 1 and any(is_negative_zero(x) for x in point))
        value = evaluated(function, point) if known else None
        if which >= 0 and known and evaluated(truth.value, point) is None:
            value = None  # the formula of a derivative may be real where the function is not
        found.append(value)
    return found


def is_negative_zero(x: float) -> bool:
    return x == 0 and math.copysign(1.0, x) < 0


def evaluated(function: Any, point: tuple[float, ...]) -> Any:
    """Return mpmath's real number, "pole", or None."""
    try:
        value = function(*map(mpf, point))
    except ZeroDivisionError:
        return "pole"
    except ValueError:
        return None
    return None if isinstance(value, mp.mpc) and value.imag else mp.re(value)


def rounded(value: Any, dtype: Any) -> float:
    """Return mpmath's number in a dtype: infinite if it is too large for it."""
    if mp.isinf(value) or mp.isnan(value):
        return float(value)
    with np.errstate(over="ignore", under="ignore"):
        return float(dtype(float(value)))


def unit_at(value: float, dtype: Any) -> float:
    """Return the unit in the last place of a dtype at a value: the smallest subnormal, near zero."""
    info = np.finfo(dtype)
    return max(2.0 ** (math.frexp(value)[1] - 1 - info.nmant), float(info.smallest_subnormal))


def assert_within(found: Any, truth: list[Any], dtype: Any, ulps: float, floor: float, points: Any) -> int:
    """Compare with the truth wherever there is any; return at how many points."""
    info = np.finfo(dtype)
    compared = 0
    wrong: list[str] = []
    for value, true, point in zip(found.tolist(), truth, points, strict=True):
        if true is None:
            continue
        compared += 1
        if isinstance(true, str):
            if not np.isinf(value):
                wrong.append(f"at {point}: {value}, not infinite")
            continue
        nearest = rounded(true, dtype)
        if np.isinf(nearest) or np.isinf(value):
            # at the end of the range, one unit in the last place more is infinite
            near_end = abs(nearest) >= 0.999999 * float(info.max) and abs(value) >= 0.999999 * float(info.max)
            if not (near_end and np.sign(value) == np.sign(nearest)):
                wrong.append(f"at {point}: {value}, truly {nearest}")
            continue
        unit = unit_at(nearest, dtype)
        error = abs(mpf(value) - true)
        if np.isnan(value) or error > ulps * unit + floor:
            wrong.append(f"at {point}: {value!r}, truly {nearest!r}, off by {float(error / unit):.3g} ulp")
    assert not wrong, f"{len(wrong)} of {compared} are wrong:\n" + "\n".join(wrong[:8])
    return compared


@pytest.mark.parametrize("dtype", DTYPES)
@every_op(Elementwise, where=lambda op: bool(op.numpy))
def test_special_values_are_numpys(op: Elementwise, dtype: Any) -> None:
    """NaN, infinities and signed zeros stand where NumPy has them; the rest is near it, or near the truth."""
    args = grid(op, dtype)
    found = op(*args)
    with np.errstate(all="ignore"):
        expected = op.numpy[0](*args)
    assert found.dtype == expected.dtype
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    points = list(zip(*args, strict=True))

    def tell(wrong: Any) -> str:
        return "\n".join(f"at {points[i]}: {found[i]!r}, NumPy has {expected[i]!r}" for i in np.flatnonzero(wrong)[:8])

    # NumPy's sinc is NaN where pi * x overflows
    wrong = np.isnan(found) != np.isnan(expected) if op.name != "sinc" else np.isnan(found) > np.isnan(expected)
    assert not wrong.any(), tell(wrong)
    zero = (found == 0) & (expected == 0) & (op.name not in ANY_ZERO)
    wrong = zero & (np.signbit(found) != np.signbit(expected))
    assert not wrong.any(), tell(wrong)
    edge = np.finfo(dtype).max
    infinite = np.isinf(found) | np.isinf(expected)
    alike = np.signbit(found) == np.signbit(expected)
    wrong = infinite & ~((np.abs(found) >= edge) & (np.abs(expected) >= edge) & alike)
    assert not wrong.any(), tell(wrong)
    if op.name not in TRUTHS:
        finite = ~infinite & ~np.isnan(found)
        with np.errstate(all="ignore"):
            wrong = finite & (np.abs(found - expected) > 2 * np.spacing(np.abs(expected)))
        assert not wrong.any(), tell(wrong)


@pytest.mark.parametrize("dtype", DTYPES)
@every_op(Elementwise, where=lambda op: op.name in TRUTHS)
def test_values_are_within_two_ulp_of_truth(op: Elementwise, dtype: Any) -> None:
    args = grid(op, dtype)
    points = list(zip(*(a.astype(float).tolist() for a in args), strict=True))
    assert assert_within(op(*args), true_values(op.name, -1, tuple(points)), dtype, 2, 0.0, points) > 0


@pytest.mark.parametrize("dtype", DTYPES)
@every_op(Elementwise, where=lambda op: op.name in TRUTHS)
def test_derivatives_equal_truth(op: Elementwise, dtype: Any) -> None:
    """To 16 units in the last place; below the smallest normal number, where digits end, to that."""
    args = grid(op, dtype)
    points = list(zip(*(a.astype(float).tolist() for a in args), strict=True))
    truth = TRUTHS[op.name]
    bars = jg.vjp(op, *args)[1](np.ones(args[0].shape, dtype))
    tiny = float(np.finfo(dtype).tiny)
    for which, bar in enumerate(bars):
        assert bar.dtype == dtype
        true = true_values(op.name, which, tuple(points))
        assert assert_within(bar, true, dtype, 16, tiny, points) > 0
    for limit, infinite in zip(truth.at_infinity, (-np.inf, np.inf), strict=True):
        if limit is not None:
            (bar,) = jg.vjp(op, np.array([infinite], dtype))[1](np.ones(1, dtype))
            assert bar[0] == limit, f"the derivative at {infinite}"


@pytest.mark.parametrize("dtype", DTYPES)
@every_op(Elementwise, where=lambda op: bool(op.rules))
def test_a_zero_cotangent_makes_no_nan(op: Elementwise, dtype: Any) -> None:
    """Nor does a zero tangent: what nothing depends on has derivative 0, be the partial infinite or NaN."""
    args = grid(op, dtype)
    varying = [k for k, arg in enumerate(args) if arg.dtype.kind == "f" and op.rule_of(k) is not None]

    def f(*point: Any) -> Any:
        filled = list(args)
        for k, x in zip(varying, point, strict=True):
            filled[k] = x
        return op(*filled)

    point = [args[k] for k in varying]
    zeros = np.zeros(args[0].shape, dtype)
    for k, bar in zip(varying, jg.vjp(f, *point)[1](zeros), strict=True):
        bad = np.flatnonzero(bar != 0)
        assert not bad.size, f"operand {k}: {bar[bad[0]]} at {[a[bad[0]] for a in args]}"
    moved = jg.jvp(f, point, [zeros for _ in varying])[1]
    bad = np.flatnonzero(moved != 0)
    assert not bad.size, f"forward: {moved[bad[0]]} at {[a[bad[0]] for a in args]}"


# Ops of which mpmath knows nothing that their own definition does not say: choices, and steps. And parts of rules,
# which are judged through the ops that they serve: their own last digits are those of a difference.
WITHOUT_TRUTH = {
    *("where", "clip", "floor", "ceil", "rint", "trunc"),
    *("sinc_derivative", "power_slope", "fraction2"),
}


def test_every_op_has_a_truth() -> None:
    smooth = {op.name for op in REGISTRY.values() if isinstance(op, Elementwise) and op.rules}
    assert smooth - set(TRUTHS) <= WITHOUT_TRUTH


@pytest.mark.parametrize("name", list(TRUTHS))
def test_every_truth_is_of_an_op(name: str) -> None:
    assert len(TRUTHS[name].partials) == len(REGISTRY[name].operands or ())


def nested(op: Any, orders: tuple[int, ...]) -> Any:
    """Return a mixed derivative of an op, by reverse mode within reverse mode."""
    derived = op
    for argnum, order in enumerate(orders):
        for _ in range(order):
            derived = jg.elementwise_grad(derived, argnum)
    return derived


@pytest.mark.parametrize(("name", "point"), SPECIAL_POINTS, ids=lambda value: str(value))
def test_derivatives_up_to_the_third_at_special_points(name: str, point: tuple[float, ...]) -> None:
    op = REGISTRY[name]
    truth: Truth = TRUTHS[name]
    for orders in itertools.product(range(4), repeat=len(point)):
        if not 1 <= sum(orders) <= 3:
            continue
        expected = derivative(truth.value, point, orders)
        found = float(nested(op, orders)(*map(np.float64, point)))
        scale = abs(expected) + 1e-20
        assert abs(found - expected) <= 1e-12 * scale, (orders, found, expected)
        forward = op
        for argnum in [k for k, order in enumerate(orders) for _ in range(order)]:
            forward = pushed(forward, argnum, len(point))
        assert abs(float(forward(*map(np.float64, point))) - expected) <= 1e-12 * scale, (orders, "forward")


def pushed(f: Any, argnum: int, n: int) -> Any:
    """Return the derivative of f by one argument, by forward mode."""
    direction = tuple(1.0 if k == argnum else 0.0 for k in range(n))
    return lambda *xs: jg.jvp(f, xs, direction)[1]


@pytest.mark.parametrize(("exponent", "expected"), ZERO_POWERS)
def test_whole_powers_at_zero(exponent: float, expected: tuple[float, float, float]) -> None:
    power = REGISTRY["power"]
    derived: Any = lambda x: power(x, np.float64(exponent))  # noqa: E731
    for value in expected:
        derived = jg.grad(derived)
        assert derived(0.0) == value
