"""Rows that native code records and replays: elementwise ones of any operands, and those whose rules run in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
import jitgrad.numpy as jnp
from jitgrad.core.op import REGISTRY, Op
from jitgrad.core.tensor import Tensor
from jitgrad.kernels import layout as L

ELEMENTWISE = {L.KIND_ELEMENTWISE}
BROADCAST = {L.KIND_BROADCAST_1, L.KIND_BROADCAST_2, L.KIND_BROADCAST_3}
GENERAL = {L.KIND_RULE}


def kinds(f: Callable[..., Any], *args: Any) -> set[int]:
    """The kinds of the rows that are recorded when ``f`` runs the second time, with all kernels compiled."""
    found: set[int] = set()

    def traced(*tensors: Any) -> Any:
        out = f(*tensors)
        tape = tensors[0]._tape
        found.clear()
        found.update(tape.row(at)[L.ROW_KIND] for at in range(len(tape)))
        return out

    for _ in range(2):
        jg.vjp(traced, *args)
    return found


def gradient(f: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Value and gradients, weighted so that no two elements of the result count alike."""

    def weighted(*tensors: Any) -> Any:
        out = f(*tensors)
        return np.sum(out * np.arange(1, out.size + 1, dtype=out.dtype).reshape(out.shape))

    for _ in range(2):  # the second time natively: the first one compiles
        found = jg.value_and_grad(weighted, tuple(range(len(args))))(*args)
    return found


def values(seed: int, *shapes: tuple[int, ...], dtype: Any = np.float64) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [0, 1, 7, 33])
def test_where_of_arrays(dtype: Any, n: int) -> None:
    x, y = values(0, (n,), (n,), dtype=dtype)
    condition = x > y
    assert kinds(lambda x, y: np.where(condition, x, y), x, y) == ELEMENTWISE
    value, (by_x, by_y) = gradient(lambda x, y: np.where(condition, x, y), x, y)
    weights = np.arange(1, n + 1, dtype=dtype)
    np.testing.assert_allclose(value, np.sum(np.where(condition, x, y) * weights), rtol=1e-6)
    np.testing.assert_array_equal(by_x, np.where(condition, weights, 0))
    np.testing.assert_array_equal(by_y, np.where(condition, 0, weights))
    assert value.dtype == by_x.dtype == by_y.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("number", [2.5, 3, np.float64(0.5), True])
def test_where_with_a_number(dtype: Any, number: Any) -> None:
    (x,) = values(1, (3, 4), dtype=dtype)
    condition = x > 0
    weights = np.arange(1, 13, dtype=dtype).reshape(3, 4)
    native = type(number) in (int, float) or (dtype is np.float64 and type(number) is np.float64)
    for chosen in (True, False):

        def f(x: Any, chosen: bool = chosen) -> Any:
            return np.where(condition, x, number) if chosen else np.where(condition, number, x)

        assert kinds(f, x) == ELEMENTWISE or not native
        value, (by_x,) = gradient(f, x)
        np.testing.assert_allclose(value, np.sum(f(x) * weights), rtol=1e-6)
        np.testing.assert_array_equal(
            by_x, np.where(condition, weights, 0) if chosen else np.where(condition, 0, weights)
        )
        assert f(jg.tensor(x, requires_grad=True)).dtype == f(x).dtype
        assert by_x.dtype == dtype


def test_where_is_float32_whatever_the_path() -> None:
    (x,) = values(2, (3, 4), dtype=np.float32)
    mask = x > 0
    for f in (
        lambda x: np.where(mask, x, 0.5),
        lambda x: np.where(mask.T, x.T, 0.5),
        lambda x: np.where(mask[:, None], x, 1),
        lambda x: np.clip(x, np.float32(-1), 0.5),
        lambda x: np.clip(x.T, -np.ones(3, np.float32), 0.5),
    ):
        assert jg.vjp(f, x)[0].dtype == np.float32
        assert gradient(f, x)[1][0].dtype == np.float32


def test_conditions_that_are_no_arrays_of_booleans() -> None:
    (x,) = values(3, (3,))
    for condition in ([1, 0, 2], np.array([0.0, np.nan, -1.0]), [True, False, True], True, np.array(False), 0):

        def f(x: Any, c: Any = condition) -> Any:
            return np.where(c, x, -x)

        assert kinds(f, x) <= ELEMENTWISE | BROADCAST
        _, (by_x,) = gradient(f, x)
        np.testing.assert_array_equal(by_x, np.arange(1.0, 4.0) * np.where(condition, 1, -1))


