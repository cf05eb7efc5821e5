"""Indexing: as NumPy for every kind of index; gradients that count repeats; writes that reach all views."""

from __future__ import annotations

import re
import warnings
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as jg
from jitgrad.core.op import NAMESPACE
from jitgrad.core.tensor import Tensor, constant
from jitgrad.errors import DtypeError
from jitgrad.ops.indexing import advanced, index_op, is_basic, simplified

SHAPE = (4, 3, 5)
X = np.arange(60.0).reshape(SHAPE) + 0.5


class Plain:
    """Attributes are the functions of jitgrad.numpy."""

    def __getattr__(self, name: str) -> Any:
        return NAMESPACE[name]


jnp = Plain()

MASK = X > 20
INDICES = [
    0,
    -1,
    (1, 2),
    (1, -2, 3),
    slice(None),
    slice(1, None, 2),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(2, 2),
    ...,
    None,
    (..., 0),
    (None, 1, None, ..., None),
    (slice(1, 3), ..., slice(None, None, -2)),
    (),
    np.int64(2),
    np.uint8(1),
    np.array(2),
    (np.array(1), slice(None)),
    [0, 2],
    [],
    [-1, -1, 0],
    [[0, 1], [2, 2]],
    np.array([0, 3, 3]),
    np.array([], dtype=int),
    np.array([[1], [2]], dtype=np.int8),
    ([0, 1], [2, 2]),
    ([0, 1], [2, 2], [4, 4]),
    ([[0], [1]], [1, 2]),
    (0, [1, 2]),
    ([1, 2], 0),
    (0, slice(None), [1, 2]),
    ([1, 2], slice(None), 0),
    ([1, 2], slice(None), [0, 4]),
    ([1, 2], None, [0, 2]),
    (slice(None), [2, 0]),
    (slice(None, None, -1), [2, 0], slice(1, 4)),
    (..., [0, 0]),
    (None, [3, 1]),
    MASK,
    MASK[:, :, 0],
    MASK[:, 0, 0],
    np.zeros(SHAPE, dtype=bool),
    (MASK[:, 0, 0], 1),
    (MASK[:, 0, 0], slice(None), [1]),
    (slice(None), MASK[0]),
    (MASK[:, 0, 0], slice(1, 3), None),
    ([True, False, True, False],),
    [True, False, True, False],
    True,
    False,
    np.True_,
    np.array(True),
    (True, 0),
    (slice(None), True, [0, 2]),
    (False, slice(1, 2)),
    range(3),
    np.ix_([0, 2], [1, 1], [4, 0]),
    np.ix_([True, False, False, True], [2, 0]),
]


def traced(f: Any, *args: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """The value of a function on tensors, and its vector-Jacobian product with numbers that differ."""
    out, pullback = jg.vjp(f, *args)
    bar = np.asarray(np.arange(1.0, np.size(out) + 1).reshape(np.shape(out)), dtype=out.dtype)
    return out, pullback(bar)


def check_linear(f: Any, x: np.ndarray[Any, Any]) -> None:
    """Value as on arrays, VJP as by unit vectors, JVP and second derivatives."""
    out, (bar,) = traced(f, x)
    expected = np.asarray(f(x))
    np.testing.assert_array_equal(out, expected)
    assert out.shape == expected.shape
    assert out.dtype == expected.dtype
    assert bar.shape == x.shape
    assert bar.dtype == x.dtype
    positions = np.asarray(f(np.arange(float(x.size)).reshape(x.shape)).ravel(), dtype=int)
    counted = np.bincount(positions, np.arange(1.0, expected.size + 1), minlength=x.size).reshape(x.shape)
    np.testing.assert_array_equal(bar, counted)
    tangent = np.cos(np.arange(float(x.size))).reshape(x.shape).astype(x.dtype)
    _, pushed = jg.jvp(f, (x,), (tangent,))
    np.testing.assert_array_equal(pushed, f(tangent))
    # of sum(f(x)^3): the gradient's own derivative goes through the rule of the rule
    weights = np.bincount(positions, minlength=x.size).reshape(x.shape)
    (hvp,) = jg.hvp(lambda y: np.sum(f(y) * f(y) * f(y)), (x,), (tangent,))
    np.testing.assert_allclose(hvp, 6 * weights * x * tangent, rtol=1e-5 if x.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_every_kind_of_index(index: Any) -> None:
    check_linear(lambda x: x[index], X)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_index_of_a_tensor_that_is_not_recorded(index: Any) -> None:
    out = constant(X)[index]
    assert type(out) is Tensor
    np.testing.assert_array_equal(out._value, X[index])


@pytest.mark.parametrize("index", [i for i in INDICES if not is_basic(simplified(i))], ids=repr)
def test_op_equals_indexing(index: Any) -> None:
    layout, packed, unique = advanced(simplified(index))
    np.testing.assert_array_equal(index_op(X, packed, layout=layout, unique=unique), X[index])


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_basic_indices(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    check_linear(lambda x: x[index], np.arange(float(np.prod(shape))).reshape(shape))


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_integer_array_indices(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    index = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=4)))
    check_linear(lambda x: x[index], np.arange(float(np.prod(shape))).reshape(shape))


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_mixed_indices(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=3))
    arrays = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=len(shape), max_dims=2, max_side=3))
    index: list[Any] = []
    for length, array_shape in zip(shape, arrays.input_shapes, strict=True):
        kind = data.draw(st.sampled_from(("array", "int", "slice", "mask")))
        if kind == "array":
            index.append(
                data.draw(hnp.arrays(np.intp, array_shape, elements=st.integers(-length, length - 1)))
            )
        elif kind == "mask":
            index.append(data.draw(st.integers(0, length - 1)) == np.arange(length))
        elif kind == "int":
            index.append(data.draw(st.integers(-length, length - 1)))
        else:
            index.append(data.draw(st.slices(length)))
        if data.draw(st.booleans()):
            index.append(None)
    check_linear(lambda x: x[tuple(index)], np.arange(float(np.prod(shape))).reshape(shape))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.complex64, np.longdouble])
