"""Shape, order of axes, broadcasting, reversing and rolling: as NumPy, values and gradients."""

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
MATRIX = X[0]

CASES: list[tuple[str, Any]] = [
    ("reshape", lambda np, x: np.reshape(x, (4, 6))),
    ("reshape open", lambda np, x: np.reshape(x, (-1, 3))),
    ("reshape int", lambda np, x: np.reshape(x, -1)),
    ("reshape F", lambda np, x: np.reshape(x, (4, 6), order="F")),
    ("reshape F open", lambda np, x: np.reshape(x, (4, -1, 2), "F")),
    ("reshape F int", lambda np, x: np.reshape(x, -1, "F")),
    ("reshape A of transposed", lambda np, x: np.reshape(np.transpose(x), (6, 4), order="A")),
    ("reshape copy", lambda np, x: np.reshape(x, (8, 3), copy=True)),
    ("reshape no copy", lambda np, x: np.reshape(x, (8, 3), copy=False)),
    ("reshape of transposed", lambda np, x: np.reshape(np.transpose(x), (6, 4))),
    ("reshape method", lambda np, x: x.reshape(3, 8)),
    ("reshape method tuple", lambda np, x: x.reshape((3, -1))),
    ("reshape method list", lambda np, x: x.reshape([3, -1])),
    ("reshape method int", lambda np, x: x.reshape(-1)),
    ("reshape method order", lambda np, x: x.reshape(3, 8, order="F")),
    ("ravel", lambda np, x: np.ravel(x)),
    ("ravel F", lambda np, x: np.ravel(x, "F")),
    ("ravel K", lambda np, x: np.ravel(np.transpose(x, (1, 0, 2)), "K")),
    ("ravel K backwards", lambda np, x: np.ravel(np.transpose(x, (1, 0, 2))[:, ::-1], "K")),
    ("ravel method", lambda np, x: x.T.ravel()),
    ("flatten", lambda np, x: x.flatten()),
    ("flatten F", lambda np, x: x.flatten("F")),
    ("copy", lambda np, x: np.copy(x)),
    ("copy method", lambda np, x: x.copy()),
    ("squeeze", lambda np, x: np.squeeze(x[:, :1])),
    ("squeeze axis", lambda np, x: np.squeeze(x[:1, :1], axis=1)),
    ("squeeze axes", lambda np, x: np.squeeze(x[:1, :1], axis=(0, -2))),
    ("squeeze method", lambda np, x: x[:, :1].squeeze(1)),
    ("squeeze nothing", lambda np, x: np.squeeze(x)),
    ("expand_dims", lambda np, x: np.expand_dims(x, 1)),
    ("expand_dims axes", lambda np, x: np.expand_dims(x, (0, -1))),
    ("atleast_1d", lambda np, x: np.atleast_1d(x[1, 2, 3])),
    ("atleast_2d", lambda np, x: np.atleast_2d(x[1, 2])),
    ("atleast_3d of one axis", lambda np, x: np.atleast_3d(x[1, 2])),
    ("atleast_3d of two axes", lambda np, x: np.atleast_3d(x[1])),
    ("atleast_3d of three", lambda np, x: np.atleast_3d(x)),
    ("transpose", lambda np, x: np.transpose(x)),
    ("transpose axes", lambda np, x: np.transpose(x, (1, -1, 0))),
    ("transpose method", lambda np, x: x.transpose()),
    ("transpose method None", lambda np, x: x.transpose(None)),
    ("transpose method axes", lambda np, x: x.transpose(2, 0, 1)),
    ("transpose method tuple", lambda np, x: x.transpose((2, 0, 1))),
    ("T", lambda np, x: x.T),
    ("mT", lambda np, x: x.mT),
    ("swapaxes", lambda np, x: np.swapaxes(x, 0, -1)),
    ("swapaxes method", lambda np, x: x.swapaxes(1, 2)),
    ("matrix_transpose", lambda np, x: np.matrix_transpose(x)),
    ("permute_dims", lambda np, x: np.permute_dims(x, (2, 1, 0))),
    ("moveaxis", lambda np, x: np.moveaxis(x, 0, -1)),
    ("moveaxis several", lambda np, x: np.moveaxis(x, (0, 2), (1, 0))),
    ("rollaxis", lambda np, x: np.rollaxis(x, 2)),
    ("rollaxis start", lambda np, x: np.rollaxis(x, 0, 3)),
    ("broadcast_to", lambda np, x: np.broadcast_to(x[:, :1], (5, 2, 3, 4))),
    ("broadcast_to int", lambda np, x: np.broadcast_to(x[0, 0, 1], 3)),
    ("broadcast_to none", lambda np, x: np.broadcast_to(x, x.shape)),
    ("broadcast_arrays", lambda np, x: np.broadcast_arrays(x[0, :1], x)[0]),
    ("flip", lambda np, x: np.flip(x)),
    ("flip axis", lambda np, x: np.flip(x, -1)),
    ("flip axes", lambda np, x: np.flip(x, (0, 2))),
    ("flipud", lambda np, x: np.flipud(x)),
    ("fliplr", lambda np, x: np.fliplr(x)),
    *[(f"rot90 {k}", lambda np, x, k=k: np.rot90(x, k)) for k in range(-1, 5)],
    ("rot90 axes", lambda np, x: np.rot90(x, 1, (2, 0))),
    ("roll", lambda np, x: np.roll(x, 5)),
    ("roll back", lambda np, x: np.roll(x, -29)),
    ("roll axis", lambda np, x: np.roll(x, 2, 1)),
    ("roll axes", lambda np, x: np.roll(x, (1, -2), (0, 2))),
    ("roll same axis twice", lambda np, x: np.roll(x, (1, 1), (2, 2))),
    ("roll axes together", lambda np, x: np.roll(x, 1, (0, 2))),
    ("roll nothing", lambda np, x: np.roll(x, 0, 1)),
]


