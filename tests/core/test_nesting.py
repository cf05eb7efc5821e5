"""Transforms within transforms: no level takes another's derivative for its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg

Scalar = Callable[[Any], Any]


def by_jvp(f: Scalar) -> Scalar:
    return lambda x: jg.jvp(f, (x,), (1.0,))[1]


def by_vjp(f: Scalar) -> Scalar:
    return lambda x: jg.vjp(f, x)[1](1.0)[0]


def by_jacobian(f: Scalar) -> Scalar:
    return jg.jacobian(f)


def by_value_and_grad(f: Scalar) -> Scalar:
    return lambda x: jg.value_and_grad(f)(x)[1]


WAYS: dict[str, Callable[[Scalar], Scalar]] = {
    "grad": jg.grad,
    "jvp": by_jvp,
    "vjp": by_vjp,
    "jacobian": by_jacobian,
    "value_and_grad": by_value_and_grad,
}
FOURTH = -6.393064857332485  # mpmath.diff of the function below, four times at 0.7, with 50 digits
PAIRS = list(itertools.product(WAYS, repeat=2))


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_inner_derivative_of_an_outer_variable(outer: str, inner: str) -> None:
    """d/dx x * d/dy (x + y) is 1; with confused levels, 2 (Siskind and Pearlmutter, 2005)."""
    d_outer, d_inner = WAYS[outer], WAYS[inner]
    assert d_outer(lambda x: x * d_inner(lambda y: x + y)(1.0))(2.0) == 1.0
    assert d_outer(lambda x: x * d_inner(lambda y: x * y)(1.0))(3.0) == 6.0
    assert d_outer(lambda x: x * d_inner(lambda y: x + y)(x))(2.0) == 1.0
    # the inner function does not depend on its own variable
    assert d_outer(lambda x: x * d_inner(lambda y: x * x)(1.0))(2.0) == 0.0
    # the inner derivative does not depend on the outer variable
    assert d_outer(lambda x: d_inner(lambda y: y * y * y)(2.0) + x)(5.0) == 1.0


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_inner_derivative_at_the_outer_variable(outer: str, inner: str) -> None:
    d_outer, d_inner = WAYS[outer], WAYS[inner]
    # d/dx of (d/dy x y^2 at y = x) = d/dx 2 x^2
    assert d_outer(lambda x: d_inner(lambda y: x * y * y)(x))(3.0) == 12.0
    # d/dx of (d/dy x^2 y^3 at y = 2x) = d/dx 12 x^4
    assert d_outer(lambda x: d_inner(lambda y: x * x * y * y * y)(2.0 * x))(1.0) == 48.0


@pytest.mark.parametrize("ways", list(itertools.product(["grad", "jvp"], repeat=3)), ids="-".join)
def test_three_levels(ways: tuple[str, ...]) -> None:
    d1, d2, d3 = (WAYS[way] for way in ways)
    # d/dz of x y z is x y; d/dy of y times that is 2 x y, at y = x 2 x^2; d/dx of x times that is 6 x^2
    f = d1(lambda x: x * d2(lambda y: y * d3(lambda z: x * y * z)(x))(x))
    assert f(2.0) == 6.0 * 4.0


def test_a_curried_function_keeps_its_level() -> None:
    """A derivative that returns a function, applied at another level (Manzyuk and others, 2019)."""

    def shifted(u: Any) -> Callable[[Scalar], Scalar]:
        return lambda f: lambda x: f(x + u)

    # derivative by u of f(x + u) at u = 0 is f', applied twice f''
    def derivative(f: Scalar) -> Scalar:
        return lambda x: jg.grad(lambda u: shifted(u)(f)(x))(0.0)

    assert derivative(derivative(lambda x: x * x * x))(2.0) == 12.0
    for way in WAYS.values():
        f = lambda x, way=way: way(lambda u: shifted(u)(lambda t: t * t * t)(x))(0.0)  # noqa: E731
        assert way(f)(2.0) == 12.0


def test_a_tensor_that_an_inner_transform_wrote_to_a_cell_is_of_the_outer_level() -> None:
    """State that passes a value of an outer level through an inner transform."""
    cell: list[Any] = [None]

    def f(x: Any) -> Any:
        def inner(y: Any) -> Any:
            cell[0] = x * y  # of both levels
            return y * y

        jg.grad(inner)(3.0)
        return cell[0] * 1.0

    # as a function of x, cell[0] is 3 x
    assert jg.grad(f)(2.0) == 3.0


@pytest.mark.parametrize("ways", list(itertools.product(["grad", "jvp"], repeat=4)), ids="-".join)
def test_mixed_modes_to_fourth_order(ways: tuple[str, ...]) -> None:
    def f(x: Any) -> Any:
        return np.tanh(x) * x + x * x * x * x / (1.0 + x * x)

    derived: Scalar = f
    for way in ways:
        derived = WAYS[way](derived)
    assert math.isclose(derived(0.7), FOURTH, rel_tol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_jacobian_of_a_pushforward_and_back(way: str) -> None:
    x = np.array([0.3, -0.7, 1.1])
    u = np.array([1.0, 2.0, -1.0])

    def f(x: Any) -> Any:
        return np.tanh(x) * np.sum(x * x)

    jacobian_of_jvp = jg.jacobian(lambda x: jg.jvp(f, (x,), (u,))[1])(x)
    jvp_of_jacobian = jg.jvp(jg.jacobian(f), (x,), (u,))[1]
    second = jg.jacobian(jg.jacobian(f))(x)
    np.testing.assert_allclose(jacobian_of_jvp, np.einsum("ijk,j->ik", second, u), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(jvp_of_jacobian, np.einsum("ijk,k->ij", second, u), rtol=1e-12, atol=1e-14)
    t, s = np.tanh(x), 1 / np.cosh(x) ** 2
    closed = np.diag(s) * np.sum(x * x) + 2 * np.outer(t, x)
    np.testing.assert_allclose(jg.jacobian(f)(x), closed, rtol=1e-12)


def test_hessians_of_closed_form() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=5)
    a = rng.normal(size=(5, 5))
    np.testing.assert_allclose(jg.hessian(lambda x: x @ a @ x)(x), a + a.T, rtol=1e-14)

    def rosenbrock(x: Any) -> Any:
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    expected = np.zeros((5, 5))
    for i in range(4):
        expected[i, i] += 1200.0 * x[i] ** 2 - 400.0 * x[i + 1] + 2.0
        expected[i, i + 1] = expected[i + 1, i] = -400.0 * x[i]
        expected[i + 1, i + 1] += 200.0
    np.testing.assert_allclose(jg.hessian(rosenbrock)(x), expected, rtol=1e-12)
    u = rng.normal(size=5)
    (product,) = jg.hvp(rosenbrock, (x,), (u,))
    np.testing.assert_allclose(product, expected @ u, rtol=1e-12)


def test_hessian_of_several_arguments_is_blocks() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0, 7.0])
    blocks = jg.hessian(lambda x, y: np.sum(x * x) * np.sum(y), (0, 1))(x, y)
    np.testing.assert_array_equal(blocks[0][0], 2.0 * 15.0 * np.eye(2))
    np.testing.assert_array_equal(blocks[0][1], np.outer(2.0 * x, np.ones(3)))
    np.testing.assert_array_equal(blocks[1][0], blocks[0][1].T)
    np.testing.assert_array_equal(blocks[1][1], np.zeros((3, 3)))


def test_a_pullback_is_differentiated_by_its_cotangent_and_by_its_point() -> None:
    x, g = np.array([0.5, -1.0]), np.array([2.0, 3.0])

    def f(x: Any, g: Any) -> Any:
        (bar,) = jg.vjp(lambda x: x * x * x, x)[1](g)
        return np.sum(bar)

    by_x, by_g = jg.grad(f, (0, 1))(x, g)
    np.testing.assert_allclose(by_x, 6.0 * x * g)
    np.testing.assert_allclose(by_g, 3.0 * x * x)


def test_a_pullback_made_outside_is_linear_in_an_inner_variable() -> None:
    """Its residuals are constants to the transform that calls it."""
    _, pullback = jg.vjp(lambda x: x * x * x, np.array([0.5, -1.0]))
    gradient = jg.grad(lambda g: np.sum(pullback(g * g)[0]))(np.array([2.0, 3.0]))
    np.testing.assert_allclose(gradient, 3.0 * np.array([0.25, 1.0]) * 2.0 * np.array([2.0, 3.0]))


def test_stop_gradient_at_one_level_only_stops_all_outer_ones() -> None:
    assert jg.grad(lambda x: jg.grad(lambda y: y * jg.stop_gradient(x * y))(x))(3.0) == 0.0
    assert jg.grad(lambda x: jg.stop_gradient(jg.grad(lambda y: x * y)(1.0)) * x)(3.0) == 3.0


def test_fixed_point_iteration_within_an_outer_gradient() -> None:
    """Newton steps by inner gradients: the root of y^2 = x has derivative 1 / (2 sqrt(x))."""

    def root(x: Any) -> Any:
        y = x * 0.0 + 1.0
        for _ in range(8):
            residual = lambda y: y * y - x  # noqa: E731
            y = y - residual(y) / jg.grad(residual)(y)
        return y

    assert math.isclose(jg.grad(root)(2.0), 0.5 / math.sqrt(2.0), rel_tol=1e-14)
    assert math.isclose(jg.grad(jg.grad(root))(2.0), -0.25 * 2.0**-1.5, rel_tol=1e-13)


def test_results_of_an_inner_vjp_may_be_written_to_before_the_pullback() -> None:
    def pulled(x: Any) -> Any:
        out, pullback = jg.vjp(lambda v: v * v, x)
        out *= 3.0
        (bar,) = pullback(np.ones(3))
        return np.sum(bar * bar) + np.sum(out)  # 4 x**2 + 3 x**2

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(jg.grad(pulled)(x), 14.0 * x)
    leaf = jg.tensor(x, requires_grad=True)
    pulled(leaf).backward()
    assert leaf.grad.tolist() == [14.0, 28.0, 42.0]