@pytest.mark.parametrize(
    "index", [1, slice(1, 3), ([2, 0, 2],), ([2, -2, 2], slice(None), [1, 0, 1])], ids=repr
)
def test_dtypes(dtype: Any, index: Any) -> None:
    x = X.astype(dtype) * (1 + 2j) if np.dtype(dtype).kind == "c" else X.astype(dtype)
    x = x.astype(dtype)
    out, pullback = jg.vjp(lambda x: x[index], x)
    assert out.dtype == dtype
    bar = x[index] * 3
    (contribution,) = pullback(bar)
    expected = np.zeros_like(x)
    np.add.at(expected, index, bar)
    assert contribution.dtype == dtype
    np.testing.assert_allclose(contribution, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "x",
    [
        X.transpose(2, 0, 1),
        X[:, ::-1],
        np.asfortranarray(X),
        np.broadcast_to(X[:1], SHAPE),
        np.arange(9000.0),
    ],
    ids=["transposed", "reversed", "fortran", "broadcast", "large"],
)
@pytest.mark.parametrize("index", [0, slice(None, None, -2), ([1, 1, 0],), np.array([[2], [-1]])], ids=repr)
def test_layouts_in_memory(x: np.ndarray[Any, Any], index: Any) -> None:
    before = x.copy()
    _, (bar,) = traced(lambda x: x[index], x)
    expected = np.zeros(x.shape)
    np.add.at(expected, index, np.arange(1.0, x[index].size + 1).reshape(x[index].shape))
    np.testing.assert_array_equal(bar, expected)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(3000,), (200, 16)])
def test_scatter_of_many_repeats(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(-shape[0], shape[0], 5000)
    bar = rng.normal(size=(5000, *shape[1:]))
    _, pullback = jg.vjp(lambda x: x[index], rng.normal(size=shape))
    expected = np.zeros(shape)
    np.add.at(expected, index, bar)
    np.testing.assert_allclose(pullback(bar)[0], expected, rtol=1e-11, atol=1e-12)


def test_scatter_of_rising_rows() -> None:
    index = np.array([1, 4, 5])
    _, pullback = jg.vjp(lambda x: x[index], np.zeros((8, 10)))
    bar = np.arange(30.0).reshape(3, 10)
    expected = np.zeros((8, 10))
    expected[index] = bar
    np.testing.assert_array_equal(pullback(bar)[0], expected)


def test_index_may_be_written_to_after_use() -> None:
    index = np.array([0, 1])

    def f(x: Any) -> Any:
        y = x[index]
        index[:] = 2
        return np.sum(y)

    np.testing.assert_array_equal(jg.grad(f)(np.arange(3.0)), [1, 1, 0])


def test_tensors_as_indices() -> None:
    x = np.arange(12.0).reshape(3, 4)
    one = constant(np.array(1))
    rows = constant(np.array([2, 0]))
    mask = constant(x > 5)
    for index, same in [
        (one, 1),
        (rows, [2, 0]),
        (mask, x > 5),
        ((one, rows), (1, [2, 0])),
        ((slice(None), rows), (slice(None), [2, 0])),
        ([one, one], [1, 1]),
    ]:
        _, (bar,) = traced(lambda x, index=index: x[index], x)
        _, (expected,) = traced(lambda x, same=same: x[same], x)
        np.testing.assert_array_equal(bar, expected)
    # a mask computed from the tensor itself
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(x[x > 5]))(x), x > 5)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (7, IndexError),
        ((0, 0, 0, 0), IndexError),
        (1.5, IndexError),
        ("a", IndexError),
        ([0.5], IndexError),
        ([0, 9], IndexError),
        ((..., ...), IndexError),
        (np.zeros(3, dtype=bool), IndexError),
        (np.zeros((4, 4), dtype=bool), IndexError),
        ([[0, 1], [1, 2, 3]], (ValueError, IndexError)),
        (([0, 1], [0, 1, 2]), IndexError),
        (slice("a", None), TypeError),
    ],
    ids=repr,
)
def test_errors_are_numpys(index: Any, error: Any) -> None:
    for x in (X, constant(X)):
        with pytest.raises(error):
            x[index]
    with pytest.raises(error):
        jg.grad(lambda x: np.sum(x[index]))(X)


