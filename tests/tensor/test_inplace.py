"""Writes in place in PyTorch's manner: when they are recorded, what they make stale, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


WRITES: list[Callable[[Any], Any]] = [
    lambda t: t.add_(1.0),
    lambda t: t.sub_(1.0),
    lambda t: t.mul_(2.0),
    lambda t: t.div_(2.0),
    lambda t: t.pow_(2.0),
    lambda t: t.zero_(),
    lambda t: t.fill_(3.0),
    lambda t: t.copy_(jg.ones(2)),
    lambda t: t.exp_(),
    lambda t: t.neg_(),
    lambda t: t.__iadd__(1.0),
    lambda t: t.__isub__(1.0),
    lambda t: t.__imul__(2.0),
    lambda t: t.__itruediv__(2.0),
    lambda t: t.__setitem__(0, 1.0),
]


@pytest.mark.parametrize("write", WRITES)
def test_leaf_that_requires_a_gradient_is_refused(write: Callable[[Any], Any]) -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(errors.InplaceError, match=r"^a leaf Variable that requires grad is being used in an in-place"):
        write(x)
    assert x.tolist() == [1.0, 2.0]
    assert x.is_leaf


def test_view_of_a_leaf_is_refused() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(errors.InplaceError, match=r"^a view of a leaf Variable that requires grad"):
        x[0:1].zero_()
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("write", WRITES)
def test_leaf_inside_no_grad(write: Callable[[Any], Any]) -> None:
    x, expected = leaf(1.0, 2.0), jg.tensor([1.0, 2.0])
    memory = x._value
    write(expected)
    with jg.no_grad():
        write(x)
    assert x.tolist() == expected.tolist()
    assert x._value is memory
    assert x.is_leaf
    assert x.requires_grad
    assert x._version == 1
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("write", WRITES)
def test_constant(write: Callable[[Any], Any]) -> None:
    c = jg.tensor([1.0, 2.0])
    memory, other = c._value, c
    result = write(c)
    assert c._value is memory
    assert other.tolist() == c.tolist()
    assert result is None or result is c
    assert not c.requires_grad


@pytest.mark.parametrize("write", WRITES)
def test_recorded_write(write: Callable[[Any], Any]) -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    write(y)
    assert y.requires_grad
    g = jg.autograd.grad(y, x, jg.ones(2), materialize_grads=True)[0].numpy()
    h = 1e-6
    for k in range(2):
        ends = []
        for sign in (1, -1):
            t = jg.tensor((np.array([1.0, 2.0]) + sign * h * np.eye(2)[k]) * 2)
            write(t)
            ends.append(t.numpy().sum())
        assert g[k] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-6)


def test_results() -> None:
    c = jg.tensor([1.0, 2.0])
    assert c.add_(1).tolist() == [2.0, 3.0]
    assert c.sub_(jg.tensor([1.0, 1.0])).tolist() == [1.0, 2.0]
    assert c.mul_(np.array([3.0, 4.0])).tolist() == [3.0, 8.0]
    assert c.div_(2).tolist() == [1.5, 4.0]
    assert c.fill_(jg.tensor(7.0)).tolist() == [7.0, 7.0]
    assert c.copy_([1, 2]).tolist() == [1.0, 2.0]
    assert c.zero_().tolist() == [0.0, 0.0]


def test_scalar_tensor_is_written_to_as_any_other() -> None:
    a = jg.tensor(0.0)
    b = a
    a += 1
    a.add_(1)
    assert b is a
    assert b.item() == 2.0
    x = leaf(1.0, 2.0)
    y = x.sum()
    z = y
    y *= y
    y += 1
    assert z is y
    z.backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_scalar_in_a_transform_is_not_written_to_as_numpys_are_not() -> None:
    def f(x: Any) -> Any:
        y = x * x
        z = y
        y *= 10.0
        return z

    assert jg.grad(f)(3.0) == 6.0


def test_buffer_becomes_part_of_the_graph() -> None:
    x = leaf(1.0, 2.0)
    b = jg.zeros(2)
    b += x
    b *= x
    assert not b.is_leaf
    b.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert b.grad_fn.name() == "MulBackward0"


def test_buffer_is_filled_element_by_element() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = jg.zeros(3)
    for i in range(3):
        b[i] = x[i] * x[i]
        b[i] += x[2 - i]
    (b * jg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert b.tolist() == [4.0, 6.0, 10.0]
    assert x.grad.tolist() == [2.0 + 100.0, 40.0 + 10.0, 600.0 + 1.0]


def test_write_to_a_view_reaches_its_base() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y[1:].mul_(10.0)
    assert y.tolist() == [2.0, 40.0, 60.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 20.0, 20.0]


def test_write_to_a_base_reaches_its_views() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    v = y[1:]
    y.mul_(10.0)
    assert v.tolist() == [40.0, 60.0]
    v.sum().backward()
    assert x.grad.tolist() == [0.0, 20.0, 20.0]


def test_value_that_is_needed_stays_for_the_derivative() -> None:
    # PyTorch refuses this; here the write makes a new value
    x = leaf(1.0, 2.0)
    y = x.exp()
    y += 1
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]))


# -- stale values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 5000])
def test_leaf_written_to_between_forward_and_backward(size: int) -> None:
    x = jg.ones(size, requires_grad=True)
    y = (x * x).sum()
    with jg.no_grad():
        x.add_(1)
    with pytest.raises(errors.InplaceError, match="is at version 1; expected version 0 instead") as caught:
        y.backward()
    assert "MulBackward0" in str(caught.value)
    assert "test_inplace.py" in str(caught.value)
    assert x.grad is None


def test_leaf_written_to_where_its_value_is_not_needed() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 3).sum()
    with jg.no_grad():
        x.add_(1)
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_old_graph_is_stale_and_the_new_one_is_not() -> None:
    x = leaf(1.0, 2.0)
    old = (x * x).sum()
    with jg.no_grad():
        x.add_(1)
    new = (x * x).sum()
    new.backward()
    assert x.grad.tolist() == [4.0, 6.0]
    with pytest.raises(errors.InplaceError):
        old.backward()


@pytest.mark.parametrize("size", [2, 5000])
def test_constant_written_to_between_forward_and_backward(size: int) -> None:
    x, c = jg.ones(size, requires_grad=True), jg.full((size,), 3.0)
    z = (x * c).sum()
    c.zero_()
    with pytest.raises(errors.InplaceError, match="is at version 1; expected version 0 instead"):
        z.backward()
    (x * c).sum().backward()
    assert (x.grad.numpy() == 0.0).all()


def test_leaf_written_to_under_a_view_that_is_needed() -> None:
    x = leaf(1.0, 2.0, 3.0)
    v = x[1:]
    z = (v * v).sum()
    with jg.no_grad():
        x.add_(1)
    with pytest.raises(errors.InplaceError):
        z.backward()


def test_leaf_written_to_through_a_view() -> None:
    x = leaf(1.0, 2.0, 3.0)
    z = (x * x).sum()
    with jg.no_grad():
        x[1:].zero_()
    assert x.tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(errors.InplaceError):
        z.backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0]


def test_stale_value_is_no_hindrance_to_other_graphs() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    abandoned = (x * x).sum()
    with jg.no_grad():
        x.add_(1)
    (w * w).sum().backward()
    assert w.grad.tolist() == [6.0, 8.0]
    del abandoned


def test_gradient_that_a_graph_needs_is_stale_after_accumulation() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x.sum().backward()
    z = (w * x.grad).sum()
    x.sum().backward()
    with pytest.raises(errors.InplaceError):
        z.backward()


def test_second_derivative_needs_fresh_values_too() -> None:
    x = leaf(1.0, 2.0)
    (g,) = jg.autograd.grad((x**3).sum(), x, create_graph=True)
    with jg.no_grad():
        x.add_(1)
    with pytest.raises(errors.InplaceError):
        g.sum().backward()


# -- what does not fit ----------------------------------------------------------------------------------------


def test_result_of_another_shape() -> None:
    for b in (jg.zeros(2), jg.tensor(0.0)):
        with pytest.raises(errors.ShapeError, match="doesn't match the broadcast shape"):
            b += jg.ones(3, 2)


def test_result_of_another_kind() -> None:
    for write in (lambda b: b.add_(1.5), lambda b: b.div_(2)):
        with pytest.raises(errors.DtypeError, match="result type float64 can't be cast to the desired output type int"):
            write(jg.zeros(2, dtype=int))
    with pytest.raises(errors.DtypeError, match="result type complex128 can't be cast"):
        jg.zeros(2).add_(1j)


def test_result_of_another_width() -> None:
    b = jg.zeros(2, dtype=np.float32)
    b += jg.ones(2)
    assert b.dtype == np.float32
    assert b.tolist() == [1.0, 1.0]


def test_copy_converts() -> None:
    assert jg.zeros(2, dtype=int).copy_(jg.tensor([1.7, 2.7])).tolist() == [1, 2]
    with pytest.raises(errors.ShapeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(3\)"):
        jg.zeros(2).copy_(jg.ones(3))


@pytest.mark.parametrize(("target", "source"), [((2,), (3, 2)), ((1,), (3,)), ((), (1,)), ((2, 1), (2, 2))])
def test_copy_of_more_than_there_is_room_for(target: tuple[int, ...], source: tuple[int, ...]) -> None:
    common = np.broadcast_shapes(target, source)
    words = re.escape(f"output with shape {[*target]} doesn't match the broadcast shape {[*common]}")
    with pytest.raises(errors.ShapeError, match=words):
        jg.zeros(target).copy_(jg.ones(source))


def test_copy_of_a_recorded_tensor() -> None:
    x = leaf(1.0, 2.0)
    b = jg.zeros(3, 2)
    b.copy_(x)
    b.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_fill_with_a_recorded_scalar() -> None:
    x = jg.tensor(2.0, requires_grad=True)
    b = jg.zeros(3)
    b.fill_(x)
    b.sum().backward()
    assert x.grad.item() == 3.0
    with pytest.raises(errors.ShapeError, match=r"fill_ got shape \(2,\)"):
        b.fill_(jg.ones(2))


def test_inside_a_transform() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y *= x
        y[0] = x[1] * 5.0
        y += 1
        return (y * y).sum()

    x = np.array([2.0, 3.0])
    # y = (5 x1 + 1, x1**2 + 1)
    np.testing.assert_allclose(jg.grad(f)(x), [0.0, 2 * 16 * 5 + 2 * 10 * 6])
    assert x.tolist() == [2.0, 3.0]


def test_argument_of_a_transform_is_not_written_to() -> None:
    def f(x: Any) -> Any:
        x *= 2
        return (x * x).sum()

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(jg.grad(f)(x), [8.0, 16.0])
    assert x.tolist() == [1.0, 2.0]
