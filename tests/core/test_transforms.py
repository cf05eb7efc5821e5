"""What transforms take and hand out: trees, argnums, dtypes, scalars, constants, auxiliary results."""

from __future__ import annotations

import collections
import inspect
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.tensor import Tensor
from jitgrad.errors import ArgnumsError, DifferentiationTypeError, DtypeError, TreeMismatchError

X = np.array([1.0, 2.0, 3.0])


class Pair(NamedTuple):
    left: Any
    right: Any


# -- trees -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "use", "expected"),
    [
        ((2.0, 3.0), lambda t: t[0] * t[1], (3.0, 2.0)),
        ([2.0, 3.0], lambda t: t[0] * t[1], [3.0, 2.0]),
        ({"b": 2.0, "a": 3.0}, lambda t: t["a"] * t["b"], {"a": 2.0, "b": 3.0}),
        (Pair(2.0, 3.0), lambda t: t.left * t.right, Pair(3.0, 2.0)),
        (OrderedDict(b=2.0, a=3.0), lambda t: t["a"] * t["b"], OrderedDict(b=3.0, a=2.0)),
        (
            collections.defaultdict(list, a=2.0),
            lambda t: t["a"] * 5.0,
            collections.defaultdict(list, a=5.0),
        ),
        (collections.deque([2.0, 3.0]), lambda t: t[0] * t[1], collections.deque([3.0, 2.0])),
        (
            {"a": [2.0, (3.0, None)], "e": {}, "l": []},
            lambda t: t["a"][0] * t["a"][1][0],
            {"a": [3.0, (2.0, None)], "e": {}, "l": []},
        ),
        ((None, 2.0, ()), lambda t: t[1] * 3.0, (None, 3.0, ())),
    ],
    ids=["tuple", "list", "dict", "namedtuple", "OrderedDict", "defaultdict", "deque", "nested", "none"],
)
def test_gradient_has_the_structure_of_its_argument(tree: Any, use: Any, expected: Any) -> None:
    gradient = jg.grad(use)(tree)
    assert type(gradient) is type(expected)
    assert gradient == expected
    value, gradient = jg.value_and_grad(use)(tree)
    assert gradient == expected
    assert jg.vjp(use, tree)[1](1.0) == (expected,)
    assert jg.jacobian(use)(tree) == expected
    assert jg.jvp(use, (tree,), (tree,)) == (value, pytest.approx(inner(tree, expected)))


def inner(left: Any, right: Any) -> float:
    if isinstance(left, dict):
        return sum(inner(left[key], right[key]) for key in left)
    if isinstance(left, (tuple, list, collections.deque)):
        return sum(inner(a, b) for a, b in zip(left, right, strict=True))
    return 0.0 if left is None else left * right


def test_empty_trees() -> None:
    assert jg.grad(lambda t, x: x * 2.0)({}, 1.0) == {}
    assert jg.grad(lambda t, x: x * 2.0, (0, 1))([], 1.0) == ([], 2.0)
    assert jg.vjp(lambda x: (), 1.0)[1](()) == (0.0,)


def test_results_may_be_trees_too() -> None:
    out, pullback = jg.vjp(lambda x: {"a": [x * 2.0], "b": (np.sum(x), None)}, X)
    assert out["b"] == (6.0, None)
    np.testing.assert_array_equal(out["a"][0], 2.0 * X)
    assert type(out["a"][0]) is np.ndarray
    (bar,) = pullback({"a": [np.array([1.0, 0.0, 0.0])], "b": (10.0, None)})
    np.testing.assert_array_equal(bar, [12.0, 10.0, 10.0])
    matrix = jg.jacobian(lambda x: {"a": [x * 2.0], "b": np.sum(x)})(X)
    np.testing.assert_array_equal(matrix["a"][0], 2.0 * np.eye(3))
    np.testing.assert_array_equal(matrix["b"], np.ones(3))


def test_jacobian_of_trees_by_trees() -> None:
    matrix = jg.jacobian(lambda t: [t["x"] * t["s"], np.sum(t["x"])])({"s": 2.0, "x": X})
    np.testing.assert_array_equal(matrix[0]["x"], 2.0 * np.eye(3))
    np.testing.assert_array_equal(matrix[0]["s"], X)
    np.testing.assert_array_equal(matrix[1]["x"], np.ones(3))
    assert matrix[1]["s"] == 0.0