def test_sequence_protocol() -> None:
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(
        jg.grad(lambda x: sum(np.sum(row) * k for k, row in enumerate(x)))(x).T[0], [0, 1, 2]
    )
    a, b = constant(np.array([1.0, 2.0]))
    assert (a._value, b._value) == (1.0, 2.0)
    t = constant(x)
    assert len(t) == 3
    assert t.size == 6
    assert 5.0 in t
    assert 7.0 not in t
    scalar = constant(np.array(1.0))
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(scalar)
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(scalar)
    with pytest.raises(IndexError):
        scalar[0]


# -- functions -----------------------------------------------------------------------------------------------

FUNCTIONS: list[tuple[str, Any]] = [
    ("take", lambda np, x: np.take(x, [3, 0, 3])),
    ("take axis", lambda np, x: np.take(x, [[3, 0], [1, -1]], axis=0)),
    ("take last", lambda np, x: np.take(x, [1], axis=-1)),
    ("take scalar", lambda np, x: np.take(x, 2, axis=1)),
    ("take flat scalar", lambda np, x: np.take(x, -7)),
    ("take wrap", lambda np, x: np.take(x, [5, -9, 0], axis=0, mode="wrap")),
    ("take clip", lambda np, x: np.take(x, [5, -9, 0], axis=0, mode="clip")),
    ("take empty", lambda np, x: np.take(x, np.arange(0), axis=1)),
    ("take method", lambda np, x: x.take([2, 1, 1], 1)),
    ("compress", lambda np, x: np.compress([True, False, True], x, axis=1)),
    ("compress flat", lambda np, x: np.compress([0, 1, 1], x)),
    ("compress method", lambda np, x: x.compress([1, 0, 0, 1], axis=0)),
    ("extract", lambda np, x: np.extract(np.arange(60).reshape(SHAPE) % 3 == 0, x)),
    ("take_along_axis", lambda np, x: np.take_along_axis(x, (np.arange(24) % 3).reshape(4, 6, 1), 1)),
    ("take_along_axis last", lambda np, x: np.take_along_axis(x, (np.arange(24) % 5).reshape(4, 3, 2))),
    ("take_along_axis flat", lambda np, x: np.take_along_axis(x, np.arange(10) % 4, None)),
]


@pytest.mark.parametrize(("name", "f"), FUNCTIONS)
def test_functions(name: str, f: Any) -> None:
    check_linear(lambda x: f(np, x), X)
    np.testing.assert_array_equal(jg.vjp(lambda x: f(jnp, x), X)[0], f(np, X))
    np.testing.assert_array_equal(np.asarray(f(jnp, X)), f(np, X))


def test_sorting_by_argsort() -> None:
    x = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    order = x.argsort(1)
    grad = jg.grad(lambda x: np.sum(np.take_along_axis(x, order, 1) * np.arange(3.0)))(x)
    np.testing.assert_array_equal(grad, x.argsort(1).argsort(1))


def test_choose() -> None:
    a = np.array([[0, 1, 2], [2, 1, 0]])
    x, y, z = np.arange(6.0).reshape(2, 3), np.array([10.0, 20.0, 30.0]), 7.0
    out, pullback = jg.vjp(lambda x, y: np.choose(a, [x, y, z]), x, y)
    np.testing.assert_array_equal(out, np.choose(a, [x, y, np.array(z)]))
    bar_x, bar_y = pullback(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    np.testing.assert_array_equal(bar_x, [[1, 0, 0], [0, 0, 6]])
    np.testing.assert_array_equal(bar_y, [0, 7, 0])
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        jg.vjp(lambda x: np.choose(np.array([5]), [x, x]), y)


def test_where_things_are() -> None:
    x = np.array([[0.0, 2.0], [3.0, 0.0]])
    t = constant(x)
    for mine, theirs in [(np.nonzero(t), np.nonzero(x)), (t.nonzero(), x.nonzero())]:
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.argwhere(t), np.argwhere(x))
    np.testing.assert_array_equal(np.flatnonzero(t), np.flatnonzero(x))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.take(x, [99]), IndexError),
        (lambda x: np.take(x, [0], axis=5), ValueError),
        (lambda x: np.take(x, [0.5]), TypeError),
        (lambda x: np.take(x, [0], mode="around"), ValueError),
        (lambda x: np.take(x, [0], out=np.zeros(1)), TypeError),
        (lambda x: np.compress([True] * 9, x, axis=0), IndexError),
        (lambda x: np.compress([[True]], x), ValueError),
        (lambda x: np.take_along_axis(x, np.array([0]), 0), ValueError),
        (lambda x: np.take_along_axis(x, np.array([[[0.5]]]), 0), IndexError),
    ],
)
def test_errors_of_functions(call: Any, error: Any) -> None:
    with pytest.raises(error):
        jg.grad(lambda x: np.sum(call(x)))(X)


