"""`backward()`: where gradients go, what is freed, and what is refused, as in PyTorch 2.13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


def test_of_one_element_whatever_the_shape() -> None:
    x = jg.tensor([[3.0]], requires_grad=True)
    (x * x).backward()
    assert x.grad.tolist() == [[6.0]]


def test_of_a_leaf() -> None:
    x = jg.tensor(5.0, requires_grad=True)
    x.backward()
    x.backward()
    assert x.grad.item() == 2.0


def test_of_a_leaf_does_not_share_the_given_gradient() -> None:
    x = leaf(1.0, 2.0)
    g = jg.tensor([3.0, 4.0])
    x.backward(g)
    assert x.grad.tolist() == [3.0, 4.0]
    x.grad.zero_()
    assert g.tolist() == [3.0, 4.0]


def test_accumulates_in_place() -> None:
    x = leaf(1.0, 2.0)
    x.sum().backward()
    held = x.grad
    x.sum().backward()
    assert x.grad is held
    assert held.tolist() == [2.0, 2.0]


def test_accumulation_does_not_touch_what_was_detached_from_the_first_gradient() -> None:
    x = leaf(1.0, 2.0)
    x.sum().backward()
    kept = x.grad.clone()
    x.sum().backward()
    assert kept.tolist() == [1.0, 1.0]


def test_gradients_of_two_leaves_share_no_memory() -> None:
    # larger than what native code replays: the same cotangent then reaches both
    x, y = jg.ones(5000, requires_grad=True), jg.ones(5000, requires_grad=True)
    (x + y).sum().backward()
    x.grad.zero_()
    assert (y.grad.numpy() == 1.0).all()


@pytest.mark.parametrize("size", [3, 5000])
def test_gradient_given_is_left_alone(size: int) -> None:
    x = jg.ones(size, requires_grad=True)
    g = jg.full((size,), 2.0)
    (x + 1.0).backward(g)
    (x + 1.0).backward(g)
    assert (x.grad.numpy() == 4.0).all()
    assert (g.numpy() == 2.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_gradient_of_another_real_dtype_is_converted(dtype: type) -> None:
    x = leaf(1.0, 2.0)
    (x * 2).backward(jg.ones(2, dtype=dtype))
    assert x.grad.tolist() == [2.0, 2.0]
    assert x.grad.dtype == np.float64


def test_gradient_may_be_an_array_or_a_number() -> None:
    x = leaf(1.0, 2.0)
    (x * 2).backward(np.array([1.0, 3.0]))
    (x * 2).sum().backward(10.0)
    assert x.grad.tolist() == [22.0, 26.0]


def test_float32_gets_a_float32_gradient() -> None:
    x = jg.ones(3, dtype=np.float32, requires_grad=True)
    (x * 2.0).sum().backward()
    assert x.grad.dtype == np.float32


def test_leaves_that_do_not_require_gradients_get_none() -> None:
    x, c = leaf(1.0, 2.0), jg.tensor([3.0, 4.0])
    (x * c).sum().backward()
    assert c.grad is None


def test_leaf_that_has_stopped_requiring_a_gradient_gets_none() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]


def test_leaf_that_requires_a_gradient_again_is_entered_anew() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).sum()
    x.requires_grad_(False)
    x.requires_grad_(True)
    (y + (x * 3).sum()).backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_no_graph() -> None:
    with pytest.raises(errors.NoGraphError, match="element 0 of tensors does not require grad"):
        jg.tensor(1.0).backward()


def test_not_a_scalar() -> None:
    with pytest.raises(errors.NonScalarBackwardError, match="created only for scalar outputs") as caught:
        (leaf(1.0, 2.0) * 2).backward()
    assert "MulBackward0" in str(caught.value)


def test_complex_scalar() -> None:
    z = jg.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(errors.NonScalarBackwardError, match="only for real scalar outputs but got complex128"):
        (z * z).backward()


def test_gradient_of_another_shape() -> None:
    with pytest.raises(errors.GradientShapeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \(3,\)"):
        (leaf(1.0, 2.0) * 2).backward(jg.ones(3))


def test_complex_gradient_of_a_real_output() -> None:
    with pytest.raises(errors.GradientDtypeError, match="For complex Tensors, both grad_output and output"):
        (leaf(1.0, 2.0) * 2).backward(jg.ones(2, dtype=complex))


# -- freeing --------------------------------------------------------------------------------------------------


def test_twice() -> None:
    x = jg.tensor(2.0, requires_grad=True)
    z = x * x
    z.backward()
    with pytest.raises(errors.GraphFreedError, match="Trying to backward through the graph a second time"):
        z.backward()
    assert x.grad.item() == 4.0


def test_twice_where_nothing_was_kept() -> None:
    x = jg.tensor(2.0, requires_grad=True)
    z = x + x
    z.backward()
    z.backward()
    assert x.grad.item() == 4.0


def test_retain_graph() -> None:
    x = jg.tensor(2.0, requires_grad=True)
    z = x * x
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.item() == 8.0
    with pytest.raises(errors.GraphFreedError):
        z.backward()


def test_shared_subgraph_is_freed_by_the_first() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    a, b = y.sum(), (y * 3).sum()
    a.backward()
    with pytest.raises(errors.GraphFreedError):
        b.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_shared_subgraph_that_kept_nothing() -> None:
    x = leaf(1.0, 2.0)
    y = x + 1
    a, b = (y * 2).sum(), (y * 3).sum()
    a.backward()
    b.backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_shared_operand_is_kept_for_the_other_graph() -> None:
    x = leaf(1.0, 2.0)
    y = x + 1
    a, b = (y * y).sum(), (y * y * y).sum()
    a.backward()
    b.backward()
    assert x.grad.tolist() == [4.0 + 12.0, 6.0 + 27.0]


def test_shared_subgraph_with_retain_graph() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    a, b = y.sum(), (y * 3).sum()
    a.backward(retain_graph=True)
    b.backward()
    assert x.grad.tolist() == [8.0, 16.0]


def test_graph_behind_other_inputs_stays() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = (x * x).sum() * (w * w).sum()
    z.backward(inputs=[w], retain_graph=True)
    z.backward(inputs=[x])
    assert x.grad.tolist() == [50.0, 100.0]


def test_failed_backward_changes_no_gradient() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * x
    y.sum().backward()
    with pytest.raises(errors.GraphFreedError):
        (y * w).sum().backward()
    assert w.grad is None


# -- inputs ---------------------------------------------------------------------------------------------------


def test_inputs() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = x * w
    (z * z).sum().backward(inputs=[z, w])
    assert x.grad is None
    assert w.grad.tolist() == [6.0, 32.0]
    assert z.grad.tolist() == [6.0, 16.0]
    assert z.retains_grad


def test_inputs_may_be_one_tensor() -> None:
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward(inputs=x)
    assert x.grad.tolist() == [2.0, 2.0]


def test_inputs_that_nothing_reaches_stay_without_gradient() -> None:
    x, unused = leaf(1.0, 2.0), leaf(1.0)
    (x * 2).sum().backward(inputs=[unused])
    assert unused.grad is None
    assert x.grad is None


def test_no_inputs() -> None:
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        leaf(1.0).sum().backward(inputs=[])


def test_inputs_that_require_no_gradient() -> None:
    with pytest.raises(errors.NoGraphError, match="can't retain_grad on Tensor that has requires_grad=False"):
        leaf(1.0).sum().backward(inputs=[jg.ones(2)])


# -- retained gradients ---------------------------------------------------------------------------------------


def test_retain_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [8.0, 16.0]


def test_retained_gradient_is_added_to_by_new_tensors() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    first = y.grad
    y.sum().backward()
    assert first.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [2.0, 2.0]


def test_retained_gradient_of_the_output_itself() -> None:
    x = leaf(3.0)
    y = (x * 2).sum()
    y.retain_grad()
    y.backward()
    assert y.grad.item() == 1.0


# -- derivatives of gradients ---------------------------------------------------------------------------------


def test_create_graph() -> None:
    x = leaf(1.0, 2.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_create_graph_accumulates_into_a_new_tensor() -> None:
    x = leaf(1.0, 2.0)
    (x**2).sum().backward(create_graph=True)
    first = x.grad
    (x**2).sum().backward(create_graph=True)
    assert first.tolist() == [2.0, 4.0]
    assert x.grad.tolist() == [4.0, 8.0]
    assert x.grad.grad_fn.name() == "AddBackward0"


def test_create_graph_retains_the_graph() -> None:
    x = leaf(2.0)
    y = (x**3).sum()
    y.backward(create_graph=True)
    y.backward()
    assert x.grad.tolist() == [24.0]


def test_create_graph_without_retaining() -> None:
    x = leaf(2.0)
    y = (x**3).sum()
    y.backward(create_graph=True, retain_graph=False)
    with pytest.raises(errors.GraphFreedError):
        y.backward()


def test_create_graph_inside_no_grad_records() -> None:
    x = leaf(2.0)
    y = (x**3).sum()
    with jg.no_grad():
        y.backward(create_graph=True)
    assert x.grad.requires_grad


def test_third_derivative() -> None:
    x = leaf(2.0)
    g = (x**4).sum()
    for expected in (32.0, 48.0, 48.0):
        (g,) = jg.autograd.grad(g.sum(), x, create_graph=True)
        assert g.item() == pytest.approx(expected)


def test_gradient_penalty() -> None:
    # the gradient's norm is part of the loss
    x, w = jg.tensor([1.0, 2.0]), leaf(0.5, -0.25)
    x.requires_grad_()
    out = (jg.tanh(w * x)).sum()
    (g,) = jg.autograd.grad(out, x, create_graph=True)
    (g * g).sum().backward()
    h = 1e-6

    def penalty(v: np.ndarray[Any, Any]) -> float:
        g = v * (1 - np.tanh(v * np.array([1.0, 2.0])) ** 2)
        return float((g * g).sum())

    v = np.array([0.5, -0.25])
    for k in range(2):
        step = np.eye(2)[k] * h
        assert w.grad[k].item() == pytest.approx((penalty(v + step) - penalty(v - step)) / (2 * h), rel=1e-7)


# -- where it is not possible ---------------------------------------------------------------------------------


def test_inside_a_transform() -> None:
    def f(x: Any) -> Any:
        y = (x * x).sum()
        y.backward()
        return y

    with pytest.raises(errors.NoGraphError, match="inside a function that is being transformed"):
        jg.grad(f)(np.ones(2))


def test_of_other_leaves_inside_a_transform() -> None:
    w = leaf(1.0, 2.0)

    def f(x: Any) -> Any:
        (w * w).sum().backward()
        return (x * w.grad).sum()

    assert jg.grad(f)(np.ones(2)).tolist() == [2.0, 4.0]


def test_of_a_tensor_that_has_left_its_transform() -> None:
    kept = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return (x * x).sum()

    jg.grad(f)(np.ones(2))
    with pytest.raises(errors.LeakedTensorError):
        kept[0].backward(np.ones(2))


def test_through_a_transform_of_tensors() -> None:
    x = leaf(1.0, 2.0)
    slope = jg.grad(lambda v: (v**3).sum())(x)
    slope.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
