"""Reductions, cumulative ops, norms: equal to NumPy over axes and dtypes; right at their special points."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose, assert_array_equal

import jitgrad as jg
from jitgrad.core.op import NAMESPACE
from jitgrad.core.tensor import Tensor, constant
from jitgrad.errors import DtypeError, NoGradientError
from jitgrad.ops.norms import logsumexp
from jitgrad.testing import check_grads

norm = np.linalg.norm
RNG = np.random.default_rng(7)
X = RNG.normal(size=(2, 3, 4))
AXES = [None, 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2), ()]
DTYPES = ["f8", "f4", "f2", "i8", "i2", "u1", "?", "c16"]
inf, nan = np.inf, np.nan


def recorded(f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Run ``f`` on tensors: recorded ones where they are real floats."""
    seen: list[Any] = []

    def trace(*tensors: Any) -> Any:
        at = iter(tensors)
        kinds = [np.asarray(arg).dtype.kind for arg in args]
        filled = [next(at) if kind == "f" else constant(np.asarray(arg)) for kind, arg in zip(kinds, args, strict=True)]
        seen.append(f(*filled, **keywords))
        return seen[0]

    floats = [arg for arg in args if np.asarray(arg).dtype.kind == "f"]
    if floats:
        jg.vjp(trace, *floats)
    else:
        trace()
    return seen[0]


def slopes(f: Callable[..., Any], x: Any, **keywords: Any) -> Any:
    """Return the gradient of the sum of ``f``."""
    return jg.grad(lambda t: np.sum(f(t, **keywords)))(x)


def assert_equal_to_numpy(found: Any, wanted: Any, ulp: float = 8) -> None:
    """Assert the same shape and dtype, and values that differ in the last digits at most."""
    found = found._value if type(found) is Tensor else np.asarray(found)
    wanted = np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind in "fc":
        rtol = ulp * float(np.finfo(wanted.dtype).eps)
        scale = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
        assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale)
    else:
        assert_array_equal(found, wanted)


def converted(dtype: str) -> Any:
    return (X * 4 + (1j * X[::-1] if dtype == "c16" else 0)).astype(dtype)


def slope(f: Callable[[float], Any], x: float, order: int = 1) -> float:
    """Differentiate a function of one number, over and over."""
    for _ in range(order):
        f = jg.grad(f)
    return float(f(x))