# -- writing -------------------------------------------------------------------------------------------------


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
        out, (bar,) = traced(
            lambda v: write(X, v) if type(v) is not Tensor else write(constant(X), v), np.asarray(v)
        )
        np.testing.assert_array_equal(out, write(X, v))
        flat_bar = np.arange(1.0, X.size + 1).reshape(X.shape)
        np.testing.assert_array_equal(bar, np.full(np.shape(v), np.sum(np.where(out == v, flat_bar, 0))))


def test_the_last_write_wins() -> None:
    def f(v: Any) -> Any:
        y = jnp.zeros(3)
        y[[1, 1, 0]] = v
        return np.sum(y * np.array([1.0, 2.0, 3.0]))

    np.testing.assert_array_equal(jg.grad(f)(np.array([4.0, 5.0, 6.0])), [0, 2, 1])
    np.testing.assert_array_equal(
        jg.hessian(lambda v: f(v * v))(np.array([4.0, 5.0, 6.0])), np.diag([0.0, 4.0, 2.0])
    )


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


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "mod", "floordiv"])
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
    def write(x: Any) -> Any:
        out = np.zeros(2)
        out[0] = x[0]
        return np.sum(out)

    def copy(x: Any) -> Any:
        out = np.zeros(2)
        np.copyto(out, x)
        return np.sum(out)

    for f in (write, copy):
        with pytest.raises(
            (TypeError, RuntimeError, ValueError), match=r"jitgrad\.numpy\.zeros|stack|detach"
        ):
            jg.grad(f)(np.ones(2))


def test_creation_inside_and_outside_of_a_trace() -> None:
    assert type(jnp.zeros(3)) is np.ndarray
    made: list[Any] = []

    def f(x: Any) -> Any:
        made.extend([make(3) for make in (jnp.zeros, jnp.ones, jnp.empty, jnp.eye, jnp.identity, jnp.arange)])
        made.append(jnp.full(3, 2.0))
        made.extend([jnp.zeros_like(np.ones(2)), np.ones_like(x), np.empty_like(x), np.full_like(x, 3.0)])
        made.append(jnp.linspace(0, 1, 5))
        made.append(jnp.array([1.0, 2.0]))
        return np.sum(x)

    jg.grad(f)(np.ones(2))
    assert all(type(a) is Tensor for a in made)
    np.testing.assert_array_equal(made[3]._value, np.eye(3))
    assert made[5].dtype == np.arange(3).dtype


def test_creation_from_tensors() -> None:
    out, pullback = jg.vjp(lambda x: jnp.array([[x[0], x[1] * 2], [3.0, x[0]]]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(out, [[1, 4], [3, 1]])
    np.testing.assert_array_equal(pullback(np.array([[1.0, 2.0], [3.0, 4.0]]))[0], [5, 4])
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(jnp.full((2, 3), x)))(2.0), 6.0)
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(jnp.full_like(np.ones(4), x)))(2.0), 4.0)
    for endpoint in (True, False):
        out, pullback = jg.vjp(lambda a, b, e=endpoint: np.linspace(a, b, 5, endpoint=e), 1.0, 4.0)
        np.testing.assert_allclose(out, np.linspace(1.0, 4.0, 5, endpoint=endpoint), rtol=1e-15)
        bars = pullback(np.arange(5.0))
        share = np.linspace(0, 1, 5, endpoint=endpoint)
        np.testing.assert_allclose(bars, [np.arange(5) @ (1 - share), np.arange(5) @ share], rtol=1e-15)
    out, step = jg.vjp(lambda a: np.linspace(a, np.ones(2), 3, retstep=True, axis=1), np.zeros(2))[0]
    np.testing.assert_array_equal(out, np.linspace(np.zeros(2), np.ones(2), 3, axis=1))
    np.testing.assert_array_equal(step, [0.5, 0.5])


def test_float32_stays_float32() -> None:
    x = np.ones(3, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, pullback = jg.vjp(lambda x: x[[0, 0]] * 2, x)
    assert out.dtype == np.float32
    assert pullback(np.ones(2, dtype=np.float32))[0].dtype == np.float32
