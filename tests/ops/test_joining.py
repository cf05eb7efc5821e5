"""Joining, splitting, repeating and padding: as NumPy, with gradients that return to where elements were."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as jg
from jitgrad.core.tensor import Tensor, constant
from tests.ops.moves import check_moves, jnp

X = np.arange(24.0).reshape(2, 3, 4) + 0.5

MOVES: list[tuple[str, Any]] = [
    ("concatenate", lambda np, x: np.concatenate([x, x[:, :1], x], axis=1)),
    ("concatenate last", lambda np, x: np.concatenate((x, x), axis=-1)),
    ("concatenate flat", lambda np, x: np.concatenate([x, x[0], x[0, 0]], axis=None)),
    ("concatenate one", lambda np, x: np.concatenate([x])),
    ("concatenate a tensor", lambda np, x: np.concatenate(x, axis=1)),
    ("concat", lambda np, x: np.concat([x, x])),
    ("stack", lambda np, x: np.stack([x, x])),
    ("stack last", lambda np, x: np.stack([x, x, x], axis=-1)),
    ("stack middle", lambda np, x: np.stack([x, x], axis=1)),
    ("stack scalars", lambda np, x: np.stack([x[0, 0, 0], x[1, 2, 3]])),
    ("stack vectors", lambda np, x: np.stack([x[0, 0], x[1, 2]])),
    ("stack a tensor", lambda np, x: np.stack(x, axis=2)),
    ("hstack", lambda np, x: np.hstack([x, x])),
    ("hstack vectors", lambda np, x: np.hstack([x[0, 0], x[1, 1, 2]])),
    ("vstack", lambda np, x: np.vstack([x[0], x[1, 0]])),
    ("dstack", lambda np, x: np.dstack([x[0], x[1]])),
    ("dstack vectors", lambda np, x: np.dstack((x[0, 0], x[1, 0]))),
    ("column_stack", lambda np, x: np.column_stack([x[0, :, 0], x[1], x[1, :, 2]])),
    ("block", lambda np, x: np.block([[x[0], x[1, :, :1]], [x[1, :1], x[0, :1, :1]]])),
    ("block flat", lambda np, x: np.block([x[0, 0], x[1, 0, 0]])),
    ("block of one", lambda np, x: np.block(x)),
    ("block of more axes", lambda np, x: np.block([[x], [x]])),
    ("append", lambda np, x: np.append(x, x[0])),
    ("append axis", lambda np, x: np.append(x, x[:, :, :1], axis=2)),
    ("split", lambda np, x: np.split(x, 2, axis=2)[1]),
    ("split at", lambda np, x: np.split(x, [1, 3], axis=-1)[1]),
    ("split beyond", lambda np, x: np.split(x, [1, 9], axis=1)[1]),
    ("array_split", lambda np, x: np.array_split(x, 3, axis=2)[0]),
    ("array_split into many", lambda np, x: np.array_split(x, 5, axis=1)[1]),
    ("hsplit", lambda np, x: np.hsplit(x, 3)[1]),
    ("hsplit vector", lambda np, x: np.hsplit(x[0, 0], 2)[1]),
    ("vsplit", lambda np, x: np.vsplit(x, 2)[0]),
    ("dsplit", lambda np, x: np.dsplit(x, [2])[1]),
    ("tile", lambda np, x: np.tile(x, 2)),
    ("tile axes", lambda np, x: np.tile(x, (2, 1, 3))),
    ("tile more axes", lambda np, x: np.tile(x[0, 0], (2, 3))),
    ("tile once", lambda np, x: np.tile(x, (1, 1))),
    ("tile none", lambda np, x: np.tile(x, (0, 2, 1))),
    ("repeat", lambda np, x: np.repeat(x, 2)),
    ("repeat axis", lambda np, x: np.repeat(x, 3, axis=1)),
    ("repeat method", lambda np, x: x.repeat(2, -1)),
    ("repeat counts", lambda np, x: np.repeat(x, [2, 0, 1], axis=1)),
    ("repeat one count", lambda np, x: np.repeat(x, [2], axis=0)),
    ("repeat none", lambda np, x: np.repeat(x, 0, axis=0)),
    ("resize", lambda np, x: np.resize(x, (5, 7))),
    ("resize smaller", lambda np, x: np.resize(x, 3)),
    ("meshgrid", lambda np, x: np.meshgrid(x[0, 0], x[1, :, 0])[0]),
    ("meshgrid second", lambda np, x: np.meshgrid(x[0, 0], x[1, :, 0])[1]),
    ("meshgrid ij", lambda np, x: np.meshgrid(x[0, 0], x[1, :, 0], x[:, 0, 0], indexing="ij")[2]),
    ("meshgrid sparse", lambda np, x: np.meshgrid(x[0, 0], x[1, :, 0], sparse=True)[0]),
    ("meshgrid one", lambda np, x: np.meshgrid(x[0, 0])[0]),
    ("delete", lambda np, x: np.delete(x, 5)),
    ("delete axis", lambda np, x: np.delete(x, -1, axis=1)),
    ("delete several", lambda np, x: np.delete(x, [0, 2], axis=2)),
    ("delete slice", lambda np, x: np.delete(x, slice(0, 3, 2), axis=1)),
    ("delete mask", lambda np, x: np.delete(x, [True, False, True], axis=1)),
    ("insert", lambda np, x: np.insert(x, 3, x[0, 0, 0])),
    ("insert axis", lambda np, x: np.insert(x, 1, x[:, 0], axis=1)),
    ("insert end", lambda np, x: np.insert(x, 3, x[0, 1], axis=1)),
    ("insert several", lambda np, x: np.insert(x, [0, 2, 2], x[:, :, :3], axis=2)),
    ("insert same", lambda np, x: np.insert(x, [1, 3], x[0, 0, 1], axis=2)),
    ("insert one place", lambda np, x: np.insert(x, [1], x[:, :2], axis=1)),
    ("insert slice", lambda np, x: np.insert(x, slice(0, 2), x[:, :2], axis=1)),
    ("pad edge", lambda np, x: np.pad(x, 2, mode="edge")),
    ("pad reflect", lambda np, x: np.pad(x, ((1, 0), (2, 1), (0, 3)), mode="reflect")),
    ("pad reflect far", lambda np, x: np.pad(x, ((0, 0), (7, 5), (9, 0)), mode="reflect")),
    ("pad symmetric", lambda np, x: np.pad(x, (1, 4), mode="symmetric")),
    ("pad wrap", lambda np, x: np.pad(x, ((2, 5), (0, 1), (3, 3)), mode="wrap")),
    ("pad nothing", lambda np, x: np.pad(x, 0, mode="edge")),
]


@pytest.mark.parametrize(("name", "f"), MOVES)
def test_as_numpy(name: str, f: Any) -> None:
    for x in (X, X.astype(np.float32), X.transpose(0, 2, 1).copy().transpose(0, 2, 1)):
        check_moves(lambda x: f(np, x), x)
    out = f(jnp, X)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, f(np, X))


@pytest.mark.parametrize(("name", "f"), MOVES)
def test_of_a_tensor_that_is_not_recorded(name: str, f: Any) -> None:
    out = f(np, constant(X))
    assert type(out) is Tensor
    np.testing.assert_array_equal(out._value, f(np, X))


LINEAR: list[tuple[str, Any]] = [
    ("diff", lambda np, x: np.diff(x)),
    ("diff twice", lambda np, x: np.diff(x, 2, axis=1)),
    ("diff all", lambda np, x: np.diff(x, 5)),
    ("diff none", lambda np, x: np.diff(x, 0)),
    ("diff prepend", lambda np, x: np.diff(x, prepend=0.0)),
    ("diff append", lambda np, x: np.diff(x, axis=0, append=x[:1], prepend=x)),
    ("pad", lambda np, x: np.pad(x, 1)),
    ("pad widths", lambda np, x: np.pad(x, ((1, 2), (0, 0), (3, 0)))),
    ("pad pair", lambda np, x: np.pad(x, (1, 2))),
    ("pad one pair", lambda np, x: np.pad(x, ((1, 2),))),
    ("pad dict", lambda np, x: np.pad(x, {0: 1, -1: (2, 0)})),
    ("pad value", lambda np, x: np.pad(x, 1, constant_values=3.0)),
    ("pad values", lambda np, x: np.pad(x, 2, constant_values=((1, 2), (3, 4), (5, 6)))),
    ("pad infinite", lambda np, x: np.pad(x, 1, constant_values=float("inf"))[1:-1, 1:-1, 1:-1]),
    (
        "pad ramp",
        lambda np, x: np.pad(x, ((1, 2), (3, 0), (0, 4)), mode="linear_ramp", end_values=(5.0, -1.0)),
    ),
    ("pad ramp to 0", lambda np, x: np.pad(x, 2, mode="linear_ramp")),
    ("pad mean", lambda np, x: np.pad(x, ((1, 2), (3, 0), (0, 4)), mode="mean")),
    ("pad mean of some", lambda np, x: np.pad(x, 1, mode="mean", stat_length=((1, 2), (2, 1), (3, 9)))),
    ("pad maximum", lambda np, x: np.pad(x, (2, 1), mode="maximum")),
    ("pad minimum", lambda np, x: np.pad(x, (2, 1), mode="minimum", stat_length=2)),
]


@pytest.mark.parametrize(("name", "f"), LINEAR)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_affine_functions(name: str, f: Any, dtype: Any) -> None:
    """Off ties, these are affine: the Jacobian is had from values alone."""
    x = np.random.default_rng(1).permutation(X.ravel()).reshape(X.shape).astype(dtype)
    out, pullback = jg.vjp(lambda x: f(np, x), x)
    expected = f(np, x)
    assert out.dtype == expected.dtype
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(out, expected, **tolerance)
    np.testing.assert_array_equal(f(jnp, x), expected)
    bar = np.cos(np.arange(out.size)).reshape(out.shape).astype(out.dtype)
    step = 2.0**-6
    with np.errstate(invalid="ignore"):
        columns = [(f(np, x + step * e.reshape(x.shape)) - f(np, x)) / step for e in np.eye(x.size)]
    np.testing.assert_allclose(
        pullback(bar)[0].ravel(),
        [np.sum(bar * column) for column in columns],
        rtol=1e-3 if dtype is np.float32 else 1e-9,
        atol=1e-3 if dtype is np.float32 else 1e-9,
    )
    direction = np.sin(np.arange(x.size)).reshape(x.shape).astype(dtype)
    _, pushed = jg.jvp(lambda x: f(np, x), (x,), (direction,))
    np.testing.assert_allclose(
        np.vdot(pushed, bar),
        np.vdot(direction, pullback(bar)[0]),
        rtol=2e-4 if dtype is np.float32 else 1e-12,
    )
    if dtype is np.float64:
        (hvp,) = jg.hvp(lambda y: np.sum(f(np, y) ** 2), (x,), (direction,))
        np.testing.assert_allclose(np.vdot(hvp, direction), 2 * np.vdot(pushed, pushed), rtol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_padding_of_any_shape(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    widths = [(data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))) for _ in shape]
    mode = data.draw(st.sampled_from(("edge", "reflect", "symmetric", "wrap")))
    check_moves(lambda x: np.pad(x, widths, mode=mode), np.arange(float(np.prod(shape))).reshape(shape))


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_joins_of_any_shape(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    at = axis % len(shape)
    parts = [np.random.default_rng(n).normal(size=(*shape[:at], n, *shape[at + 1 :])) for n in lengths]
    out, pullback = jg.vjp(lambda *parts: np.concatenate(parts, axis), *parts)
    np.testing.assert_array_equal(out, np.concatenate(parts, axis))
    for bar, part in zip(pullback(out), parts, strict=True):
        np.testing.assert_array_equal(bar, part)
    cuts = sorted(data.draw(st.lists(st.integers(-4, 6), max_size=3)))
    pieces, pullback = jg.vjp(lambda x: np.split(x, cuts, axis), out)
    for piece, expected in zip(pieces, np.split(out, cuts, axis), strict=True):
        np.testing.assert_array_equal(piece, expected)


def test_tensors_and_arrays_together() -> None:
    x = np.array([1.0, 2.0])
    out, pullback = jg.vjp(lambda x: np.concatenate([[9.0], x, np.zeros(2), x * 2]), x)
    np.testing.assert_array_equal(out, [9, 1, 2, 0, 0, 2, 4])
    np.testing.assert_array_equal(pullback(np.arange(7.0))[0], [1 + 10, 2 + 12])
    out, pullback = jg.vjp(lambda x: np.stack([x[0], 5.0, np.float64(3), x[1]]), x)
    np.testing.assert_array_equal(out, [1, 5, 3, 2])
    np.testing.assert_array_equal(pullback(np.arange(4.0))[0], [0, 3])
    _, pushed = jg.jvp(lambda x: np.concatenate([np.ones(1), x]), (x,), (np.array([3.0, 4.0]),))
    np.testing.assert_array_equal(pushed, [0, 3, 4])


def test_dtypes_of_joins() -> None:
    single, double, whole = np.ones(2, np.float32), np.ones(2), np.arange(2)
    out, pullback = jg.vjp(lambda a, b: np.concatenate([a, b]), single, double)
    assert out.dtype == np.float64
    assert [bar.dtype for bar in pullback(np.ones(4))] == [np.float32, np.float64]
    assert jg.vjp(lambda a: np.stack([a, whole]), single)[0].dtype == np.stack([single, whole]).dtype
    assert jg.vjp(lambda a: np.concatenate([a, a], dtype=np.float32), double)[0].dtype == np.float32
    assert jg.vjp(lambda a: np.hstack([a, a], dtype=np.complex128), double)[0].dtype == np.complex128
    with pytest.raises(TypeError, match="Cannot cast"):
        jg.vjp(lambda a: np.concatenate([a, a], dtype=int), double)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, o: np.concatenate([x, o]),
        lambda x, o: np.stack([x, o])[0],
        lambda x, o: x + o,
        lambda x, o: np.sum(np.concatenate([x, o]) * 2.0),
        lambda x, o: np.where(o > 0, x, o),
    ],
)
def test_tangents_have_the_dtype_of_their_values(f: Any) -> None:
    x, o = np.array([1.0, 2.0], dtype=np.float32), np.ones(2)
    out, tangent = jg.jvp(lambda x: f(x, o), (x,), (np.array([3.0, 4.0], dtype=np.float32),))
    assert out.dtype == tangent.dtype == np.float64
    np.testing.assert_allclose(tangent, f(x + np.array([3.0, 4.0]), o) - f(x, o), rtol=1e-6)


def test_a_thousand_parts() -> None:
    x = np.linspace(0.0, 1.0, 1000)
    grad = jg.grad(lambda x: np.sum(np.stack([v * v for v in x]) * x[::-1]))(x)
    np.testing.assert_allclose(grad, 2 * x * x[::-1] + x[::-1] ** 2, rtol=1e-12)


def test_unstack_and_meshgrid_return_all() -> None:
    parts, pullback = jg.vjp(lambda x: jnp.unstack(x, axis=1), X)
    assert type(parts) is tuple
    assert [part.shape for part in parts] == [(2, 4)] * 3
    np.testing.assert_array_equal(pullback(parts)[0], X)
    grids = jg.vjp(lambda x: np.meshgrid(x, [1.0, 2.0], 3.0), X[0, 0])[0]
    for grid, expected in zip(grids, np.meshgrid(X[0, 0], [1.0, 2.0], 3.0), strict=True):
        np.testing.assert_array_equal(grid, expected)


def test_pad_with_a_tensor_as_value() -> None:
    out, pullback = jg.vjp(lambda x, v: np.pad(x, 1, constant_values=v), np.ones((2, 3)), 7.0)
    np.testing.assert_array_equal(out, np.pad(np.ones((2, 3)), 1, constant_values=7.0))
    bar_x, bar_v = pullback(np.arange(20.0).reshape(4, 5))
    np.testing.assert_array_equal(bar_x, np.arange(20.0).reshape(4, 5)[1:-1, 1:-1])
    assert bar_v == np.sum(np.arange(20.0)) - np.sum(bar_x)
    with pytest.raises(TypeError, match="concatenate"):
        jg.vjp(lambda x: np.pad(x, 1, constant_values=(x[0], 1.0)), np.ones(2))
    with pytest.raises(TypeError, match="concatenate"):
        jg.vjp(lambda x: np.pad(x, 1, mode="linear_ramp", end_values=x[0]), np.ones(2))


def test_pad_of_infinite_elements() -> None:
    x = np.array([np.inf, np.nan])
    np.testing.assert_array_equal(jg.vjp(lambda x: np.pad(x, 1, constant_values=2.0), x)[0], [2, np.inf, np.nan, 2])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.concatenate([]), ValueError),
        (lambda x: np.concatenate([x, x[0]]), ValueError),
        (lambda x: np.concatenate([x, x[:, :2]]), ValueError),
        (lambda x: np.concatenate([x[0, 0, 0], x[0, 0, 1]]), ValueError),
        (lambda x: np.concatenate([x, x], axis=3), ValueError),
        (lambda x: np.stack([x, x[0]]), ValueError),
        (lambda x: np.stack([x[0, 0, 0], x[0, 0]]), ValueError),
        (lambda x: np.stack([x, x], axis=4), ValueError),
        (lambda x: np.vstack([x[0], x[0, :, 0]]), ValueError),
        (lambda x: np.block([[x[0]], x[0]]), ValueError),
        (lambda x: np.block((x, x)), TypeError),
        (lambda x: np.block([[], x]), ValueError),
        (lambda x: np.append(x, x[0], axis=0), ValueError),
        (lambda x: np.split(x, 5, axis=2)[0], ValueError),
        (lambda x: np.split(x, 2, axis=3)[0], (ValueError, IndexError)),
        (lambda x: np.array_split(x, 0)[0], ValueError),
        (lambda x: np.hsplit(x[0, 0, 0], 1)[0], ValueError),
        (lambda x: np.vsplit(x[0, 0], 1)[0], ValueError),
        (lambda x: np.dsplit(x[0], 1)[0], ValueError),
        (lambda x: np.repeat(x, -1), ValueError),
        (lambda x: np.repeat(x, [1, 2], axis=1), ValueError),
        (lambda x: np.tile(x, 1.5), TypeError),
        (lambda x: np.meshgrid(x[0, 0], indexing="ji")[0], ValueError),
        (lambda x: np.delete(x, 99), IndexError),
        (lambda x: np.insert(x, 99, 1.0), IndexError),
        (lambda x: np.insert(x, 0, np.ones(9), axis=0), ValueError),
        (lambda x: np.diff(x, -1), ValueError),
        (lambda x: np.diff(x[0, 0, 0]), ValueError),
        (lambda x: np.pad(x, -1), ValueError),
        (lambda x: np.pad(x, 1.5), TypeError),
        (lambda x: np.pad(x, ((1, 2), (3, 4))), ValueError),
        (lambda x: np.pad(x, 1, mode="constant", nonsense=1), (TypeError, ValueError)),
        (lambda x: np.pad(x, 1, mode="maximum", stat_length=0), ValueError),
    ],
)
def test_errors_are_numpys(call: Any, error: Any) -> None:
    for f in (lambda: call(X), lambda: call(constant(X)), lambda: jg.grad(lambda x: np.sum(call(x)))(X)):
        with pytest.raises(error):
            f()


def test_out_is_refused() -> None:
    with pytest.raises(TypeError, match="takes no out="):
        jg.grad(lambda x: np.sum(np.concatenate([x, x], out=np.zeros((4, 3, 4)))))(X)
    with pytest.raises(TypeError, match="takes no out="):
        jg.grad(lambda x: np.sum(np.stack([x, x], out=np.zeros((2, 2, 3, 4)))))(X)


@pytest.mark.parametrize("mode", ["empty", "nonsense"])
def test_padding_that_is_refused(mode: str) -> None:
    with pytest.raises(NotImplementedError, match="has the modes"):
        jg.grad(lambda x: np.sum(np.pad(x, 1, mode=mode)))(X)


def test_odd_reflection_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="even"):
        jg.grad(lambda x: np.sum(np.pad(x, 1, mode="reflect", reflect_type="odd")))(X)