# -- equal to NumPy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "ptp", "var", "std", "any", "all"])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of NumPy, in float16
def test_reductions_equal_numpys(name: str, axis: Any) -> None:
    f = getattr(np, name)
    for dtype, keepdims in itertools.product(DTYPES, (False, True)):
        if name == "ptp" and dtype == "?":
            continue  # NumPy has no difference of booleans
        x = converted(dtype)
        assert_equal_to_numpy(recorded(f, x, axis=axis, keepdims=keepdims), f(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanprod", "nanmax", "nanmin", "nanvar", "nanstd"])
@pytest.mark.parametrize("axis", AXES[:-1], ids=str)
def test_passing_over_nan_equals_numpys(name: str, axis: Any) -> None:
    f = getattr(np, name)
    x = X.copy()
    x[0, 1, 2] = x[1, 0, 0] = nan
    for a, keepdims in itertools.product((x, x.astype("f4"), X, np.arange(24).reshape(2, 3, 4)), (False, True)):
        assert_equal_to_numpy(recorded(f, a, axis=axis, keepdims=keepdims), f(a, axis=axis, keepdims=keepdims))
    assert np.isfinite(slopes(f, x, axis=axis)[~np.isnan(x)]).all()
    assert_array_equal(slopes(f, x, axis=axis)[np.isnan(x)], 0)


def test_nanmax_of_nothing_but_nan_is_nan() -> None:
    x = np.array([[nan, nan], [1.0, nan]])
    assert_array_equal(recorded(np.nanmax, x, axis=1)._value, [nan, 1.0])
    assert_array_equal(recorded(np.nanmin, x, axis=1)._value, [nan, 1.0])


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative_ops_equal_numpys(name: str) -> None:
    f = getattr(np, name)
    for dtype, axis in itertools.product(DTYPES, (None, 0, 1, -1)):
        x = converted(dtype)
        assert_equal_to_numpy(recorded(f, x, axis=axis), f(x, axis))
        assert_equal_to_numpy(recorded(getattr(Tensor, name), x, axis=axis), f(x, axis))
    assert_equal_to_numpy(recorded(f, X, axis=1, dtype="f4"), f(X, 1, dtype="f4"))
    assert_equal_to_numpy(recorded(f, 3.0), f(3.0))
    assert_equal_to_numpy(recorded(f, np.ones((0, 2)), axis=0), f(np.ones((0, 2)), 0))
    assert_equal_to_numpy(recorded(f, np.ones((2, 0)), axis=1), f(np.ones((2, 0)), 1))


@pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="these names are of NumPy 2.1")
def test_cumulative_ops_under_their_array_api_names() -> None:
    assert_equal_to_numpy(recorded(np.cumulative_sum, X, axis=1), np.cumsum(X, 1))
    assert_equal_to_numpy(recorded(lambda t: np.cumulative_prod(t), X[0, 0]), np.cumprod(X[0, 0]))
    with pytest.raises(ValueError, match="axis"):
        recorded(np.cumulative_sum, X)
    with pytest.raises(TypeError, match="include_initial"):
        recorded(np.cumulative_sum, X, axis=0, include_initial=True)


@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
def test_cumulative_ops_that_pass_over_nan(name: str) -> None:
    x = X.copy()
    x[0, 1, 2] = x[1, 0, 0] = nan
    f = getattr(np, name)
    for axis in (None, 0, 2):
        assert_equal_to_numpy(recorded(f, x, axis=axis), f(x, axis=axis))
        assert_array_equal(slopes(f, x, axis=axis)[np.isnan(x)], 0)


@pytest.mark.parametrize("name", ["argmax", "argmin", "count_nonzero", "argsort"])
def test_positions_and_counts_are_numpys(name: str) -> None:
    f = getattr(np, name)
    for axis in (None, 0, -1):
        assert_equal_to_numpy(recorded(f, X, axis=axis), f(X, axis=axis))
    if name != "count_nonzero":
        assert_equal_to_numpy(recorded(getattr(Tensor, name), X, axis=1), f(X, 1))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std", "any", "all"])
def test_methods_take_what_ndarrays_take(name: str) -> None:
    for keywords in ({}, {"axis": (0, 2), "keepdims": True}, {"axis": -1}):
        found = recorded(getattr(Tensor, name), X, **keywords)
        assert_equal_to_numpy(found, getattr(X, name)(**keywords))
    assert_equal_to_numpy(recorded(lambda t: getattr(t, name)(1), X), getattr(X, name)(1))
    assert_equal_to_numpy(recorded(lambda t: t.ptp(0), X), np.ptp(X, 0))


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("sum", {"dtype": "f8", "axis": 1}),
        ("sum", {"dtype": np.float64}),
        ("sum", {"initial": 2.5}),
        ("sum", {"where": X > 0, "axis": (0, 1)}),
        ("sum", {"where": X[0, 0] > 0, "initial": 1.5, "axis": 2, "keepdims": True}),
        ("mean", {"dtype": "f8", "axis": 0}),
        ("mean", {"where": X > -1, "axis": 1}),
        ("mean", {"where": X > -1, "dtype": "f8"}),
        ("prod", {"dtype": "f8"}),
        ("prod", {"initial": 2.5, "axis": 0}),
        ("prod", {"where": X > 0, "axis": (0, 2)}),
        ("max", {"initial": 0.5, "axis": 2}),
        ("max", {"initial": -9.0, "where": X > 0, "axis": 1}),
        ("min", {"initial": 0.5}),
        ("var", {"ddof": 1, "axis": (0, 2)}),
        ("var", {"ddof": 0.5}),
        ("var", {"correction": 1, "axis": 1}),
        ("var", {"dtype": "f8", "axis": 1}),
        ("var", {"where": np.arange(4) != 2, "axis": (0, 2), "ddof": 1}),
        ("var", {"mean": np.full((2, 1, 4), 0.25, "f4"), "axis": 1, "keepdims": True}),
        ("std", {"where": X > -1, "axis": 1}),
        ("std", {"ddof": 1}),
    ],
)
def test_keywords_mean_what_they_mean_in_numpy(name: str, keywords: dict[str, Any]) -> None:
    f = getattr(np, name)
    for x in (X.astype("f4"), X):
        assert_equal_to_numpy(recorded(f, x, **keywords), f(x, **keywords))
    check_grads(lambda t: f(t, **keywords), (X,), order=2)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or])