def test_trees_that_do_not_match_are_errors() -> None:
    _, pullback = jg.vjp(lambda x: (x, x), 1.0)
    with pytest.raises(TreeMismatchError, match="cotangents"):
        pullback([1.0, 1.0])
    with pytest.raises(TreeMismatchError, match="cotangents"):
        pullback(1.0)
    with pytest.raises(TreeMismatchError, match="tangents"):
        jg.jvp(lambda x: x, ((1.0, 2.0),), (1.0,))
    with pytest.raises(TreeMismatchError, match=r"shape \(2,\).*shape \(3,\)"):
        jg.vjp(lambda x: x * 2.0, X)[1](np.ones(2))
    with pytest.raises(TreeMismatchError, match=r"shape \(2,\).*shape \(3,\)"):
        jg.jvp(lambda x: x * 2.0, (X,), (np.ones(2),))
    with pytest.raises(TreeMismatchError, match="complex"):
        jg.jvp(lambda x: x * 2.0, (X,), (1j * X,))


# -- argnums -----------------------------------------------------------------------------------------------


def volume(a: Any, b: Any, c: Any, scale: float = 1.0) -> Any:
    return a * b * b * c * scale


@pytest.mark.parametrize(
    ("argnums", "expected"),
    [
        (0, 3.0 * 3.0 * 5.0),
        (1, 2.0 * 2.0 * 3.0 * 5.0),
        (-1, 2.0 * 9.0),
        (np.int64(2), 18.0),
        ((0,), (45.0,)),
        ((2, 0), (18.0, 45.0)),
        ([0, -1], (45.0, 18.0)),
        ((0, 1, 2), (45.0, 60.0, 18.0)),
    ],
)
def test_argnums(argnums: Any, expected: Any) -> None:
    assert jg.grad(volume, argnums)(2.0, 3.0, 5.0) == expected
    assert jg.value_and_grad(volume, argnums)(2.0, 3.0, 5.0) == (90.0, expected)
    assert jg.jacobian(volume, argnums)(2.0, 3.0, 5.0) == expected
    assert jg.elementwise_grad(volume, argnums)(2.0, 3.0, 5.0) == expected


@pytest.mark.parametrize("argnums", [3, -4, (0, 3), 1.0, "0", None, True, (), (0, 0), (0, -3), (0, 1.0), (0, True)])
@pytest.mark.parametrize("transform", [jg.grad, jg.value_and_grad, jg.jacobian, jg.elementwise_grad, jg.hessian])
def test_argnums_that_name_no_argument(transform: Any, argnums: Any) -> None:
    with pytest.raises(ArgnumsError):
        transform(volume, argnums)(2.0, 3.0, 5.0)


def test_keyword_arguments_are_handed_on() -> None:
    assert jg.grad(volume)(2.0, 3.0, 5.0, scale=10.0) == 450.0
    assert jg.grad(lambda x, *, power: x**power)(2.0, power=3) == 12.0
    with pytest.raises(TypeError, match="unexpected keyword"):
        jg.grad(volume)(2.0, 3.0, 5.0, size=1.0)
    with pytest.raises(ArgnumsError, match="keyword"):
        jg.grad(lambda x: x)(x=1.0)


def test_other_arguments_may_be_anything() -> None:
    def f(x: Any, name: str, n: int, table: dict[str, int]) -> Any:
        return x * n * table[name]

    assert jg.grad(f)(2.0, "a", 3, {"a": 5}) == 15.0


def test_signature_and_name_are_those_of_the_function() -> None:
    for transform in (jg.grad, jg.value_and_grad, jg.jacobian, jg.elementwise_grad, jg.hessian):
        wrapped: Any = transform(volume)
        assert wrapped.__name__ == "volume"
        assert inspect.signature(wrapped) == inspect.signature(volume)


# -- has_aux -----------------------------------------------------------------------------------------------


def with_aux(x: Any) -> tuple[Any, Any]:
    return np.sum(x * x), {"double": 2.0 * x, "note": "text", "n": 3}


