"""`jitgrad.autograd`: `grad` and `backward` of several tensors, as in PyTorch 2.13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import autograd, errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


def test_returns_a_tuple_and_leaves_grad_alone() -> None:
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad((x * x).sum(), x)
    assert g.tolist() == [2.0, 4.0]
    assert not g.requires_grad
    assert x.grad is None


def test_outputs_are_summed_over() -> None:
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad([(x * x).sum(), x.sum()], [x])
    assert g.tolist() == [3.0, 5.0]


def test_same_output_twice() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    (g,) = autograd.grad([y, y], [x])
    assert g.tolist() == [4.0, 8.0]


def test_same_input_twice() -> None:
    x = leaf(1.0, 2.0)
    g, h = autograd.grad((x * x).sum(), [x, x])
    assert g.tolist() == h.tolist() == [2.0, 4.0]


def test_by_what_is_no_leaf() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    z = (y * y).sum()
    g, h = autograd.grad(z, [y, x])
    assert g.tolist() == [6.0, 12.0]
    assert h.tolist() == [18.0, 36.0]


def test_by_itself() -> None:
    y = leaf(1.0, 2.0).sum()
    assert autograd.grad(y, y)[0].item() == 1.0


def test_grad_outputs() -> None:
    x = leaf(1.0, 2.0)
    assert autograd.grad(x * x, x, jg.tensor([1.0, 10.0]))[0].tolist() == [2.0, 40.0]
    assert autograd.grad([x * x, x * 2], [x], [jg.ones(2), jg.ones(2)])[0].tolist() == [4.0, 6.0]
    assert autograd.grad([x.sum(), x * 2], [x], [None, jg.ones(2)])[0].tolist() == [3.0, 3.0]


def test_grad_outputs_of_another_number() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
        autograd.grad(x * x, x, [jg.ones(2), jg.ones(2)])


def test_grad_outputs_with_a_graph() -> None:
    x, v = leaf(1.0, 2.0), jg.ones(2, requires_grad=True)
    (g,) = autograd.grad(x * x, x, v, create_graph=True)
    assert autograd.grad(g.sum(), v)[0].tolist() == [2.0, 4.0]


def test_gradient_of_a_linear_function_has_no_graph() -> None:
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad((x * jg.tensor([3.0, 4.0])).sum(), x, create_graph=True)
    assert g.tolist() == [3.0, 4.0]
    assert not g.requires_grad


def test_unused() -> None:
    x, unused = leaf(1.0, 2.0), leaf(1.0)
    y = (x * x).sum()
    with pytest.raises(errors.UnusedInputError, match="at index 1 appears to not have been used in the graph"):
        autograd.grad(y, [x, unused], retain_graph=True)
    assert autograd.grad(y, [x, unused], allow_unused=True, retain_graph=True)[1] is None
    assert autograd.grad(y, [x, unused], materialize_grads=True)[1].tolist() == [0.0]


def test_materialize_grads_with_allow_unused_off() -> None:
    x = leaf(1.0)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when materialize_grads"):
        autograd.grad(x.sum(), x, materialize_grads=True, allow_unused=False)


def test_inputs_without_gradient() -> None:
    with pytest.raises(errors.NoGraphError, match="One of the differentiated Tensors does not require grad"):
        autograd.grad(leaf(1.0).sum(), [jg.ones(1)])


def test_outputs_without_graph() -> None:
    with pytest.raises(errors.NoGraphError, match="element 1 of tensors does not require grad"):
        autograd.grad([leaf(1.0).sum(), jg.tensor(1.0)], [leaf(1.0)])


def test_outputs_that_are_not_scalars() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(errors.NonScalarBackwardError):
        autograd.grad(x * x, x)


def test_no_inputs() -> None:
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        autograd.grad(leaf(1.0).sum(), [])


def test_frees_the_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    autograd.grad(y, x)
    with pytest.raises(errors.GraphFreedError):
        autograd.grad(y, x)


def test_retain_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    autograd.grad(y, x, retain_graph=True)
    assert autograd.grad(y, x)[0].tolist() == [2.0, 4.0]


def test_hessian_row_by_row() -> None:
    x = leaf(1.0, 2.0, 3.0)
    (g,) = autograd.grad((x**3).sum() + x[0] * x[2], x, create_graph=True)
    rows = [autograd.grad(g[i], x, retain_graph=True)[0].tolist() for i in range(3)]
    assert rows == [[6.0, 0.0, 1.0], [0.0, 12.0, 0.0], [1.0, 0.0, 18.0]]


def test_inside_a_transform() -> None:
    def f(x: Any) -> Any:
        (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
        return g.sum()

    np.testing.assert_allclose(jg.grad(f)(np.array([1.0, 2.0])), [6.0, 12.0])


def test_inside_a_transform_without_create_graph_leaves_its_trace_whole() -> None:
    def f(x: Any) -> Any:
        y = (x**3).sum()
        autograd.grad(y, x)
        return y

    np.testing.assert_allclose(jg.grad(f)(np.array([1.0, 2.0])), [3.0, 12.0])


def test_backward_of_several() -> None:
    x = leaf(1.0, 2.0)
    autograd.backward([x.sum(), x * 2], [None, jg.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [3.0, 21.0]


def test_backward_into_inputs() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    autograd.backward((x * w).sum(), inputs=[w])
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]


def test_grad_modes_are_there_too() -> None:
    assert autograd.no_grad is jg.no_grad
    assert autograd.enable_grad is jg.enable_grad
    assert autograd.set_grad_enabled is jg.set_grad_enabled