def test_ufunc_reduce_has_axis_0_by_default(ufunc: np.ufunc) -> None:
    assert_equal_to_numpy(recorded(ufunc.reduce, X), ufunc.reduce(X))
    for axis in (None, 1, (0, 2)):
        found = recorded(ufunc.reduce, X, axis=axis, keepdims=True)
        assert_equal_to_numpy(found, ufunc.reduce(X, axis=axis, keepdims=True))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1, :, ::-1])[::-1, :, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_does_not_matter(layout: str) -> None:
    x = LAYOUTS[layout](X)
    x.flags.writeable = False
    for name in ("sum", "mean", "prod", "max", "var", "cumsum", "cumprod"):
        f = getattr(np, name)
        assert_equal_to_numpy(recorded(f, x, axis=1), f(X, axis=1))
        assert_allclose(slopes(f, x, axis=1), slopes(f, X, axis=1))
    stretched = np.broadcast_to(X[:, :1], X.shape)
    assert_allclose(
        jg.grad(lambda t: np.sum(np.cumprod(t, 1)))(stretched),
        jg.grad(lambda t: np.sum(np.cumprod(t, 1)))(stretched.copy()),
    )


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0)], ids=str)
def test_scalars_and_empty_arrays(name: str, shape: tuple[int, ...]) -> None:
    f, x = getattr(np, name), np.full(shape, 2.0)
    for axis in (None, *range(len(shape))):
        if name in ("max", "min") and (x.shape[axis] == 0 if axis is not None else x.size == 0):
            with pytest.raises(ValueError, match="zero-size array"):
                recorded(f, x, axis=axis)
            continue
        if name in ("mean", "var") and not x.size:
            continue
        assert_equal_to_numpy(recorded(f, x, axis=axis), f(x, axis=axis))
        gradient = slopes(f, x, axis=axis)
        assert gradient.shape == shape
    assert_equal_to_numpy(recorded(lambda t: np.max(t, initial=1.0), np.ones((0,))), 1.0)


def test_mean_of_nothing_warns_as_numpys() -> None:
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"), np.errstate(invalid="ignore"):
        assert np.isnan(recorded(np.mean, np.ones(0))._value)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"), np.errstate(all="ignore"):
        assert np.isnan(recorded(np.var, np.ones(1), ddof=1)._value)


def test_lists_of_tensors_are_reduced_as_arrays() -> None:
    assert_equal_to_numpy(recorded(lambda a, b: NAMESPACE["sum"]([a, 2 * b]), 1.0, 2.0), 5.0)


def test_float32_stays_float32() -> None:
    x = X.astype("f4") + np.float32(2)
    names = ("sum", "mean", "prod", "max", "var", "std", "cumsum", "cumprod", "norm", "logsumexp")
    for name in names:
        value, pull = jg.vjp(functools.partial(NAMESPACE[name], axis=1), x)
        assert value.dtype == np.float32
        (bar,) = pull(np.ones_like(value))
        assert bar.dtype == np.float32


def test_results_do_not_depend_on_how_large_gradients_are_made() -> None:
    # large cotangents are views, small ones are filled
    x = np.linspace(0.5, 1.5, 120 * 80).reshape(120, 80)

    def square_of_mean(t: Any, axis: Any) -> Any:
        return np.mean(t, axis=axis) ** 2

    for axis in (None, 0, 1):
        assert_array_equal(slopes(np.sum, x, axis=axis), np.ones_like(x))
        found = slopes(square_of_mean, x, axis=axis)
        n = x.size if axis is None else x.shape[axis]
        assert_allclose(found, np.broadcast_to(2 * np.mean(x, axis=axis, keepdims=True) / n, x.shape))


# -- derivatives ---------------------------------------------------------------------------------------------

