"""Writing in place: as NumPy, through views too; cotangents reach what was written, not what it replaced."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.tensor import Tensor, constant
from jitgrad.errors import DtypeError, NumpyConversionError
from tests.ops.indices import INDICES, MASK, X
from tests.ops.moves import jnp, traced


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_assignment(index: Any) -> None:
    """The value is NumPy's; cotangents go to the value, and no longer to what was written over."""
    value = np.asarray(-np.arange(1.0, X[index].size + 1).reshape(X[index].shape))

    def write(x: Any, v: Any) -> Any:
        y = x * 1.0
        y[index] = v
        return y

    out, (bar_x, bar_v) = traced(write, X, value)
    np.testing.assert_array_equal(out, write(X, value))
    # in what is left, the positive elements are x's, the negative ones the value's
    flat_bar = np.arange(1.0, X.size + 1).reshape(X.shape)
    np.testing.assert_array_equal(bar_x, np.where(out > 0, flat_bar, 0))
    expected = np.zeros(value.shape)
    expected.ravel()[(-out[out < 0] - 1).astype(int)] = flat_bar[out < 0]
    np.testing.assert_array_equal(bar_v, expected)
    tangents = np.cos(X), np.sin(value)
    np.testing.assert_array_equal(jg.jvp(write, (X, value), tangents)[1], write(*tangents))


@pytest.mark.parametrize("index", [0, (1, 2, 3), slice(None), ([2, 2],), MASK, ...], ids=repr)
def test_assignment_of_scalars_and_broadcasting(index: Any) -> None:
    def write(x: Any, v: Any) -> Any:
        y = x * 1.0
        y[index] = v
        return y

    values = [np.array(-3.0), 7.0]
    if index is not MASK and index != (1, 2, 3):  # there, NumPy takes no further axes
        values.append(np.array([[[[-3.0]]]]))
    for v in values:
        out, (bar,) = traced(lambda v: write(X, v) if type(v) is not Tensor else write(constant(X), v), np.asarray(v))
        np.testing.assert_array_equal(out, write(X, v))
        flat_bar = np.arange(1.0, X.size + 1).reshape(X.shape)
        np.testing.assert_array_equal(bar, np.full(np.shape(v), np.sum(np.where(out == v, flat_bar, 0))))


def test_the_last_write_wins() -> None:
    def f(v: Any) -> Any:
        y = jnp.zeros(3)
        y[[1, 1, 0]] = v
        return np.sum(y * np.array([1.0, 2.0, 3.0]))

    np.testing.assert_array_equal(jg.grad(f)(np.array([4.0, 5.0, 6.0])), [0, 2, 1])
    np.testing.assert_array_equal(jg.hessian(lambda v: f(v * v))(np.array([4.0, 5.0, 6.0])), np.diag([0.0, 4.0, 2.0]))


def test_a_recurrence_written_in_place() -> None:
    """The kind of loop that promises are made of."""

    def f(x: Any) -> Any:
        n = len(x)
        y = jnp.zeros(n)
        y[0] = x[0]
        for i in range(1, n):
            y[i] = x[i] + 0.5 * y[i - 1]
            y[i] *= x[i]
        y[1:-1] += x[:-2]
        return np.sum(y * y)

    x = np.linspace(0.3, 1.2, 6)
    step = 1e-6
    numeric = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(jg.grad(f)(x), numeric, rtol=1e-8)


def test_elimination_through_rows() -> None:
    """Rows are views: `row -= factor * other` changes the matrix."""

    def determinant(a: Any) -> Any:
        a = np.copy(a)
        n = len(a)
        result = 1.0
        for j in range(n):
            pivot = a[j]
            result = result * pivot[j]
            for k in range(j + 1, n):
                row = a[k]
                row -= row[j] / pivot[j] * pivot
        return result

    a = np.array([[2.0, 1.0, 0.5], [0.3, 3.0, 1.0], [1.0, 0.2, 1.5]])
    np.testing.assert_allclose(jg.grad(determinant)(a), np.linalg.det(a) * np.linalg.inv(a).T, rtol=1e-12)


