"""Indexing: as NumPy for every kind of index, with gradients that count repeats."""

from __future__ import annotations

import warnings
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as jg
from jitgrad.core import trace
from jitgrad.core.tensor import Tensor, constant
from jitgrad.ops.indexing import advanced, index_op, is_basic, simplified
from tests.ops.indices import INDICES, SHAPE, X
from tests.ops.moves import check_moves, jnp, traced


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_every_kind_of_index(index: Any) -> None:
    check_moves(lambda x: x[index], X)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_index_of_a_tensor_that_is_not_recorded(index: Any) -> None:
    out = constant(X)[index]
    assert type(out) is Tensor
    np.testing.assert_array_equal(out._value, X[index])


@pytest.mark.parametrize("index", [i for i in INDICES if not is_basic(simplified(i))], ids=repr)
def test_op_equals_indexing(index: Any) -> None:
    layout, packed, unique = advanced(simplified(index))
    np.testing.assert_array_equal(index_op(X, packed, layout=layout, unique=unique), X[index])


SLICED = [i for i in INDICES if any(type(item) is slice for item in (i if type(i) is tuple else (i,)))]


@pytest.mark.parametrize("index", SLICED, ids=repr)
def test_nothing_hashes_the_slices_of_an_index(index: Any) -> None:
    """Before Python 3.12 that is an error."""

    def f(x: Any) -> Any:
        y = x * 1.0
        y[index] = np.sin(x[index])
        return np.sum(y[index] * x[index] ** 2)

    def truth(x: Any) -> Any:
        s = x[index]
        return np.sum(np.sin(s) * s**2)

    slope, curvature = jg.grad(truth)(X), jg.grad(lambda x: np.sum(jg.grad(truth)(x) ** 2))(X)
    for compiled in (jg.grad(f), jg.jit(jg.grad(f)), jg.grad(jg.jit(f)), jg.jit(jg.grad(jg.jit(f)))):
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), slope, rtol=1e-12)
    twice = jg.jit(jg.grad(lambda x: np.sum(jg.grad(f)(x) ** 2)))
    np.testing.assert_allclose(twice(X), curvature, rtol=1e-12, atol=1e-12)

    x = jg.tensor(X, requires_grad=True)
    y = f(x)
    trace.imperative_tape().compact()
    (g,) = jg.autograd.grad(y, x, create_graph=True)
    trace.imperative_tape().compact()
    np.testing.assert_allclose(g.detach().numpy(), slope, rtol=1e-12)
    (g * g).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), curvature, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_basic_indices(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    check_moves(lambda x: x[index], np.arange(float(np.prod(shape))).reshape(shape))


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_integer_array_indices(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    index = data.draw(hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=4)))
    check_moves(lambda x: x[index], np.arange(float(np.prod(shape))).reshape(shape))


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_mixed_indices(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=3))
    arrays = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=len(shape), max_dims=2, max_side=3))
    index: list[Any] = []
    for length, array_shape in zip(shape, arrays.input_shapes, strict=True):
        kind = data.draw(st.sampled_from(("array", "int", "slice", "mask")))
        if kind == "array":
            index.append(data.draw(hnp.arrays(np.intp, array_shape, elements=st.integers(-length, length - 1))))
        elif kind == "mask":
            index.append(data.draw(st.integers(0, length - 1)) == np.arange(length))
        elif kind == "int":
            index.append(data.draw(st.integers(-length, length - 1)))
        else:
            index.append(data.draw(st.slices(length)))
        if data.draw(st.booleans()):
            index.append(None)
    check_moves(lambda x: x[tuple(index)], np.arange(float(np.prod(shape))).reshape(shape))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.complex64, np.longdouble])
@pytest.mark.parametrize("index", [1, slice(1, 3), ([2, 0, 2],), ([2, -2, 2], slice(None), [1, 0, 1])], ids=repr)
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


def test_parts_of_a_large_array_meet() -> None:
    """Cotangents of views and gathers add up in one array, beside those that come whole."""

    def f(x: Any) -> Any:
        rows = x[[3, 3, -1]]
        return np.sum(rows * rows) + np.sum(x * x) + np.sum(x[10:12] * x[11:13]) + x[0, 1] * x[0, 1] * x[-1, 0]

    x = np.cos(np.arange(9000.0)).reshape(900, 10)
    expected = 2 * x
    expected[3] += 4 * x[3]
    expected[-1] += 2 * x[-1]
    expected[10:12] += x[11:13]
    expected[11:13] += x[10:12]
    expected[0, 1] += 2 * x[0, 1] * x[-1, 0]
    expected[-1, 0] += x[0, 1] ** 2
    gradient = jg.grad(f)(x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-14)
    assert gradient.flags.writeable
    for part in (lambda x: np.sum(x[3]), lambda x: np.sum(x[[3, 3]])):
        first, second = jg.grad(part)(x), jg.grad(part)(x)
        assert not np.may_share_memory(first, second)
        assert np.sum(first) == part(np.ones((900, 10)))


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


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (0, "Select"),
        ((slice(1, 2), 0), "Select"),
        ((0, slice(1, None)), "Slice"),
        ((slice(1, 2), slice(None)), "Slice"),
        (None, "Unsqueeze"),
        ((slice(None), None), "Unsqueeze"),
        (..., "Alias"),
        ([0, 1], "Index"),
        (X > 3, "Index"),
    ],
    ids=repr,
)
def test_nodes_have_pytorchs_names(index: Any, name: str) -> None:
    x = jg.tensor(X, requires_grad=True)
    assert (x * 2)[index].grad_fn.name() == name + "Backward0"


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
    np.testing.assert_array_equal(jg.grad(lambda x: sum(np.sum(row) * k for k, row in enumerate(x)))(x).T[0], [0, 1, 2])
    a, b = constant(np.array([1.0, 2.0]))
    assert (a._value, b._value) == (1.0, 2.0)
    t = constant(x)
    assert len(t) == 3
    assert t.size == 6
    assert 5.0 in t
    assert 7.0 not in t
    assert [row.tolist() for row in reversed(t)] == x[::-1].tolist()
    first, *rest = t
    assert first.tolist() == x[0].tolist()
    assert [row.tolist() for row in rest] == x[1:].tolist()
    np.testing.assert_array_equal(np.array([t, t]), [x, x])
    np.testing.assert_array_equal(X[constant(np.array([2, 0]))], X[[2, 0]])
    scalar = constant(np.array(1.0))
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(scalar)
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(scalar)
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        reversed(scalar)
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
    check_moves(lambda x: f(np, x), X)
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


def test_float32_stays_float32() -> None:
    x = np.ones(3, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, pullback = jg.vjp(lambda x: x[[0, 0]] * 2, x)
    assert out.dtype == np.float32
    assert pullback(np.ones(2, dtype=np.float32))[0].dtype == np.float32