def test_a_condition_computed_from_tensors() -> None:
    x, y = values(4, (5,), (5,))
    assert kinds(lambda x, y: np.where(x > y, x, y), x, y) == ELEMENTWISE
    _, bars = gradient(lambda x, y: np.where(x > y, x * x, y), x, y)
    weights = np.arange(1.0, 6.0)
    np.testing.assert_allclose(bars[0], np.where(x > y, 2 * x * weights, 0))
    np.testing.assert_allclose(bars[1], np.where(x > y, 0, weights))


@pytest.mark.parametrize(
    ("condition", "x", "y"),
    [
        ((3, 1), (3, 4), (4,)),
        ((4,), (), (3, 4)),
        ((), (3, 4), ()),
        ((2, 3, 4), (1, 4), (3, 1)),
        ((2, 3, 4), (), ()),
        ((0, 1), (1, 4), (4,)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_where_broadcasts(condition: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], dtype: Any) -> None:
    a, b = values(5, x, y, dtype=dtype)
    mask = np.random.default_rng(6).uniform(size=condition) > 0.5

    def f(a: Any, b: Any) -> Any:
        return np.where(mask, a, b)

    assert kinds(f, a, b) == {L.KIND_BROADCAST_3}
    value, bars = gradient(f, a, b)
    expected = f(a, b)
    weights = np.arange(1, expected.size + 1, dtype=dtype).reshape(expected.shape)
    np.testing.assert_allclose(value, np.sum(expected * weights), rtol=1e-5)
    for bar, like, chosen in ((bars[0], a, mask), (bars[1], b, ~mask)):
        padded = (1,) * (weights.ndim - like.ndim) + like.shape
        axes = tuple(d for d in range(weights.ndim) if padded[d] == 1)
        total = np.sum(np.broadcast_to(chosen, weights.shape) * weights, axes, keepdims=True)
        np.testing.assert_allclose(bar, total.reshape(like.shape), rtol=1e-5)


def test_the_branch_not_taken_gives_no_nan() -> None:
    x = np.array([4.0, 0.0, -1.0, np.inf])
    with np.errstate(all="ignore"):
        _, (by_x,) = gradient(lambda x: np.where(x > 0, np.sqrt(x), 0.0), x)
        np.testing.assert_array_equal(by_x, [0.25, 0.0, 0.0, 0.0])
        _, (by_x,) = gradient(lambda x: np.where(x > 0, np.log(x), x), x[:3])
        np.testing.assert_array_equal(by_x, [0.25, 2.0, 3.0])
        # nor does a cotangent that is infinite or NaN where an operand was not chosen
        for bad in (np.inf, np.nan):
            pullback = jg.vjp(lambda x, y: np.where(x > 1, x, y), np.array([2.0, 0.0]), np.zeros(2))[1]
            bars = pullback(np.array([bad, bad]))
            np.testing.assert_array_equal(bars[0], [bad, 0.0])
            np.testing.assert_array_equal(bars[1], [0.0, bad])


def test_where_takes_nan_from_the_branch_that_is_taken() -> None:
    nan = np.array([np.nan, 1.0])
    value, pullback = jg.vjp(lambda x: np.where(np.array([True, False]), nan, x), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(value, [np.nan, 2.0])
    np.testing.assert_array_equal(pullback(np.ones(2))[0], [0.0, 1.0])


def test_higher_orders() -> None:
    (x,) = values(7, (6,))
    mask = x > 0

    def f(x: Any) -> Any:
        return np.sum(np.where(mask, x**3, np.exp(x)))

    np.testing.assert_allclose(jg.hessian(f)(x), np.diag(np.where(mask, 6 * x, np.exp(x))), rtol=1e-12)
    third = jg.elementwise_grad(jg.elementwise_grad(jg.elementwise_grad(f)))(x)
    np.testing.assert_allclose(third, np.where(mask, 6, np.exp(x)), rtol=1e-12)
    _, tangent = jg.jvp(jg.grad(f), (x,), (np.ones(6),))
    np.testing.assert_allclose(tangent, np.where(mask, 6 * x, np.exp(x)), rtol=1e-12)
    leaf = jg.tensor(x, requires_grad=True)
    (once,) = jg.autograd.grad(f(leaf), [leaf], create_graph=True)
    (twice,) = jg.autograd.grad(np.sum(once), [leaf])
    np.testing.assert_allclose(np.asarray(twice.numpy()), np.where(mask, 6 * x, np.exp(x)), rtol=1e-12)


def test_a_condition_that_is_written_over_after_use() -> None:
    (x,) = values(8, (4,))
    mask = np.array([True, False, True, False])

    def f(x: Any) -> Any:
        out = np.where(mask, x, 0.0) + np.where(mask[:, None], x, 0.0)
        mask[:] = ~mask
        return np.sum(out)

    for _ in range(3):
        mask[:] = [True, False, True, False]
        np.testing.assert_array_equal(jg.grad(f)(x), [6.0, 2.0, 6.0, 2.0])


def test_results_and_operands_written_to_in_place() -> None:
    x = jg.tensor(np.array([1.0, -2.0, 3.0]), requires_grad=True)
    for _ in range(2):
        x.grad = None
        y = np.where(x > 0, x * x, x)
        y[0] = 10.0  # where keeps its condition only
        y *= 2.0
        np.sum(y).backward()
        np.testing.assert_array_equal(x.grad.numpy(), [0.0, 2.0, 12.0])
    bounds = jg.tensor(np.zeros(3))
    clipped = np.clip(x, bounds, np.ones(3))
    bounds[0] = 5.0  # clip has kept what was in it
    x.grad = None
    with pytest.raises(jg.errors.InplaceError):
        np.sum(clipped).backward()


def test_clip_between_arrays() -> None:
    x, low = values(9, (5,), (5,))

    def f(x: Any, low: Any) -> Any:
        return np.clip(x, low, low + 1.0)

    assert kinds(f, x, low) == ELEMENTWISE
    _, bars = gradient(f, x, low)
    weights = np.arange(1.0, 6.0)
    np.testing.assert_array_equal(bars[0], weights * ((x > low) & (x < low + 1)))
    np.testing.assert_array_equal(bars[1], weights * ((x < low) | (x > low + 1)))
    assert kinds(lambda x: np.clip(x, low, 2.0), x) == ELEMENTWISE
    assert kinds(lambda x: np.clip(x, -1.0, 1.0), x) == ELEMENTWISE
    assert kinds(lambda x: np.clip(x, low[:, None], 2.0), x) == {L.KIND_BROADCAST_3}
    np.testing.assert_array_equal(gradient(lambda x: np.clip(x, low, 2.0), x)[1][0], weights * (x > low))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_operands_of_any_strides(dtype: Any) -> None:
    x, y = values(10, (3, 4), (4, 3), dtype=dtype)
    mask = y > 0
    programs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (lambda x, y: np.tanh(x.T) * y, lambda x, y, w: ((w * y / np.cosh(x.T) ** 2).T, w * np.tanh(x.T))),
        (lambda x, y: x.T * 2.0 + y, lambda x, y, w: (2 * w.T, w)),
        (lambda x, y: 3.0 / y[::-1, ::-1] + x.T, lambda x, y, w: (w.T, -3 * w[::-1, ::-1] / y**2)),
        (lambda x, y: np.where(mask, x.T, y), lambda x, y, w: ((w * mask).T, w * ~mask)),
        (lambda x, y: x[:, ::2] * y[:3, 1:], None),
        (lambda x, y: x[:, None].T * y, None),
    ]
    for f, bars_of in programs:
        assert not kinds(f, x, y) & GENERAL
        value, bars = gradient(f, x, y)
        out = f(x, y)
        w = np.arange(1, out.size + 1, dtype=dtype).reshape(out.shape)
        np.testing.assert_allclose(value, np.sum(out * w), rtol=1e-4)
        assert [bar.dtype for bar in bars] == [dtype, dtype]
        if bars_of is not None:
            for bar, expected in zip(bars, bars_of(x, y, w), strict=True):
                np.testing.assert_allclose(bar, expected, rtol=1e-4, atol=1e-5)
        elif dtype is np.float64:
            jg.testing.check_grads(f, (x, y), order=2)


def test_constants_of_any_strides() -> None:
    (x,) = values(11, (3, 4))
    constant = np.arange(12.0).reshape(4, 3).T
    repeated = np.broadcast_to(np.array([1.0, 2.0, 3.0, 4.0]), (3, 4))
    w = np.arange(1.0, 13.0).reshape(3, 4)
    assert kinds(lambda x: x + constant, x) == {L.KIND_BROADCAST_2}  # no rule needs it
    assert kinds(lambda x: x * constant, x) == GENERAL

    def chosen(x: Any) -> Any:
        return np.where(constant > 5, x, 1.0)

    assert kinds(chosen, x) == GENERAL
    np.testing.assert_array_equal(gradient(chosen, x)[1][0], w * (constant > 5))
    for other in (constant, repeated, constant[::-1]):
        np.testing.assert_allclose(gradient(lambda x, c=other: x * c, x)[1][0], w * other)
        np.testing.assert_array_equal(gradient(lambda x, c=other: x - c, x)[1][0], w)


def test_a_repeated_operand_gets_its_whole_cotangent() -> None:
    (x,) = values(12, (4,))

    def f(x: Any) -> Any:
        return jnp.broadcast_to(x, (3, 4)) * jnp.broadcast_to(x, (3, 4)).T.T

    w = np.arange(1.0, 13.0).reshape(3, 4)
    np.testing.assert_allclose(gradient(f, x)[1][0], 2 * x * w.sum(0))


def test_tensors_that_are_on_no_tape() -> None:
    (x,) = values(13, (4,))
    fixed = jg.tensor(np.arange(4.0))

    def stopped(x: Any) -> Any:
        return x * jg.stop_gradient(x) + np.where(fixed > 1, x, jg.stop_gradient(x))

    assert kinds(stopped, x) == ELEMENTWISE
    np.testing.assert_allclose(gradient(stopped, x)[1][0], np.arange(1.0, 5.0) * (x + (fixed.numpy() > 1)))


def test_sizes_that_do_not_fit_are_refused_as_by_numpy() -> None:
    (x,) = values(14, (3,))
    for f in (
        lambda x: np.where(np.ones(3, bool), x, np.ones(2)),
        lambda x: np.where(np.ones((2, 4), bool), x, 0.0),
        lambda x: np.clip(x, np.zeros(2), np.ones(3)),
    ):
        with pytest.raises(ValueError, match="broadcast"):
            jg.vjp(f, x)


def test_compacting_renumbers_rows_of_three_operands() -> None:
    x = jg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = np.where(x > 2, x, 0.0) + np.where(np.array([[True], [False]]), x, x.T.reshape(2, 3)) + np.clip(x, x - 1, x + 1)
    tape = y._tape
    assert type(y) is Tensor
    assert tape is not None
    for _ in range(5):
        np.exp(x)
    tape.compact()
    np.sum(y).backward()
    ones = np.ones((2, 3))
    chosen = ones * [[1], [0]]
    not_chosen = (ones - chosen).reshape(3, 2).T
    np.testing.assert_array_equal(x.grad.numpy(), (np.arange(6).reshape(2, 3) > 2) + chosen + not_chosen + ones)


# -- rows whose rules run in Python ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rules_that_native_code_calls(dtype: Any) -> None:
    x, w = values(20, (4, 3), (3,), dtype=dtype)

    def f(x: Any, w: Any) -> Any:
        y = x @ w  # needs both
        return np.max(x, axis=1) * y + np.mean(x, axis=1) + jnp.logsumexp(x, axis=1) + np.sum(x, axis=1, keepdims=True)

    assert kinds(f, x, w) & GENERAL
    value, bars = gradient(f, x, w)
    assert value.dtype == bars[0].dtype == bars[1].dtype == dtype
    if dtype is np.float64:
        jg.testing.check_grads(f, (x, w), order=2)


def test_cotangents_of_contiguous_and_transposed_operands_alike() -> None:
    (x,) = values(21, (3, 4))
    w = np.arange(1.0, 13.0).reshape(4, 3)
    for f in (
        lambda x: jnp.sum(x.T * w),
        lambda x: np.sum(x.T @ x @ x.T * w),
        lambda x: np.mean(x.T) + np.sum(x[:, 1]),
    ):
        jg.testing.check_grads(f, (x,), order=2)
        np.testing.assert_allclose(jg.value_and_grad(f)(x)[0], f(x), rtol=1e-12)
    np.testing.assert_array_equal(jg.grad(lambda x: jnp.sum(x.T))(x), np.ones((3, 4)))


def test_constants_of_rules_are_copied() -> None:
    (x,) = values(22, (3,))
    buffer = np.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        out = np.dot(x, buffer)
        buffer[:] = 0.0
        return out * 2.0

    for _ in range(3):
        buffer[:] = [1.0, 2.0, 3.0]
        np.testing.assert_array_equal(jg.grad(f)(x), [2.0, 4.0, 6.0])


def test_operands_that_only_the_general_path_takes() -> None:
    (x,) = values(23, (3, 4))
    integers, large = np.arange(12).reshape(4, 3), np.ones((4, 3000))
    complexes = np.ones(4) * 1j
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(x @ integers))(x), np.tile(integers.sum(1), (3, 1)))
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(x @ large))(x), np.full((3, 4), 3000.0))
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(np.imag(x @ complexes)))(x), np.ones((3, 4)))
    np.testing.assert_array_equal(
        jg.grad(lambda x: np.sum(x @ integers[:, ::-1].astype(float).T.copy().T))(x)[0], integers.sum(1)
    )