SMOOTH: dict[str, Callable[..., Any]] = {
    name: getattr(np, name) for name in ("sum", "mean", "prod", "max", "min", "ptp", "var", "std")
}
SMOOTH |= {
    "norm": lambda t, axis, keepdims: np.linalg.norm(t, axis=axis, keepdims=keepdims),
    "logsumexp": logsumexp,
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (0, True), ((0, -1), False)], ids=str)
def test_derivatives_of_reductions(name: str, axis: Any, keepdims: bool) -> None:
    x = X[:, :2, :2]
    if name == "norm" and axis is None:
        x = x[0]
    order = 3 if name in ("prod", "logsumexp", "norm") and axis != 0 else 2
    check_grads(lambda t: SMOOTH[name](t, axis=axis, keepdims=keepdims), (x,), order=order)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_derivatives_of_cumulative_ops(name: str) -> None:
    f = getattr(np, name)
    for axis in (None, 0, 1):
        check_grads(functools.partial(f, axis=axis), (X[0],), order=2)
    check_grads(f, (X[0, 0],), order=3)


def test_derivatives_of_averages() -> None:
    w = np.array([1.0, 2.0, 0.5])
    a = X[:, :, 0]
    check_grads(lambda t, u: np.average(t, 1, u), (a, w), order=2)
    check_grads(lambda t: np.average(t, (1, 0), np.arange(1.0, 7).reshape(3, 2)), (a,), order=1)
    check_grads(lambda t, u: np.average(t, weights=u**2 + 1), (a, a[::-1].copy()), order=2)


# -- products ------------------------------------------------------------------------------------------------


def derivative_of_product(x: Any, by: tuple[int, ...]) -> float:
    """The product of all but some elements; 0 if one is left out twice."""
    return math.prod(v for k, v in enumerate(x) if k not in by) if len(set(by)) == len(by) else 0.0


@pytest.mark.parametrize("zeros", range(5))
def test_derivatives_of_products_of_zeros(zeros: int) -> None:
    x = np.array([2.0, -3.0, 0.5, 4.0])
    x[:zeros] = 0
    x = np.roll(x, 1)
    everywhere = range(len(x))
    gradient, hessian = jg.grad(np.prod)(x), jg.hessian(np.prod)(x)
    third = jg.jacobian(jg.hessian(np.prod))(x)
    for i, j, k in itertools.product(everywhere, repeat=3):
        assert gradient[i] == derivative_of_product(x, (i,))
        assert hessian[i, j] == derivative_of_product(x, (i, j))
        assert third[i, j, k] == derivative_of_product(x, (i, j, k))


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_derivatives_of_cumulative_products_of_zeros(zeros: tuple[int, ...]) -> None:
    x = np.array([2.0, -3.0, 0.5, 4.0])
    x[list(zeros)] = 0
    jacobian = jg.jacobian(np.cumprod)(x)
    second = jg.jacobian(jg.jacobian(np.cumprod))(x)
    for n, i, j in itertools.product(range(4), repeat=3):
        assert jacobian[n, i] == (derivative_of_product(x[: n + 1], (i,)) if i <= n else 0)
        assert second[n, i, j] == (derivative_of_product(x[: n + 1], (i, j)) if max(i, j) <= n else 0)


def test_products_over_some_axes_with_zeros() -> None:
    x = X.copy()
    x[0, 1, 2] = x[1, 0, 0] = x[1, 2, 0] = 0
    for axis in (0, 1, (0, 2), (1, 2)):
        check_grads(functools.partial(np.prod, axis=axis), (x,), order=2)


def test_product_whose_quotient_by_a_factor_underflows() -> None:
    # prod(x) / x[0] is 0 / 1e-200
    assert_allclose(jg.grad(np.prod)(np.array([1e-200, 1e-200])), [1e-200, 1e-200])
    assert_allclose(jg.grad(np.prod)(np.array([1e-200, 1e-200, 1e200])), [1.0, 1.0, 0.0], atol=1e-300)