def test_auxiliary_results_are_values() -> None:
    gradient, aux = jg.grad(with_aux, has_aux=True)(X)
    np.testing.assert_array_equal(gradient, 2.0 * X)
    assert type(aux["double"]) is np.ndarray
    np.testing.assert_array_equal(aux["double"], 2.0 * X)
    assert (aux["note"], aux["n"]) == ("text", 3)
    (value, aux), gradient = jg.value_and_grad(with_aux, has_aux=True)(X)
    assert (value, aux["n"]) == (14.0, 3)
    out, pullback, aux = jg.vjp(with_aux, X, has_aux=True)
    assert (out, aux["note"]) == (14.0, "text")
    np.testing.assert_array_equal(pullback(1.0)[0], 2.0 * X)
    out, tangent, aux = jg.jvp(with_aux, (X,), (X,), has_aux=True)
    assert (out, tangent, aux["note"]) == (14.0, 28.0, "text")
    matrix, aux = jg.jacobian(with_aux, has_aux=True)(X)
    np.testing.assert_array_equal(matrix, 2.0 * X)
    assert aux["n"] == 3


def test_auxiliary_results_of_an_inner_transform_are_differentiable() -> None:
    def f(x: Any) -> Any:
        _, aux = jg.grad(lambda y: (y * y * x, x * y * y * y), has_aux=True)(x)
        return aux  # x * x**3

    assert jg.grad(f)(2.0) == 4.0 * 8.0


@pytest.mark.parametrize("out", [1.0, (1.0,), (1.0, 2.0, 3.0), [1.0, 2.0]])
def test_has_aux_wants_a_pair(out: Any) -> None:
    for run in (
        jg.grad(lambda x: out, has_aux=True),
        lambda x: jg.vjp(lambda x: out, x, has_aux=True),
        lambda x: jg.jvp(lambda x: out, (x,), (x,), has_aux=True),
    ):
        with pytest.raises(DifferentiationTypeError, match="has_aux"):
            run(1.0)


# -- arrays in, arrays out ---------------------------------------------------------------------------------


def test_floats_give_numpy_floats_and_arrays_arrays() -> None:
    value, gradient = jg.value_and_grad(lambda x: x * x)(3.0)
    assert type(value) is type(gradient) is np.float64
    assert type(jg.grad(lambda x: x * x)(np.float32(3.0))) is np.float32
    assert type(jg.grad(lambda x: x * x)(np.array(3.0))) is np.float64
    assert type(jg.grad(np.sum)(X)) is np.ndarray
    assert type(jg.jvp(np.sum, (X,), (X,))[1]) is np.float64
    assert type(jg.hessian(lambda x: x * x)(3.0)) is np.float64
    assert jg.grad(lambda x: np.sum(x) * 1.0)(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dtype_is_the_arguments(dtype: Any) -> None:
    x = X.astype(dtype)
    gradient = jg.grad(lambda x: np.sum(np.tanh(x) * 2.0 + x * 3))(x)
    assert gradient.dtype == dtype
    assert jg.jacobian(lambda x: x * 2.0)(x).dtype == dtype
    assert jg.hessian(lambda x: np.sum(x * x * x))(x).dtype == dtype
    assert jg.vjp(lambda x: x * 2, x)[1](np.ones(3))[0].dtype == dtype
    assert jg.jvp(lambda x: x * 2, (x,), (np.ones(3),))[1].dtype == dtype


def test_each_argument_has_its_own_dtype() -> None:
    def f(a: Any, b: Any) -> Any:
        return np.sum(a * b * a)

    a, b = X.astype(np.float32), X * 2.0
    value, (by_a, by_b) = jg.value_and_grad(f, (0, 1))(a, b)
    assert (value.dtype, by_a.dtype, by_b.dtype) == (np.float64, np.float32, np.float64)
    np.testing.assert_allclose(by_a, 2 * X * 2 * X)
    np.testing.assert_allclose(by_b, X * X)
    u = (np.ones(3, np.float32), np.ones(3))
    _, tangent = jg.jvp(f, (a, b), u)
    assert tangent == pytest.approx(float(np.sum(by_a) + np.sum(by_b)))
    for argnums in ((0, 1), (1, 0)):
        blocks = jg.hessian(f, argnums)(a, b)
        dtypes = [[block.dtype for block in row] for row in blocks]
        kinds = {0: np.float32, 1: np.float64}
        assert dtypes[0][0] == kinds[argnums[0]]
        assert dtypes[1][1] == kinds[argnums[1]]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (3, "int64"),
        (np.array([1, 2]), "int64"),
        (True, "bool"),
        (np.array(["a"]), "dtype"),
        ("text", "str"),
        ({"a": [1.0, {"b": 2}]}, r"\['a'\]\[1\]\['b'\]"),
    ],
)
def test_arguments_that_have_no_derivative(argument: Any, words: str) -> None:
    for run in (
        jg.grad(lambda x: 1.0),
        jg.jacobian(lambda x: 1.0),
        lambda x: jg.vjp(lambda x: 1.0, x),
        lambda x: jg.jvp(lambda x: 1.0, (x,), (x,)),
    ):
        with pytest.raises(DifferentiationTypeError, match=words):
            run(argument)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda x: x, "scalar"),
        (lambda x: (np.sum(x), 1.0), "tuple"),
        (lambda x: None, "NoneType"),
        (lambda x: "text", "str"),
        (lambda x: np.sum(x) > 0, "bool"),
        (lambda x: 3, "int"),
        (lambda x: np.sum(x) * 1j, "complex"),
    ],
    ids=["array", "tuple", "none", "str", "bool", "int", "complex"],
)
def test_results_that_have_no_gradient(result: Any, words: str) -> None:
    with pytest.raises(DifferentiationTypeError, match=words):
        jg.grad(result)(X)