VIEWS: list[tuple[str, Any]] = [
    ("row", lambda np, x: x[1]),
    ("slice", lambda np, x: x[:, ::-2]),
    ("newaxis", lambda np, x: x[None, 1:]),
    ("element", lambda np, x: x[1, 2, ...]),
    ("reshape", lambda np, x: np.reshape(x, (2, 6))),
    ("ravel", lambda np, x: x.ravel()),
    ("transpose", lambda np, x: x.T),
    ("swapaxes", lambda np, x: x.swapaxes(0, 1)),
    ("squeeze", lambda np, x: np.squeeze(x[:1])),
    ("expand", lambda np, x: np.expand_dims(x, 1)),
    ("view of a view", lambda np, x: x.T[1:][::-1, 0]),
    ("flip", lambda np, x: np.flip(x)),
    ("rot90", lambda np, x: np.rot90(x)),
    ("moveaxis", lambda np, x: np.moveaxis(x[None], 0, 2)),
    ("atleast_3d", lambda np, x: np.atleast_3d(x)),
    ("split", lambda np, x: np.split(x, 2, axis=1)[1]),
    ("iteration", lambda np, x: list(x)[2]),
]


@pytest.mark.parametrize(("name", "view"), VIEWS)
@pytest.mark.parametrize("recorded", [True, False])
def test_writes_and_views(name: str, view: Any, recorded: bool) -> None:
    """A write to a view reaches the base and the other views; a write to the base reaches the views."""

    def program(np_: Any, x: Any, factor: Any) -> list[Any]:
        y = x * factor
        v = view(np_, y)
        other, whole = y[1], y.reshape(-1)
        results = [np_.copy(y)]
        v[...] = v * 2 + 1
        results += [np_.copy(y), np_.copy(other), np_.copy(whole)]
        y[1] = y[2] * 3
        results += [np_.copy(v), np_.copy(other)]
        v -= 5
        other[1:] = 0.25
        results += [np_.copy(y), np_.copy(v), np_.copy(whole)]
        y *= 2
        results += [np_.copy(v), np_.copy(other), np_.copy(y.T)]
        return results

    x = np.arange(12.0).reshape(3, 4) + 1
    expected = program(np, x, 1.5)
    if recorded:
        out, pullback = jg.vjp(lambda x, factor: program(np, x, factor), x, 1.5)
        step = 1e-6
        bars = [np.cos(np.arange(float(r.size))).reshape(r.shape) for r in out]
        _, bar = pullback(bars)
        change = [a - b for a, b in zip(program(np, x, 1.5 + step), program(np, x, 1.5 - step), strict=True)]
        np.testing.assert_allclose(
            bar, sum(np.sum(a * b) for a, b in zip(bars, change, strict=True)) / (2 * step), rtol=1e-7
        )
    else:
        out = [t._value for t in program(np, constant(x), 1.5)]
    for mine, theirs in zip(out, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Program:
    """A random sequence of reads, views and writes; the same on arrays as on tensors."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.steps = [(rng.integers(0, 11), rng.integers(0, 3), rng.integers(0, 4), rng.normal()) for _ in range(25)]

    def __call__(self, x: Any, v: Any) -> Any:
        y = x * 1.5
        held: Any = y[1]
        total = np.sum(y * y)
        for what, i, j, number in self.steps:
            if what == 0:
                y[i, j] = number
            elif what == 1:
                y[i, j] = v[j] * y[i, j - 1]
            elif what == 2:
                y[i] = v
            elif what == 3:
                y[:, j] = y[i, j] + number
            elif what == 4:
                y[i] += v * number
            elif what == 5:
                held = (y[i], y[:, 1:], y.T, y.reshape(2, 6))[j]
            elif what == 6:
                held *= number
            elif what == 7:
                y[::2, ::-1] = y[1:] * v
            elif what == 8:
                y[..., j, None] = v[j]
            elif what == 9:
                y[[i, i]] = y[[0, 2]] * number
            else:
                total = total + np.sum(y * number) * np.sum(held)
        return total + np.sum(y * y * y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(12))
def test_programs_of_reads_and_writes(seed: int, dtype: Any) -> None:
    program = Program(seed)
    rng = np.random.default_rng(100 + seed)
    x, v = rng.uniform(0.5, 1.0, (3, 4)), rng.uniform(0.5, 1.0, 4)
    dx, dv = rng.normal(size=(3, 4)), rng.normal(size=4)
    step = 1e-6
    change = (program(x + step * dx, v + step * dv) - program(x - step * dx, v - step * dv)) / (2 * step)
    scale = abs(change) + 1.0
    args = tuple(a.astype(dtype) for a in (x, v))
    directions = tuple(a.astype(dtype) for a in (dx, dv))
    tolerance = 1e-6 if dtype is np.float64 else 1e-3
    value, gradient = jg.value_and_grad(program, (0, 1))(*args)
    assert all(bar.dtype == dtype for bar in gradient)
    np.testing.assert_allclose(value, program(*args), rtol=1e-12 if dtype is np.float64 else 1e-4)
    assert abs(sum(np.vdot(b, d) for b, d in zip(gradient, directions, strict=True)) - change) < tolerance * scale
    assert abs(jg.jvp(program, args, directions)[1] - change) < tolerance * scale
    if dtype is np.float64:
        products = jg.hvp(program, args, directions)
        there = jg.grad(program, (0, 1))(x + step * dx, v + step * dv)
        back = jg.grad(program, (0, 1))(x - step * dx, v - step * dv)
        for product, a, b in zip(products, there, back, strict=True):
            np.testing.assert_allclose(product, (a - b) / (2 * step), rtol=1e-5, atol=1e-5 * np.max(abs(a)))


def test_cotangents_meet_before_and_after_a_write() -> None:
    """What a value is used for before it is written to adds to what is left of it afterwards."""

    def f(x: Any, v: Any) -> Any:
        y = x * 1.0
        before = np.sum(y * y)
        y[1:3] = v
        return before + 10 * np.sum(y), y

    for dtype in (np.float64, np.float32):
        x, v = np.arange(4.0).astype(dtype), np.ones(2, dtype)
        (_, y), pullback = jg.vjp(f, x, v)
        bar_x, bar_v = pullback((dtype(1), np.array([1, 2, 3, 4], dtype)))
        np.testing.assert_array_equal(y, [0, 1, 1, 3])
        np.testing.assert_array_equal(bar_x, [0 + 11, 2, 4, 6 + 14])
        np.testing.assert_array_equal(bar_v, [12, 13])


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float64(2), np.array(2.0), np.full(2, 2.0), np.float32(2), [2.0, 2.0]], ids=repr
)
def test_what_may_be_written(value: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 3.0
        y[:2] = value
        return y

    out, pullback = jg.vjp(f, np.ones(3))
    np.testing.assert_array_equal(out, [2, 2, 3])
    np.testing.assert_array_equal(pullback(np.ones(3))[0], [0, 0, 3])


def test_a_tensor_written_over_itself() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[::-1] = y
        y[1:] = y[:-1]
        return y

    x = np.arange(4.0)
    out, pullback = jg.vjp(f, x)
    np.testing.assert_array_equal(out, [3, 3, 2, 1])
    np.testing.assert_array_equal(pullback(np.array([1.0, 10.0, 100.0, 1000.0]))[0], [0, 1000, 100, 11])


@pytest.mark.parametrize("use", ["kept", "viewed", "named"])
def test_memory_that_someone_else_has_is_left_alone(use: str) -> None:
    """What is alone in its memory is written to as it is, without a copy; all else must not be."""

    def f(x: Any) -> Any:
        y = x * 1.0
        y[0] = 2.0
        other = y * y if use == "kept" else y[1:] if use == "viewed" else np.copy(y)
        y[1] = x[2]
        y[2] = 5.0
        return np.sum(other * np.array([1.0, 10.0, 100.0])[: len(other)]) + np.sum(y * y)

    x = np.array([1.0, 3.0, 4.0])
    step = 1e-6
    numeric = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(jg.grad(f)(x), numeric, rtol=1e-7, atol=1e-7)


def test_many_writes_to_a_large_array() -> None:
    """Each costs what it writes, not the length of the array."""
    x = np.linspace(0.0, 1.0, 9000)

    def f(x: Any) -> Any:
        y = jnp.zeros(9000)
        for i in range(0, 9000, 3):
            y[i] = x[i] * 2.0
            y[i + 1 : i + 3] = x[i]
        return np.sum(y * y)

    expected = np.zeros(9000)
    expected[::3] = (8 + 4) * x[::3]
    np.testing.assert_allclose(jg.grad(f)(x), expected, rtol=1e-12)


def test_a_scalar_tensor_over_many() -> None:
    out, pullback = jg.vjp(lambda x, s: _written(x, s), np.ones((2, 3)), 5.0)
    np.testing.assert_array_equal(out, [[5, 5, 1], [5, 5, 1]])
    bar_x, bar_s = pullback(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(bar_x, [[0, 0, 2], [0, 0, 5]])
    assert bar_s == 0 + 1 + 3 + 4


def _written(x: Any, s: Any) -> Any:
    y = x * 1.0
    y[:, :2] = s
    return y


def test_written_tensors_of_the_imperative_face() -> None:
    x = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * 1
    z.retain_grad()
    z[1] = x[0] * y[2]
    (z * z).sum().backward()
    # z = (2a, a * 2c, 2c): its gradients are 2z
    np.testing.assert_array_equal(x.grad.numpy(), [8 + 2 * 6 * 6, 0, 24 + 2 * 6 * 2])
    np.testing.assert_array_equal(z.grad.numpy(), [4, 12, 12])
    np.testing.assert_array_equal(y.grad.numpy(), [4, 0, 12 + 12])


def test_names_of_one_array_stay_one_array() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        z = y
        z += 1.0
        return np.sum(y * y)

    np.testing.assert_array_equal(jg.grad(f)(np.array([1.0, 2.0])), [4.0, 6.0])


def test_residuals_are_not_written_over() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        z = y * y
        y[:] = 100.0
        w = jnp.ones(2)
        u = x * w
        w[:] = 7.0
        return np.sum(z + u + 0 * y)

    np.testing.assert_array_equal(jg.grad(f)(np.array([1.0, 2.0])), [3.0, 5.0])


def test_inputs_are_not_written_to() -> None:
    x = np.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        x[0] = x[1]
        x *= 2
        return np.sum(x * x)

    np.testing.assert_array_equal(jg.grad(f)(x), [0.0, 32.0, 24.0])
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])


def test_views_that_are_gone_cost_nothing() -> None:
    x = constant(np.zeros(4))
    for _ in range(100):
        x[1:]
    assert len(x._views) < 20


def test_a_view_of_a_broadcast_is_read_only() -> None:
    def f(x: Any) -> Any:
        y = np.broadcast_to(x, (3, 2))
        y[0] = 1.0
        return np.sum(y)

    with pytest.raises(ValueError, match="assignment destination is read-only"):
        jg.grad(f)(np.ones(2))


@pytest.mark.parametrize(
    ("index", "value", "error"),
    [
        (9, 1.0, IndexError),
        (slice(None), np.ones(7), ValueError),
        ([0, 1], np.ones((3, 3, 5)), ValueError),
        (0, np.ones((2, 3, 5)), ValueError),
        (np.zeros(2, dtype=bool), 1.0, IndexError),
    ],
    ids=repr,
)
def test_errors_of_assignment(index: Any, value: Any, error: Any) -> None:
    def write(x: Any) -> Any:
        x[index] = value
        return np.sum(x)

    with pytest.raises(error):
        write(X.copy())
    for f in (lambda: jg.grad(write)(X), lambda: write(constant(X.copy()))):
        with pytest.raises(error):
            f()


def test_dtype_of_assignment() -> None:
    def into(dtype: Any) -> Any:
        def f(x: Any) -> Any:
            y = jnp.zeros(2, dtype=dtype)
            y[0] = x * 2
            return np.sum(y)

        return f

    assert jg.grad(into(np.float32))(3.0) == 2.0
    with pytest.raises(DtypeError, match=re.escape("result type float64 can't be cast")):
        jg.grad(into(int))(3.0)

    def augmented(x: Any) -> Any:
        n = jnp.arange(3)
        n += x
        return np.sum(n)

    with pytest.raises(DtypeError):
        jg.grad(augmented)(3.0)


def test_augmented_assignment_keeps_the_shape() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y += np.ones((3, 2))
        return np.sum(y)

    with pytest.raises(ValueError, match="doesn't match the broadcast shape"):
        jg.grad(f)(np.ones(2))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "matmul", "mod", "floordiv"])
def test_augmented_operators(name: str) -> None:

    y = np.array([[1.0, 2.0], [3.0, 4.5]])
    x = np.array([[1.5, 2.0], [0.5, 3.0]])
    t = constant(x.copy())
    kept = t
    expected = x.copy()
    getattr(expected, f"__i{name}__")(y)
    result = getattr(t, f"__i{name}__")(y)
    assert result is kept
    np.testing.assert_array_equal(kept._value, expected)


WRITERS: list[tuple[str, Any]] = [
    ("copyto", lambda np, y, v: np.copyto(y, v[:5])),
    ("copyto where", lambda np, y, v: np.copyto(y, v[0], where=MASK)),
    ("put", lambda np, y, v: np.put(y, [3, -1, 7], v[:2])),
    ("put wrap", lambda np, y, v: np.put(y, [63, -1, 7], v, mode="wrap")),
    ("put clip", lambda np, y, v: np.put(y, [163, 1], v, mode="clip")),
    ("putmask", lambda np, y, v: np.putmask(y, MASK, v)),
    ("place", lambda np, y, v: np.place(y, MASK, v)),
    ("put_along_axis", lambda np, y, v: np.put_along_axis(y, np.array([[[1]]] * 4), v[0], 1)),
    ("put_along_axis flat", lambda np, y, v: np.put_along_axis(y, np.array([5, 7]), v[:2], None)),
    ("fill", lambda np, y, v: y.fill(v[2])),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_functions_that_write(name: str, write: Any, transposed: bool) -> None:
    def f(np_: Any, x: Any, v: Any) -> Any:
        y = x * 1.0
        if transposed:
            y = np_.copy(np_.transpose(y, (0, 2, 1)))
            y = np_.swapaxes(y, 1, 2)
        write(np_, y, v)
        return y * y

    v = -np.arange(1.0, 8.0)
    out, pullback = jg.vjp(lambda x, v: f(np, x, v), X, v)
    np.testing.assert_array_equal(out, f(np, X, v))
    bar = np.cos(X)
    bar_x, bar_v = pullback(bar)
    step = 1e-5
    for mine, base, run in ((bar_x, X, lambda x: f(np, x, v)), (bar_v, v, lambda v: f(np, X, v))):
        direction = np.sin(np.arange(float(base.size)) + 1).reshape(base.shape)
        change = (run(base + step * direction) - run(base - step * direction)) / (2 * step)
        np.testing.assert_allclose(np.sum(mine * direction), np.sum(bar * change), rtol=1e-7)


def test_fill_diagonal() -> None:
    def f(v: Any) -> Any:
        a = jnp.ones((4, 3))
        np.fill_diagonal(a, v)
        return a

    out, pullback = jg.vjp(f, np.array([2.0, 3.0, 4.0]))
    expected = np.ones((4, 3))
    np.fill_diagonal(expected, [2.0, 3.0, 4.0])
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(pullback(np.arange(12.0).reshape(4, 3))[0], [0, 4, 8])


def test_an_array_does_not_swallow_a_tensor() -> None:
    """Each of these would lose the gradient in silence."""
    out = np.zeros(3)

    def element(x: Any) -> None:
        out[0] = x[0]

    def augmented(x: Any) -> None:
        out[0] += x[0]

    def part(x: Any) -> None:
        out[:2] = x

    def masked(x: Any) -> None:
        out[out == 0] = x[0]

    def copied(x: Any) -> None:
        np.copyto(out, x[0])

    def put(x: Any) -> None:
        np.put(out, [0, 1], x)

    for write in (element, augmented, part, masked, copied, put):
        for run in (
            lambda write=write: jg.vjp(write, np.ones(2)),
            lambda write=write: jg.jit(lambda x: jg.vjp(write, x)[0])(np.ones(2)),
            lambda write=write: write(jg.ones(2, requires_grad=True)),
        ):
            expected = TypeError if write in (copied, put) else NumpyConversionError
            with pytest.raises(expected, match=r"jitgrad\.numpy\.zeros") as caught:
                run()
            assert caught.value.__cause__ is None  # not an error of NumPy's above it
            if write in (element, augmented):
                last = f'  File "{__file__}", line {write.__code__.co_firstlineno + 1}'
                assert str(caught.value).endswith(last)
    np.testing.assert_array_equal(out, np.zeros(3))