def test_cumulative_product_of_other_dtypes_and_long_axes() -> None:
    x = (1 + 0.01 * RNG.normal(size=300)).astype("f2")
    wanted = slopes(np.cumprod, x.astype("f8"))
    assert_allclose(slopes(np.cumprod, x), wanted, rtol=0.05)
    z = X[0] + 1j * X[1]
    value, pull = jg.vjp(lambda t: np.cumprod(t, axis=1), z)
    direction = X[1] + 2j * X[0]
    moved = jg.jvp(lambda t: np.cumprod(t, axis=1), (z,), (direction,))[1]
    h = 1e-6
    assert_allclose(moved, (np.cumprod(z + h * direction, 1) - np.cumprod(z - h * direction, 1)) / (2 * h), rtol=1e-7)
    cotangent = np.conj(value)
    assert_allclose(np.sum(cotangent * moved).real, np.sum(pull(cotangent)[0] * direction).real)


# -- extrema -------------------------------------------------------------------------------------------------


def test_ties_share_evenly() -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    assert_array_equal(slopes(np.max, x, axis=1), [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    assert_array_equal(slopes(np.min, x, axis=1), [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]])
    assert_array_equal(jg.grad(np.max)(x), [[0, 0.5, 0.5], [0, 0, 0]])
    assert_array_equal(jg.hessian(np.max)(np.ones(3)), np.zeros((3, 3)))
    assert_array_equal(jg.grad(np.ptp)(np.ones(2)), [0, 0])


def test_extrema_at_infinity_and_nan() -> None:
    assert_array_equal(jg.grad(np.max)(np.array([1.0, inf, -inf])), [0, 1, 0])
    assert_array_equal(jg.grad(np.max)(np.array([-inf, -inf])), [0.5, 0.5])
    assert_array_equal(jg.grad(np.max)(np.array([1.0, nan, 2.0])), [0, 1, 0])
    # what was not chosen does not see an infinite cotangent
    assert_array_equal(jg.grad(lambda t: np.sqrt(np.max(t)))(np.array([-1.0, 0.0])), [0, inf])


# -- variances -----------------------------------------------------------------------------------------------


def test_std_of_equal_values_has_derivative_0() -> None:
    x = np.full((2, 3), 1.5)
    assert_array_equal(jg.grad(np.std)(x), np.zeros((2, 3)))
    assert_array_equal(jg.hessian(np.std)(x[0]), np.zeros((3, 3)))
    assert_array_equal(jg.jvp(np.std, (x,), (X[:, :, 0],))[1], 0)
    assert_array_equal(jg.grad(lambda t: np.sum(np.std(t, axis=1, where=[True, True, False])))(x), np.zeros((2, 3)))
    mixed = np.array([[1.0, 1.0], [1.0, 3.0]])
    assert_allclose(slopes(np.std, mixed, axis=1), [[0, 0], [-0.5, 0.5]])


def test_variance_is_accurate_far_from_0() -> None:
    x = 1e8 + np.array([0.0, 1.0, 2.0, 3.0])
    assert_allclose(jg.value_and_grad(np.var)(x)[1], (x - x.mean()) / 2, rtol=1e-12)
    assert_allclose(jg.grad(np.std)(x), (x - x.mean()) / 4 / np.std(x), rtol=1e-12)


def test_variance_of_one_value() -> None:
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(jg.grad(lambda t: np.var(t, ddof=1))(np.ones(1)))


def test_variance_of_complex_values() -> None:
    def f(re: Any, im: Any) -> Any:
        return np.var(re + 1j * im)

    gradients = jg.grad(f, (0, 1))(X[0], X[1])
    for found, x in zip(gradients, X, strict=True):
        assert_allclose(found, 2 * (x - x.mean()) / x.size, atol=1e-15)


# -- norms ---------------------------------------------------------------------------------------------------

VECTOR_ORDERS = [None, 2, 1, inf, -inf, 0, 3, 4, 1.5, 0.5, -1, -2]
MATRIX_ORDERS = [None, "fro", 1, -1, inf, -inf]


@pytest.mark.parametrize("ord", VECTOR_ORDERS, ids=str)
def test_vector_norms(ord: Any) -> None:
    for axis, keepdims in itertools.product((0, -1), (False, True)):
        wanted = np.linalg.norm(X, ord, axis, keepdims)
        assert_equal_to_numpy(recorded(norm, X, ord=ord, axis=axis, keepdims=keepdims), wanted)
    assert_equal_to_numpy(recorded(norm, X[0, 0], ord=ord), np.linalg.norm(X[0, 0], ord))
    assert_equal_to_numpy(recorded(norm, X.astype("f4"), ord=ord, axis=1), np.linalg.norm(X.astype("f4"), ord, 1))
    ints = np.arange(1, 5)
    assert_equal_to_numpy(recorded(norm, ints, ord=ord), np.linalg.norm(ints, ord))
    check_grads(lambda t: np.linalg.norm(t, ord, 1), (X[:, :, 0],), order=2)
    if ord is None or ord in (2, 3, 4, 1.5):
        check_grads(lambda t: np.linalg.norm(t, ord), (X[0, 0],), order=3)


@pytest.mark.parametrize("ord", MATRIX_ORDERS, ids=str)
def test_matrix_norms(ord: Any) -> None:
    for axis, keepdims in itertools.product(((0, 1), (1, 0), (-1, 1)), (False, True)):
        wanted = np.linalg.norm(X, ord, axis, keepdims)
        assert_equal_to_numpy(recorded(norm, X, ord=ord, axis=axis, keepdims=keepdims), wanted)
    assert_equal_to_numpy(recorded(norm, X[0], ord=ord), np.linalg.norm(X[0], ord))
    check_grads(lambda t: np.linalg.norm(t, ord, (0, 2)), (X,), order=2)


def test_norms_under_their_array_api_names() -> None:
    for ord, axis in itertools.product((2, 1, inf, -inf, 0, 3), (None, 1, (0, 2))):
        f = functools.partial(np.linalg.vector_norm, ord=ord, axis=axis)
        for keepdims in (False, True):
            assert_equal_to_numpy(recorded(f, X, keepdims=keepdims), f(X, keepdims=keepdims))
        check_grads(f, (X,), order=1)
    for ord in MATRIX_ORDERS[1:]:
        assert_equal_to_numpy(
            recorded(np.linalg.matrix_norm, X, ord=ord, keepdims=True),
            np.linalg.matrix_norm(X, ord=ord, keepdims=True),
        )


def test_norms_of_everything_and_nothing() -> None:
    assert_equal_to_numpy(recorded(np.linalg.norm, X), np.linalg.norm(X))
    assert_equal_to_numpy(recorded(np.linalg.norm, X, keepdims=True), np.linalg.norm(X, keepdims=True))
    for ord in (None, 1, inf):
        assert_equal_to_numpy(recorded(norm, np.ones(0), ord=ord), np.linalg.norm(np.ones(0), ord))


@pytest.mark.parametrize("ord", [*VECTOR_ORDERS])
def test_norms_have_derivative_0_at_0(ord: Any) -> None:
    zeros = np.zeros((2, 3))
    with np.errstate(all="ignore"):
        assert_array_equal(jg.grad(lambda t: np.sum(np.linalg.norm(t, ord, 1)))(zeros), zeros)
        assert_array_equal(jg.jvp(lambda t: np.linalg.norm(t, ord, 1), (zeros,), (X[:, :, 0],))[1], np.zeros(2))
        hessian = jg.hessian(lambda t: np.linalg.norm(t, ord))(zeros[0])
    assert_array_equal(hessian, np.zeros((3, 3)))


@pytest.mark.parametrize("ord", [1.5, 3, 4])
def test_norms_where_some_entries_are_0(ord: float) -> None:
    assert_allclose(jg.grad(lambda t: np.linalg.norm(t, ord))(np.array([0.0, -2.0, 0.0])), [0, -1, 0])
    if ord > 2:
        assert_allclose(jg.hessian(lambda t: np.linalg.norm(t, ord))(np.array([0.0, 2.0])), np.zeros((2, 2)))


@pytest.mark.parametrize("ord", [None, 3, 4, 1.5])
@pytest.mark.parametrize("scale", [1e-310, 1e-250, 1e-170, 1e160, 1e300])
def test_norms_neither_overflow_nor_underflow(ord: Any, scale: float) -> None:
    direction = np.array([3.0, -4.0, 1.0])
    value, gradient = jg.value_and_grad(lambda t: np.linalg.norm(t, ord))(scale * direction)
    assert_allclose(value / scale, np.linalg.norm(direction, ord), rtol=1e-12)
    assert_allclose(gradient, jg.grad(lambda t: np.linalg.norm(t, ord))(direction), rtol=1e-12)
    rows = np.stack([scale * direction, direction])
    assert_allclose(recorded(norm, rows, ord=ord, axis=1)._value, [value, np.linalg.norm(direction, ord)])
    assert_allclose(jg.grad(lambda t: np.sum(np.linalg.norm(t, ord, 1)))(rows), [gradient, gradient], rtol=1e-12)


def test_norm_of_complex_values() -> None:
    def f(re: Any, im: Any, ord: Any) -> Any:
        return np.linalg.norm(re + 1j * im, ord, axis=-1)

    re, im = X[0, 0], X[1, 0]
    for ord in (None, 3, 1, inf):
        assert_equal_to_numpy(recorded(f, re, im, ord=ord), f(re, im, ord))
        check_grads(functools.partial(f, ord=ord), (re, im), order=2)


def test_norms_that_are_not_known() -> None:
    for ord in (2, -2, "nuc"):
        assert_allclose(NAMESPACE["norm"](X[0], ord), np.linalg.norm(X[0], ord))
        with pytest.raises(NoGradientError, match="norm"):
            recorded(norm, X[0], ord=ord)
    for ord, axis, match in (
        ("fro", 0, "Invalid norm order 'fro' for vectors"),
        (3, (0, 1), "Invalid norm order for matrices"),
        (2, None, "Improper number of dimensions"),
        (None, "x", "'axis' must be None"),
        (None, (0, 1, 2), "Improper number of dimensions"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            recorded(norm, X, ord=ord, axis=axis)
    with pytest.raises(np.exceptions.AxisError):
        recorded(np.linalg.norm, X, axis=3)


# -- logsumexp -----------------------------------------------------------------------------------------------


def test_logsumexp_equals_scipys() -> None:
    b = RNG.uniform(0.5, 2, size=4)
    for axis, keepdims in itertools.product(AXES[:-1], (False, True)):
        wanted = scipy.special.logsumexp(X, axis, keepdims=keepdims)
        assert_equal_to_numpy(recorded(logsumexp, X, axis=axis, keepdims=keepdims), wanted)
        wanted = scipy.special.logsumexp(X, axis, b, keepdims)
        assert_equal_to_numpy(
            recorded(lambda t, c, **where: logsumexp(t, b=c, **where), X, b, axis=axis, keepdims=keepdims),
            wanted,
        )
    assert_equal_to_numpy(recorded(logsumexp, 3.0), 3.0)
    assert_equal_to_numpy(recorded(logsumexp, np.ones(0)), -inf)
    assert_equal_to_numpy(recorded(logsumexp, np.ones((2, 0)), axis=1), [-inf, -inf])
    assert_equal_to_numpy(recorded(logsumexp, np.arange(3)), scipy.special.logsumexp(np.arange(3)))
    # b may be of more dimensions, and of negative numbers
    assert_equal_to_numpy(
        recorded(lambda t: logsumexp(t, 1, np.array([[1.0, 2.0], [2.0, -0.1]])), np.array([1.0, 2.0])),
        scipy.special.logsumexp([1.0, 2.0], 1, [[1.0, 2.0], [2.0, -0.1]]),
    )
    assert np.isnan(logsumexp(np.array([1.0, 2.0]), b=np.array([1.0, -1.0])))


def test_derivatives_of_weighted_logsumexp() -> None:
    b = np.array([[1.0, 0.0, 2.0, -0.1]])
    check_grads(lambda t: logsumexp(t, 1, b), (X[0],), order=2)
    check_grads(lambda t, c: logsumexp(t, 1, c), (X[0], b), order=2)


def test_logsumexp_far_out() -> None:
    for peak in (1e4, -1e4, 1e300):
        assert_allclose(jg.grad(logsumexp)(np.array([peak, peak, -inf])), [0.5, 0.5, 0])
    x = np.array([0.0, -50.0])
    value, gradient = jg.value_and_grad(logsumexp)(x)
    with mpmath.workdps(40):
        assert_allclose(value, float(mpmath.log1p(mpmath.exp(-50))), rtol=1e-14)
        assert_allclose(gradient[1], float(mpmath.exp(-50) / (1 + mpmath.exp(-50))), rtol=1e-14)
    # the second derivative is a product of shares, p (1 - p)
    assert_allclose(jg.hessian(logsumexp)(x)[1, 1], gradient[0] * gradient[1], rtol=1e-14)


def test_logsumexp_of_infinities() -> None:
    cases = {
        (-inf, -inf): (0, 0),
        (inf, 0.0): (1, 0),
        (inf, inf): (0.5, 0.5),
        (inf, -inf): (1, 0),
        (-inf, 2.0): (0, 1),
    }
    for x, wanted in cases.items():
        value, gradient = jg.value_and_grad(logsumexp)(np.array(x))
        assert value == max(x)
        assert_array_equal(gradient, wanted)
        assert_array_equal(jg.hessian(logsumexp)(np.array(x)), np.diag(wanted) - np.outer(wanted, wanted))
    assert_array_equal(jg.grad(lambda t: logsumexp(t, b=np.ones(2)))(np.array([-inf, -inf])), [0, 0])
    assert_array_equal(jg.grad(lambda t: logsumexp(t, b=np.array([0.0, 1.0])))(np.array([inf, 1.0])), [0, 1])
    assert np.isnan(jg.grad(logsumexp)(np.array([nan, 1.0]))).all()


def test_logsumexp_refuses() -> None:
    with pytest.raises(TypeError, match="return_sign"):
        logsumexp(X, return_sign=True)
    with pytest.raises(DtypeError, match="complex"):
        logsumexp(X + 1j)


# -- averages ------------------------------------------------------------------------------------------------


def total_weight(t: Any, **keywords: Any) -> Any:
    return np.average(t, returned=True, **keywords)[1]


def test_averages_equal_numpys() -> None:
    w3, w43 = np.array([1.0, 2.0, 0.5]), RNG.uniform(size=(4, 3))
    for keywords in (
        {},
        {"axis": 1},
        {"axis": (0, 1), "keepdims": True},
        {"weights": RNG.uniform(size=X.shape)},
        {"axis": 1, "weights": w3},
        {"axis": (2, 1), "weights": w43},
        {"axis": 1, "weights": np.array([1, 2, 3])},
        {"axis": -2, "weights": w3, "keepdims": True},
    ):
        for x in (X, X.astype("f4"), np.arange(24).reshape(2, 3, 4)):
            assert_equal_to_numpy(recorded(np.average, x, **keywords), np.average(x, **keywords))
            found = recorded(total_weight, x, **keywords)
            assert_equal_to_numpy(found, np.average(x, returned=True, **keywords)[1])


def test_averages_refuse() -> None:
    for keywords, error, match in (
        ({"weights": np.ones(3)}, TypeError, "Axis must be specified"),
        ({"weights": np.ones(3), "axis": 2}, ValueError, "Shape of weights"),
        ({"weights": np.zeros(3), "axis": 1}, ZeroDivisionError, "sum to zero"),
    ):
        with pytest.raises(error, match=match):
            recorded(np.average, X, **keywords)


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "ptp", "var", "std", "cumsum", "cumprod"])
def test_out_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) takes no out="):
        recorded(lambda t: getattr(np, name)(t, axis=0, out=np.empty((3, 4))), X)


def test_axes_that_do_not_exist() -> None:
    for name in ("sum", "mean", "prod", "max", "var", "std", "cumsum", "cumprod"):
        with pytest.raises(np.exceptions.AxisError):
            recorded(getattr(np, name), X, axis=3)
    with pytest.raises(ValueError, match="repeated axis"):
        recorded(lambda t: np.sum(t, axis=(0, 0)), X)


def test_where_without_a_start_is_refused() -> None:
    with pytest.raises(ValueError, match="initial="):
        recorded(np.max, X, where=X > 0)
    with pytest.raises(ValueError, match="ddof and correction"):
        recorded(np.var, X, ddof=1, correction=1)


def test_first_derivatives_of_scalars() -> None:
    assert slope(np.prod, 3.0) == 1.0
    assert slope(np.sum, 3.0, order=2) == 0.0
    assert slope(np.std, 3.0) == 0.0
    assert slope(np.linalg.norm, -3.0) == -1.0
    assert slope(logsumexp, -3.0) == 1.0