# -- what does not depend on the argument ------------------------------------------------------------------


@pytest.mark.parametrize("result", [lambda x: 3.0, lambda x: np.float64(3.0), lambda x: np.array(3.0)])
def test_constant_results_have_derivative_zero(result: Any) -> None:
    value, gradient = jg.value_and_grad(result)(X)
    assert value == 3.0
    np.testing.assert_array_equal(gradient, np.zeros(3))
    np.testing.assert_array_equal(jg.hessian(result)(X), np.zeros((3, 3)))
    np.testing.assert_array_equal(jg.vjp(result, X)[1](1.0)[0], np.zeros(3))
    assert jg.jvp(result, (X,), (X,))[1] == 0.0
    assert jg.grad(lambda y: np.sum(jg.grad(result)(X * y)) + y)(1.0) == 1.0


def test_constant_jacobians() -> None:
    np.testing.assert_array_equal(jg.jacobian(lambda x: np.ones(2))(X), np.zeros((2, 3)))
    np.testing.assert_array_equal(jg.jacobian(lambda x, y: y * 2.0)(X, np.ones(2)), np.zeros((2, 3)))


def test_unused_arguments_have_derivative_zero() -> None:
    by_x, by_y = jg.grad(lambda x, y: np.sum(x), (0, 1))(X, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(by_x, np.ones(3))
    np.testing.assert_array_equal(by_y, np.zeros((2, 2), np.float32), strict=True)


def test_the_argument_itself_as_the_result() -> None:
    assert jg.grad(lambda x: x)(2.0) == 1.0
    assert jg.jvp(lambda x: x, (2.0,), (3.0,)) == (2.0, 3.0)
    np.testing.assert_array_equal(jg.jacobian(lambda x: x)(X), np.eye(3))
    out, pullback = jg.vjp(lambda x: (x, x, x * 2.0), 2.0)
    assert out == (2.0, 2.0, 4.0)
    assert pullback((1.0, 10.0, 100.0)) == (211.0,)


def test_one_input_used_often() -> None:
    gradient = jg.grad(lambda x: np.sum(x * x + x * x * x - x / x))(X)
    np.testing.assert_allclose(gradient, 2.0 * X + 3.0 * X * X, rtol=1e-14)
    # the same array as two arguments is two arguments
    by_x, by_y = jg.grad(lambda x, y: np.sum(x * x * y), (0, 1))(X, X)
    np.testing.assert_array_equal(by_x, 2.0 * X * X)
    np.testing.assert_array_equal(by_y, X * X)
    # and as an argument and a constant, one of each
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(x * X))(X), X)


def test_a_result_used_by_several_rows() -> None:
    def f(x: Any) -> Any:
        y = np.tanh(x)
        return np.sum(y * y + y) * np.sum(y) + np.sum(x * y)

    t = np.tanh(X)
    slope = (2 * t + 1) * np.sum(t) + np.sum(t * t + t) + X
    np.testing.assert_allclose(jg.grad(f)(X), slope * (1 - t * t) + t, rtol=1e-12)