def test_errors_of_ops_and_of_rules_come_through() -> None:
    def refuse(g: Any, x: Any) -> Any:
        raise ArithmeticError("no derivative today")

    def samples(rng: Any) -> Any:
        return [((rng.normal(size=3),), {})]

    op = Op("refusing", np.negative, ("x",), rules={"x": refuse}, samples=samples)
    try:
        x = np.ones(3)
        for _ in range(3):
            with pytest.raises(ArithmeticError, match="today"):
                jg.grad(lambda x: np.sum(op(x * 2.0) * 3.0))(x)
            with pytest.raises(jg.errors.ShapeError):
                jg.grad(lambda x: np.sum(x @ np.ones((4, 2))))(x)
        np.testing.assert_array_equal(jg.grad(lambda x: np.sum(x * 2.0))(x), np.full(3, 2.0))
    finally:
        del REGISTRY["refusing"]


def test_rules_that_return_nothing_or_another_shape_or_dtype() -> None:
    def samples(rng: Any) -> Any:
        return [((rng.normal(size=3), rng.normal(size=3)), {})]

    op = Op(
        "uneven",
        lambda x, y: x + y,
        ("x", "y"),
        rules={"x": lambda g: None, "y": lambda g: np.stack([g, g]).astype(np.float32)},
        samples=samples,
    )
    try:
        x = np.arange(3.0)
        for _ in range(3):
            by_x, by_y = jg.grad(lambda x, y: np.sum(op(x * 1.0, y * 1.0) * 3.0), (0, 1))(x, x)
            np.testing.assert_array_equal(by_x, np.zeros(3))
            np.testing.assert_array_equal(by_y, np.full(3, 6.0))
            assert by_y.dtype == np.float64
    finally:
        del REGISTRY["uneven"]