@pytest.mark.parametrize(("name", "f"), CASES)
def test_as_numpy(name: str, f: Any) -> None:
    for x in (X, np.asfortranarray(X), X.astype(np.float32)):
        if (
            "order" not in name and " A" not in name and "K" not in name and "no copy" not in name
        ) or x.flags.c_contiguous:
            check_moves(lambda x: f(np, x), x)
    out = f(jnp, X)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, f(np, X))


@pytest.mark.parametrize(("name", "f"), CASES)
def test_of_a_tensor_that_is_not_recorded(name: str, f: Any) -> None:
    for x in (X, X.astype(int)):
        out = f(np, constant(x))
        assert type(out) is Tensor
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(out._value, f(np, x))


@pytest.mark.parametrize(("name", "f"), CASES)
def test_inputs_in_other_layouts(name: str, f: Any) -> None:
    """Memory orders A and K depend on the layout, which the op sees as NumPy does."""
    strided = np.zeros((4, 3, 8))[::2, ::-1, ::2]
    strided[...] = X
    for x in (strided, np.ascontiguousarray(X.T).T, np.broadcast_to(X, X.shape)):
        if "no copy" not in name:
            out, pullback = jg.vjp(lambda x: f(np, x), x)
            np.testing.assert_array_equal(out, f(np, x))
            assert pullback(np.ones(out.shape))[0].shape == X.shape


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_empty_and_large(size: int) -> None:
    x = np.arange(4.0 * size).reshape(size, 4)
    for f in (
        lambda x: np.reshape(x, (4, size)),
        lambda x: x.T,
        lambda x: np.roll(x, 3),
        lambda x: np.flip(x, 0),
        lambda x: np.broadcast_to(x, (2, size, 4)),
        lambda x: np.expand_dims(x, 0),
        lambda x: x.flatten(),
    ):
        check_moves(f, x)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_broadcasting(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    pattern = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    smaller = tuple(1 if one else n for n, one in zip(shape, pattern, strict=True))
    smaller = smaller[data.draw(st.integers(0, len(shape))) :]
    x = np.arange(float(np.prod(smaller))).reshape(smaller)
    check_moves(lambda x: np.broadcast_to(x, shape), x)


def test_a_shape_may_be_a_tensor() -> None:
    x, shape = np.arange(6.0), jg.tensor([3, -1])
    for reshaped in (jg.tensor(x).reshape(shape), np.reshape(jg.tensor(x), shape)):
        assert reshaped.shape == (3, 2)
    halves = jg.jit(lambda x, n: x.reshape(n).sum(axis=0))
    for lengths in ([3, 2], [2, 3], [3, 2]):
        np.testing.assert_array_equal(halves(x, np.array(lengths)), x.reshape(lengths).sum(axis=0))


def test_broadcast_arrays_returns_all() -> None:
    a, b = np.arange(3.0), np.arange(2.0).reshape(2, 1)
    out, pullback = jg.vjp(lambda a, b: np.broadcast_arrays(a, b, 5.0), a, b)
    assert type(out) is tuple
    assert all(part.shape == (2, 3) for part in out)
    bars = pullback((np.ones((2, 3)), np.full((2, 3), 2.0), np.zeros((2, 3))))
    np.testing.assert_array_equal(bars[0], [2, 2, 2])
    np.testing.assert_array_equal(bars[1], [[6], [6]])


def test_several_at_least() -> None:
    out = jg.vjp(lambda x: np.atleast_2d(x, 3.0, [x[0], x[1]]), np.arange(2.0))[0]
    assert [part.shape for part in out] == [(1, 2), (1, 1), (1, 2)]


def test_lists_of_tensors_are_arrays() -> None:
    grad = jg.grad(lambda x: np.sum(jnp.reshape([[x[0], x[1]], [x[2], 1.0]], -1) * np.arange(1.0, 5.0)))(np.ones(3))
    np.testing.assert_array_equal(grad, [1, 2, 3])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.reshape(x, (5, 5)), ValueError),
        (lambda x: np.reshape(x, (-1, -1)), ValueError),
        (lambda x: np.reshape(x, (-1, 7)), ValueError),
        (lambda x: np.reshape(x, (6, 4), order="Z"), ValueError),
        (lambda x: np.reshape(x.T, (6, 4), copy=False), ValueError),
        (lambda x: x.reshape(2.5, 2), TypeError),
        (lambda x: np.ravel(x, "Z"), ValueError),
        (lambda x: np.squeeze(x, 0), ValueError),
        (lambda x: np.expand_dims(x, 9), ValueError),
        (lambda x: np.transpose(x, (0, 1)), ValueError),
        (lambda x: np.transpose(x, (0, 0, 1)), ValueError),
        (lambda x: np.transpose(x, (0, 1, 5)), ValueError),
        (lambda x: np.swapaxes(x, 0, 3), ValueError),
        (lambda x: np.matrix_transpose(x[0, 0]), ValueError),
        (lambda x: x[0, 0].mT, ValueError),
        (lambda x: np.moveaxis(x, (0, 1), 0), ValueError),
        (lambda x: np.moveaxis(x, 5, 0), ValueError),
        (lambda x: np.rollaxis(x, 5), ValueError),
        (lambda x: np.broadcast_to(x, (3, 3)), ValueError),
        (lambda x: np.broadcast_arrays(x, x.T)[0], ValueError),
        (lambda x: np.flip(x, 4), ValueError),
        (lambda x: np.fliplr(x[0, 0]), ValueError),
        (lambda x: np.rot90(x, 1, (0, 0)), ValueError),
        (lambda x: np.rot90(x, 1, (0, 5)), ValueError),
        (lambda x: np.roll(x, (1, 2, 3), (0, 1)), ValueError),
        (lambda x: np.roll(x, 1, 7), ValueError),
    ],
)
def test_errors_are_numpys(call: Any, error: Any) -> None:
    for f in (lambda: call(X), lambda: call(constant(X)), lambda: jg.grad(lambda x: np.sum(call(x)))(X)):
        with pytest.raises(error):
            f()