def test_a_pullback_may_be_called_again_and_again() -> None:
    _, pullback = jg.vjp(lambda x: np.tanh(x) * x, X)
    first = pullback(np.ones(3))[0]
    for _ in range(3):
        np.testing.assert_array_equal(pullback(np.ones(3))[0], first)
    np.testing.assert_array_equal(pullback(np.zeros(3))[0], np.zeros(3))
    np.testing.assert_allclose(pullback(2.0 * np.ones(3))[0], 2.0 * first, rtol=1e-15)


@pytest.mark.parametrize("size", [3, 5000, 70000])
@pytest.mark.parametrize(
    "f", [np.exp, lambda x: np.exp(x)[::-1], lambda x: (lambda y: (y, y[1:] * y[1:], x * x))(x * 2.0)]
)
def test_results_may_be_written_to_before_the_pullback(f: Any, size: int) -> None:
    def with_aux(x: Any) -> Any:
        out = f(x)
        return out, out

    x = np.linspace(-1.0, 1.0, size)
    out, pullback, aux = jg.vjp(with_aux, x, has_aux=True)
    bars = tuple(map(np.ones_like, out)) if isinstance(out, tuple) else np.ones_like(out)
    (expected,) = pullback(bars)
    for array in (*out, *aux) if isinstance(out, tuple) else (out, aux):
        array[:] = 7.0
    np.testing.assert_array_equal(pullback(bars)[0], expected)


@pytest.mark.parametrize("size", [3, 70000])
def test_tangents_are_not_the_users_arrays(size: int) -> None:
    x, direction = np.zeros(size), np.ones(size)
    _, (tangent, turned) = jg.jvp(lambda x: (x, x[::-1]), (x,), (direction,))
    tangent[:] = turned[:] = 7.0
    assert np.all(direction == 1.0)


def test_results_are_not_the_users_arrays() -> None:
    """Writing to a gradient changes neither arguments nor other results, though all are one value."""
    x, g = X.copy(), np.ones(3)
    for f in (
        lambda x, y: np.sum(x) + np.sum(y),
        lambda x, y: np.sum(x + y),
        lambda x, y: np.sum(x * X + y * X),
    ):
        gradients = jg.grad(f, (0, 1))(x, x)
        for gradient in gradients:
            gradient *= 2.0
        np.testing.assert_array_equal(gradients[0], gradients[1])
    out, pullback = jg.vjp(lambda x, y: x + y, x, x)
    bars = pullback(g)
    for bar in bars:
        bar *= 2.0
        np.testing.assert_array_equal(bar, [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(pullback(g)[0], [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(out, 2.0 * X)
    np.testing.assert_array_equal(g, np.ones(3))


def test_inside_a_transform_everything_is_a_tensor() -> None:
    def f(x: Any) -> Any:
        value, gradient = jg.value_and_grad(lambda y: np.sum(y * y))(x)
        assert type(x) is type(value) is type(gradient) is Tensor
        assert type(jg.jacobian(lambda y: y * y)(x)) is Tensor
        return value

    jg.grad(f)(X)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("make", [lambda: np.ma.array([1.0, 2.0], mask=[0, 1]), lambda: np.matrix([[1.0, 2.0]])])
@pytest.mark.parametrize(
    "use",
    [
        lambda odd: jg.grad(lambda x: np.sum(x**2))(odd),
        lambda odd: jg.grad(lambda x: np.sum(x * odd))(np.ones(2)),
        lambda odd: jg.jit(lambda x: x)(odd),
        lambda odd: jg.tensor(odd),
        lambda odd: jg.as_tensor(odd),
    ],
)
def test_arrays_with_meanings_of_their_own_are_refused(make: Any, use: Any) -> None:
    with pytest.raises(DtypeError, match="does not know what operations mean on arrays of type numpy"):
        use(make())


def test_adding_to_an_array_in_place_is_told() -> None:
    def f(x: Any) -> Any:
        z = np.zeros(3)
        z += x
        return np.sum(z)

    with pytest.raises(TypeError, match=r"an array cannot hold what numpy.add computes .*write z = z \+ x instead"):
        jg.grad(f)(np.ones(3))
