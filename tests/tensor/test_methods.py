"""PyTorch's names for what NumPy calls otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


def test_view() -> None:
    a = jg.arange(6.0)
    assert a.view(2, 3).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert a.view((2, -1)).shape == a.view([-1, 3]).shape == (2, 3)
    assert a.view(-1).shape == (6,)
    assert jg.tensor(1.0).view(1, 1).shape == (1, 1)
    assert jg.ones(0).view(0, 3).shape == (0, 3)
    assert a.view_as(jg.ones(3, 2)).shape == (3, 2)


def test_view_shares_memory() -> None:
    a = jg.arange(6.0)
    v = a.view(2, 3)
    v[0, 0] = 9.0
    assert a[0].item() == 9.0
    a.zero_()
    assert v.tolist() == [[0.0] * 3] * 2


def test_view_of_a_transpose_where_strides_allow() -> None:
    a = jg.arange(8.0).view(2, 2, 2)
    assert np.shares_memory(a.swapaxes(0, 1).view(2, 2, 1, 2).numpy(), a.numpy())


def test_view_is_differentiated() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    v = x.view(2, 2)
    (v * jg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ((4, 2), r"^shape '\[4, 2\]' is invalid for input of size 6"),
        ((-1, 4), r"^shape '\[-1, 4\]' is invalid for input of size 6"),
        ((-1, -1), "^only one dimension can be inferred"),
        ((-2, 3), r"^invalid shape dimension -2 at index 0 of shape \[-2, 3\]"),
    ],
)
def test_view_of_another_size(shape: tuple[int, ...], match: str) -> None:
    with pytest.raises(errors.ViewError, match=match):
        jg.arange(6.0).view(*shape)


def test_view_that_needs_a_copy() -> None:
    with pytest.raises(errors.ViewError, match=r"^view size is not compatible .* Use .reshape\(...\) instead."):
        jg.arange(6.0).view(2, 3).T.view(6)


def test_view_of_nothing_is_ambiguous() -> None:
    with pytest.raises(errors.ViewError, match="unspecified dimension size -1 can be any value and is ambiguous"):
        jg.ones(0).view(0, -1)


def test_view_takes_lengths() -> None:
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        jg.ones(2).view()
    with pytest.raises(TypeError):
        jg.ones(2).view(2.0)


def test_counts() -> None:
    a = jg.ones(2, 3)
    assert a.numel() == a.nelement() == a.size == 6
    assert a.dim() == a.ndimension() == a.ndim == 2


def test_clone() -> None:
    x = leaf(1.0, 2.0)
    y = x.clone()
    assert y.requires_grad
    y.mul_(3.0)
    y.sum().backward()
    assert x.tolist() == [1.0, 2.0]
    assert x.grad.tolist() == [3.0, 3.0]
    c = jg.ones(2)
    c.clone().zero_()
    assert c.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "sqrt", "abs", "square", "reciprocal", "floor", "sign"])
def test_functions_are_methods(name: str) -> None:
    values = np.array([0.5, 1.5])
    result = getattr(jg.tensor(values), name)()
    np.testing.assert_allclose(result.numpy(), getattr(np, name)(values), rtol=1e-14)


def test_binary_functions_are_methods() -> None:
    x = leaf(1.0, 2.0)
    assert x.add(1).tolist() == [2.0, 3.0]
    assert x.maximum(1.5).tolist() == [1.5, 2.0]
    assert x.dot(x).item() == 5.0
    assert x.matmul(x).item() == 5.0
