"""`requires_grad`, `is_leaf`, `grad`, `detach`, `data`: what a tensor knows of itself, as in PyTorch 2.13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


# -- requires_grad --------------------------------------------------------------------------------------------


def test_requires_grad_spreads() -> None:
    x, c = leaf(1.0, 2.0), jg.ones(2)
    assert x.requires_grad
    assert not c.requires_grad
    assert (x * c).requires_grad
    assert not (c * c).requires_grad


def test_requires_grad_is_set() -> None:
    c = jg.ones(2)
    assert c.requires_grad_() is c
    assert c.requires_grad
    (c * 2).sum().backward()
    assert c.grad.tolist() == [2.0, 2.0]
    c.requires_grad = False
    assert not c.requires_grad
    assert not (c * 2).requires_grad


def test_requires_grad_of_a_computed_constant() -> None:
    a = jg.ones(2) * 3
    a.requires_grad_()
    (a * a).sum().backward()
    assert a.grad.tolist() == [6.0, 6.0]


def test_requires_grad_of_integers() -> None:
    with pytest.raises(errors.RequiresGradDtypeError, match="only Tensors of floating point and complex dtype"):
        jg.arange(3).requires_grad_()


def test_requires_grad_of_what_is_no_leaf() -> None:
    y = leaf(1.0) * 2
    assert y.requires_grad_() is y
    with pytest.raises(errors.NonLeafError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = False
    assert y.requires_grad


def test_requires_grad_is_a_bool() -> None:
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        jg.ones(2).requires_grad = 1


def test_is_leaf() -> None:
    x, c = leaf(1.0), jg.ones(1)
    assert x.is_leaf
    assert c.is_leaf
    assert (c * 2).is_leaf
    assert not (x * 2).is_leaf
    x.sum()
    assert x.is_leaf
    with jg.no_grad():
        assert (x * 2).is_leaf


# -- grad -----------------------------------------------------------------------------------------------------


def test_grad_is_none_at_first() -> None:
    assert leaf(1.0).grad is None
    assert jg.ones(1).grad is None


def test_grad_of_what_is_no_leaf_warns() -> None:
    y = leaf(1.0) * 2
    with pytest.warns(errors.NonLeafGradWarning, match="MulBackward0"):
        assert y.grad is None


def test_grad_of_what_retains_it_does_not_warn() -> None:
    y = leaf(1.0) * 2
    y.retain_grad()
    assert y.grad is None


def test_grad_is_assigned() -> None:
    x = leaf(1.0, 2.0)
    g = jg.tensor([3.0, 4.0])
    x.grad = g
    assert x.grad is g
    x.sum().backward()
    assert g.tolist() == [4.0, 5.0]
    x.grad = None
    assert x.grad is None
    x.grad = g
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize(
    ("grad", "error", "match"),
    [
        (5, TypeError, "assigned grad expected to be a Tensor or None but got grad of type int"),
        (np.ones(2), TypeError, "but got grad of type numpy.ndarray"),
        (jg.ones(3), errors.GradientShapeError, r"attempting to assign a gradient of size '\[3\]'"),
        (jg.ones(2, dtype=np.float32), errors.GradientDtypeError, "a gradient with dtype 'float32' to a tensor with"),
    ],
)
def test_grad_that_does_not_fit(grad: Any, error: type[Exception], match: str) -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(error, match=match):
        x.grad = grad


def test_grad_is_not_the_tensor_itself() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


def test_retain_grad() -> None:
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(errors.NoGraphError, match="can't retain_grad on Tensor that has requires_grad=False"):
        jg.ones(2).retain_grad()


def test_retain_grad_inside_a_transform() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        return y

    with pytest.raises(errors.NoGraphError):
        jg.grad(f)(1.0)


# -- the data alone -------------------------------------------------------------------------------------------


def test_detach() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad
    assert d.is_leaf
    assert d.grad_fn is None
    assert d.numpy() is y._value
    (y * d).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_detach_shares_memory_and_versions_of_a_leaf() -> None:
    x = leaf(1.0, 2.0)
    d = x.detach()
    d.zero_()
    assert x.tolist() == [0.0, 0.0]
    assert x._version == d._version == 1


def test_detached_leaf_that_is_written_to_counts_as_new() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    x.detach().copy_(jg.tensor([5.0, 6.0]))
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [10.0, 12.0]


def test_residual_that_is_written_to_through_detach() -> None:
    y = leaf(1.0, 2.0) * 2
    z = y * y
    y.detach().zero_()
    with pytest.raises(errors.InplaceError, match="which is output 0 of MulBackward0, is at version 1; expected"):
        z.sum().backward()


def test_result_that_was_written_to_through_detach_counts_as_new() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.detach().fill_(10.0)
    (y * y).sum().backward()
    assert x.grad.tolist() == [40.0, 40.0]


def test_residual_that_is_written_to_through_a_detached_view() -> None:
    y = leaf(1.0, 2.0, 3.0) * 2
    z = y * y
    y[:1].detach().zero_()
    with pytest.raises(errors.InplaceError):
        z.sum().backward()


def test_detach_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    assert y.detach_() is y
    assert not y.requires_grad
    assert y.is_leaf
    x.detach_()
    assert not x.requires_grad


def test_data_goes_unnoticed() -> None:
    x = leaf(1.0, 2.0)
    z = (x * x).sum()
    x.data.zero_()
    assert x.tolist() == [0.0, 0.0]
    z.backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_data_is_assigned() -> None:
    x = leaf(1.0, 2.0)
    x.sum().backward()
    x.grad = None
    x.data = jg.ones(3)
    assert x.requires_grad
    assert x.shape == (3,)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_data_that_does_not_fit() -> None:
    with pytest.raises(TypeError, match=r"Variable data has to be a tensor, but got numpy\.ndarray"):
        jg.ones(1).data = np.ones(1)
    with pytest.raises(errors.RequiresGradDtypeError, match="data set to a tensor that requires gradients must be"):
        leaf(1.0).data = jg.arange(1)
    with pytest.raises(errors.NonLeafError, match="not a leaf cannot be replaced"):
        (leaf(1.0) * 2).data = jg.ones(1)


def test_optimizer_step_through_data() -> None:
    w = leaf(1.0, 2.0)
    for _ in range(3):
        (w * w).sum().backward()
        w.data -= 0.25 * w.grad.data
        w.grad.data.zero_()
    assert w.tolist() == [0.125, 0.25]
