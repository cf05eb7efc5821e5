"""`check_grads` passes what is right, and names what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.op import OPS, REGISTRY, Op
from jitgrad.errors import DifferentiationTypeError, GradCheckError
from jitgrad.testing import check_grads, gradcheck, gradgradcheck, numerical_jvp

X = np.array([0.5, -1.0, 2.0])


def test_passes_what_is_right() -> None:
    check_grads(lambda x, y: np.tanh(x) * y / (2.0 + x * x), (X, 2.0), order=3)
    check_grads(lambda d: {"a": np.tanh(d["w"]), "b": [np.sum(d["v"])]}, ({"w": X, "v": X[None]},))
    check_grads(np.sum, X)
    check_grads(lambda x: (x * 2.0, np.array([1, 2])), (X,))


@pytest.mark.parametrize("modes", ["forward", "reverse", ("forward", "reverse")])
def test_float32(modes: Any) -> None:
    check_grads(lambda x: np.tanh(x) * x, (X.astype(np.float32),), modes=modes)


def wrong(x: Any) -> Any:
    """Half of the derivative that it should have."""
    return x * jg.stop_gradient(x)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_names_mode_element_values_and_tolerance(mode: str) -> None:
    def f(x: Any) -> Any:
        scale = np.array([1.0, 1.0, 0.0])
        return x * x * scale + wrong(x) * (1.0 - scale)

    place = r"output\[2\]" if mode == "forward" else r"input\[2\]"
    with pytest.raises(GradCheckError, match=rf"the {mode} derivative is wrong at {place}: it is ") as caught:
        check_grads(f, (X,), order=1, modes=mode, atol=1e-6, rtol=1e-5)
    assert "1e-06 + 1e-05 * " in str(caught.value)
    numbers = re.search(r"it is (\S+), by differences (\S+);", str(caught.value))
    assert numbers is not None
    ours, by_differences = map(float, numbers.groups())
    assert abs(2.0 * ours - by_differences) < 1e-8


def test_names_which_of_several_inputs_and_outputs() -> None:
    with pytest.raises(GradCheckError, match=r"output 1\[0\]"):
        check_grads(lambda x: (x * x, wrong(x[:1])), (X,), order=1, modes="forward")
    with pytest.raises(GradCheckError, match=r"input 1\b"):
        check_grads(lambda x, y: np.sum(x * x) + wrong(y), (X, 3.0), order=1, modes="reverse")


def test_mistakes_of_an_order_are_found_at_that_order() -> None:
    def f(x: Any) -> Any:  # x**3, whose derivative is 3 x**2 and not 2 x**2: at 0 its third derivative tells
        return x * x * jg.stop_gradient(x)

    zero = np.array(0.0)
    check_grads(f, (zero,), order=2)
    with pytest.raises(GradCheckError, match=r"derivative of the (forward|reverse) derivative"):
        check_grads(f, (zero,), order=3)


@pytest.fixture
def lopsided() -> Iterator[Op]:
    """An op whose forward mode is right, while its reverse mode is not: as it is said to be linear."""
    yield Op(
        "test_lopsided",
        lambda x: np.multiply(x, 2.0),
        ("x",),
        rules={"x": lambda g: g},
        linear="each",
        samples=None,
    )
    del REGISTRY["test_lopsided"]
    OPS.pop()


def test_a_wrong_adjoint_is_found(lopsided: Op) -> None:
    with pytest.raises(GradCheckError, match="the reverse derivative is wrong at input"):
        check_grads(lopsided, (X,), order=1)


def test_errors_of_use() -> None:
    with pytest.raises(ValueError, match="modes are"):
        check_grads(np.sum, (X,), modes="backward")
    with pytest.raises(ValueError, match="modes are"):
        check_grads(np.sum, (X,), modes=())
    with pytest.raises(ValueError, match="order counts"):
        check_grads(np.sum, (X,), order=0)
    with pytest.raises(DifferentiationTypeError, match="int64"):
        check_grads(np.sum, (np.array([1, 2]),))
    with pytest.raises(GradCheckError, match=r"result of f is not finite at output\[1\]"):
        check_grads(lambda x: x * np.array([1.0, np.inf]), (X[:2],))


@pytest.mark.parametrize(
    ("f", "slope", "x"),
    [
        (np.sin, np.cos, 1.0),
        (np.exp, np.exp, 3.0),
        (np.log, lambda x: 1 / x, 1e-6),
        (np.sqrt, lambda x: 0.5 / np.sqrt(x), 1e-6),
        (lambda x: np.sin(x) + 1.0, np.cos, 1e-8),
        (lambda x: np.sin(100.0 * x), lambda x: 100.0 * np.cos(100.0 * x), 1.0),
        (np.abs, np.sign, 0.01),
        (lambda x: np.maximum(x, 0.0) * x, lambda x: 2.0 * x, 1e-3),
        (lambda x: x**20, lambda x: 20.0 * x**19, 10.0),
        (lambda x: 3.0 * x, lambda x: 3.0, 2.0),
    ],
)
def test_numerical_derivatives_have_ten_digits(f: Any, slope: Any, x: float) -> None:
    """Near poles, kinks and steps too, whose distance the step has to find."""
    found = numerical_jvp(f, (x,), (1.0,))
    assert abs(found - slope(x)) <= 1e-10 * abs(slope(x)) + 1e-10


def test_numerical_derivative_beside_a_step_is_zero() -> None:
    assert numerical_jvp(np.floor, (0.999,), (1.0,)) == 0.0


def test_numerical_derivative_by_five_points() -> None:
    found = numerical_jvp(lambda x: {"y": np.sin(x)}, (X,), (np.ones(3),), eps=1e-3)
    np.testing.assert_allclose(found["y"], np.cos(X), rtol=1e-11)


def test_numerical_derivative_of_complex_functions() -> None:
    z, u = np.array([0.5 + 1.0j]), np.array([1.0 - 2.0j])
    np.testing.assert_allclose(numerical_jvp(np.exp, (z,), (u,)), np.exp(z) * u, rtol=1e-12)


# -- tensors ---------------------------------------------------------------------------------------------


def leaves() -> tuple[Any, Any]:
    return jg.tensor([0.5, -1.0, 2.0], requires_grad=True), jg.tensor([[1.5], [2.0]], requires_grad=True)


def test_gradcheck_passes_what_is_right() -> None:
    x, y = leaves()
    assert gradcheck(lambda x, y: (np.tanh(x) * y, (x * x).sum()), (x, y))
    assert gradcheck(lambda x: x.sum(), x)
    assert gradcheck(lambda x, c: x * c, (x, np.array(3.0)))
    # an input that no output depends on
    assert gradcheck(lambda x, y: x * 2.0, (x, y))
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, -1.0, 2.0])
    assert x.grad is None


def test_gradcheck_of_a_function_that_uses_the_tensors_themselves() -> None:
    x, y = leaves()
    assert gradcheck(lambda *_: x.exp() * y, (x, y))


def test_gradcheck_of_what_is_computed() -> None:
    x, _ = leaves()
    assert gradcheck(lambda z: z * z, x * 2.0)


def test_gradcheck_says_which_jacobian_is_wrong() -> None:
    x, y = leaves()

    def f(x: Any, y: Any) -> Any:
        return x * x, x.sum() * y.detach() * y

    with pytest.raises(GradCheckError, match="for output 1 with respect to input 1,\nnumerical:"):
        gradcheck(f, (x, y))
    assert gradcheck(f, (x, y), raise_exception=False) is False
    with pytest.raises(GradCheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: x * 1.0001, x, rtol=0.0, atol=0.0)
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, -1.0, 2.0])


def test_gradcheck_restores_inputs_after_an_error() -> None:
    x, _ = leaves()
    calls = iter(range(10))

    def f(x: Any) -> Any:
        if next(calls) == 2:
            raise ArithmeticError
        return x * 2.0

    with pytest.raises(ArithmeticError):
        gradcheck(f, x)
    np.testing.assert_array_equal(x.detach().numpy(), [0.5, -1.0, 2.0])


def test_gradcheck_needs_inputs_that_vary() -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, jg.tensor([1.0]))
    shared = np.broadcast_to(jg.tensor([1.0], requires_grad=True), (3,))
    with pytest.raises(ValueError, match="share their memory"):
        gradcheck(lambda x: x * 2.0, shared)
    single = jg.tensor([1.0], dtype=np.float32, requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda x: x * 2.0, single, eps=1e-2, atol=1e-2)


def test_gradgradcheck() -> None:
    x, y = leaves()
    assert gradgradcheck(lambda x, y: np.tanh(x) * y, (x, y))
    assert gradgradcheck(lambda x: (x**3).sum(), x, jg.tensor(2.0, requires_grad=True))
    # first derivative right, second not
    with pytest.raises(GradCheckError, match="Jacobian mismatch"):
        gradgradcheck(lambda x: 2.0 * x * x.detach() - x.detach() * x.detach(), x)