def test_lines_are_those_of_the_user() -> None:
    x = jg.tensor(np.ones((3, 3)), requires_grad=True)
    for f in (np.linalg.norm, jnp.logsumexp, np.max, lambda x: np.sum(x, axis=0), lambda x: x @ x):
        out = f(x)
        tape = out._tape
        assert tape is not None
        assert tape.location(tape.producer(out._vid)).file == __file__


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_picking_along_an_axis(axis: int, dtype: Any) -> None:
    (x,) = values(24, (3, 4, 5), dtype=dtype)
    index = np.array([[2, 0], [-1, 2]])
    where = (*(slice(None),) * axis, index)
    for f in (lambda x: x[where], lambda x: np.take(x, index, axis)):
        assert kinds(f, x) == {L.KIND_GATHER}
        out = f(x)
        w = np.arange(1, out.size + 1, dtype=dtype).reshape(out.shape)
        expected = np.zeros_like(x)
        np.add.at(expected, where, w)
        np.testing.assert_array_equal(gradient(f, x)[1][0], expected)
    jg.testing.check_grads(lambda x: x[where] ** 2, (x.astype(float),), order=2)


def test_compacting_renumbers_picked_rows() -> None:
    x = jg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    np.exp(x)
    y = x[:, np.array([0, 0, 2])] * 2.0
    tape = y._tape
    assert tape is not None
    tape.compact()
    np.sum(y).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[4.0, 0.0, 2.0], [4.0, 0.0, 2.0]])


# -- arrays that are on no tape ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128, np.float16])
def test_ops_on_arrays_are_numpys(dtype: Any) -> None:
    x = (np.arange(12).reshape(3, 4) + 1).astype(dtype)
    jnp.add(np.ones(1), np.ones(1))
    for found, expected in (
        (jnp.add(x, x), x + x),
        (jnp.add(x.T, 1.5), x.T + 1.5),
        (jnp.multiply(x, x[0]), x * x[0]),
        (jnp.subtract(2, x[:, :1]), 2 - x[:, :1]),
        (jnp.add(x[0, 0], x[0, 1]), x[0, 0] + x[0, 1]),
        (jnp.add(x, np.float64(0.5)), x + np.float64(0.5)),
        (jnp.add(x, True), x + True),
        (jnp.add(x[:0], x[:1]), x[:0] + x[:1]),
    ):
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="broadcast"):
        jnp.add(np.ones(2), np.ones(3))


def test_ops_on_arrays_leave_no_floating_point_flags() -> None:
    with np.errstate(all="raise"):
        for _ in range(2):
            jnp.divide(np.ones(3), np.zeros(3))
            np.add(np.ones(3), 1.0)
