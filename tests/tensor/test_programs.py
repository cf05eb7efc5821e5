"""Whole programs in PyTorch's manner print what PyTorch prints, node addresses aside."""

from __future__ import annotations

import re

import pytest

import jitgrad as jg
from jitgrad.errors import NonLeafGradWarning


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x...", capsys.readouterr().out)


def test_gradients_accumulate(capsys: pytest.CaptureFixture[str]) -> None:
    x = jg.ones(2, 3, requires_grad=True)
    y = x + 2
    z = y * y * 3
    out = z.mean()
    print(x.grad_fn, y.grad_fn, z.grad_fn, out.grad_fn, x.is_leaf, y.is_leaf)
    out.backward()
    print(x.grad)
    out2 = x.sum()
    out2.backward()
    print(x.grad)
    x.grad.data.zero_()
    x.sum().backward()
    print(x.grad)
    assert printed(capsys) == (
        "None <AddBackward0 object at 0x...> <MulBackward0 object at 0x...> <MeanBackward0 object at 0x...> "
        "True False\n"
        "tensor([[3., 3., 3.],\n"
        "        [3., 3., 3.]])\n"
        "tensor([[4., 4., 4.],\n"
        "        [4., 4., 4.]])\n"
        "tensor([[1., 1., 1.],\n"
        "        [1., 1., 1.]])\n"
    )


def test_backward_with_a_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    x = jg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    z = (2 * x).view(2, 2)
    z.backward(jg.tensor([[1.0, 1.0], [0.01, 1.0]]))
    print(z)
    print(x.grad)
    assert printed(capsys) == (
        "tensor([[2., 4.],\n        [6., 8.]], grad_fn=<ViewBackward0>)\ntensor([2.0000, 2.0000, 0.0200, 2.0000])\n"
    )


def test_grad_of_what_is_no_leaf(capsys: pytest.CaptureFixture[str]) -> None:
    x = jg.tensor(3.0, requires_grad=True)
    y = 2 * x
    z = y**2
    f = z + 2
    f.backward()
    with pytest.warns(NonLeafGradWarning, match="not a leaf Tensor is being accessed") as seen:
        print(x.grad, y.grad, z.grad)
    assert len(seen) == 2
    assert printed(capsys) == "tensor(24.) None None\n"


def test_dot(capsys: pytest.CaptureFixture[str]) -> None:
    x = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = jg.tensor([4.0, 5.0, 6.0], requires_grad=True)
    (jg.dot(x, w) + 10).backward()
    print(x.grad, w.grad)
    assert printed(capsys) == "tensor([4., 5., 6.]) tensor([1., 2., 3.])\n"


def test_requires_grad_set_later(capsys: pytest.CaptureFixture[str]) -> None:
    a = jg.ones(2, 3)
    a = (a * 3) / (a - 1)
    a.requires_grad_(True)
    print(a.requires_grad, a.grad_fn)
    assert printed(capsys) == "True None\n"


def test_gradient_descent_on_a_line() -> None:
    x = jg.linspace(0, 1, 20)
    target = 3.0 * x - 1.0
    w = jg.zeros(1, requires_grad=True)
    b = jg.zeros(1, requires_grad=True)
    for _ in range(400):
        loss = ((w * x + b - target) ** 2).mean()
        loss.backward()
        with jg.no_grad():
            for parameter in (w, b):
                parameter -= 0.5 * parameter.grad
                parameter.grad.zero_()
    assert abs(w.item() - 3.0) < 1e-4
    assert abs(b.item() + 1.0) < 1e-4
    assert w.is_leaf
    assert w.requires_grad
