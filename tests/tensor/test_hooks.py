"""`register_hook`: what hooks see and what they change, as in PyTorch 2.13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


@pytest.mark.parametrize("size", [2, 5000])
def test_hook_changes_what_flows_on(size: int) -> None:
    x = jg.ones(size, requires_grad=True)
    y = x * 2
    y.retain_grad()
    seen: list[Any] = []
    y.register_hook(lambda g: g * 10)
    x.register_hook(seen.append)
    y.sum().backward()
    assert (y.grad.numpy() == 10.0).all()
    assert (x.grad.numpy() == 20.0).all()
    assert len(seen) == 1
    assert (seen[0].numpy() == 20.0).all()


def test_hook_sees_the_sum_of_all_uses() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y.sum() + (y * y).sum() + y[0]).backward()
    assert seen == [[6.0, 9.0]]


def test_hooks_run_in_the_order_in_which_they_were_registered() -> None:
    x = leaf(1.0)
    y = x * 1
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 0.5)
    x.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert x.grad.tolist() == [41.0]


def test_hook_of_the_output_itself() -> None:
    x = leaf(3.0)
    y = (x * 2).sum()
    y.register_hook(lambda g: g * 5)
    y.backward()
    assert x.grad.tolist() == [10.0]


def test_hook_is_removed() -> None:
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 10)
    x.sum().backward()
    handle.remove()
    handle.remove()
    x.sum().backward()
    with x.register_hook(lambda g: g * 10):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [22.0]


def test_hook_outlives_its_tensor() -> None:
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    z = y.sum()
    del y
    z.backward()
    assert x.grad.tolist() == [20.0]


def test_hook_on_a_constant() -> None:
    with pytest.raises(errors.NoGraphError, match="cannot register a hook on a tensor that doesn't require gradient"):
        jg.ones(2).register_hook(print)


def test_hook_that_changes_the_shape() -> None:
    def wide(g: Any) -> Any:
        return jg.ones(3)

    y = leaf(1.0, 2.0) * 2
    y.register_hook(wide)
    with pytest.raises(errors.GradientShapeError, match="hook 'wide' has changed the size of value"):
        y.sum().backward()


def test_hook_that_returns_no_tensor() -> None:
    y = leaf(1.0, 2.0) * 2
    y.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="expected Variable, but hook returned 'int'"):
        y.sum().backward()


def test_hook_that_raises_leaves_nothing_behind() -> None:
    x = leaf(1.0, 2.0)
    y = x * x

    def fail(g: Any) -> None:
        raise ZeroDivisionError

    handle = y.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_hook_runs_unrecorded() -> None:
    x = leaf(1.0, 2.0)
    recorded = []
    x.register_hook(lambda g: recorded.append((jg.is_grad_enabled(), g.requires_grad, (x * g).requires_grad)))
    x.sum().backward()
    assert recorded == [(False, False, False)]


def test_hook_with_create_graph_is_recorded() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    handle = y.register_hook(lambda g: g * y)
    (g,) = jg.autograd.grad((y * y).sum(), x, create_graph=True)
    assert g.tolist() == [2.0, 8.0]
    (h,) = jg.autograd.grad(g.sum(), x)
    # the second replay meets the hook again: d(2 y**2) = 4 y, times y
    assert h.tolist() == [4.0, 16.0]
    handle.remove()  # it refers to its own tensor


def test_hook_changes_what_autograd_grad_returns() -> None:
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g * 3)
    assert jg.autograd.grad(x.sum(), x)[0].tolist() == [3.0, 3.0]


def test_gradient_that_a_hook_has_kept_does_not_change() -> None:
    x = leaf(1.0, 2.0)
    kept: list[Any] = []
    x.register_hook(kept.append)
    x.sum().backward()
    x.sum().backward()
    assert kept[0].tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 2.0]


def test_hook_that_returns_what_it_keeps() -> None:
    mine = jg.tensor([5.0, 6.0])
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: mine)
    x.sum().backward()
    x.sum().backward()
    assert mine.tolist() == [5.0, 6.0]
    assert x.grad.tolist() == [10.0, 12.0]


def test_gradients_are_not_asked_for_inside_a_hook() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2

    @jg.enable_grad()
    def ask(g: Any) -> None:
        (x * x).sum().backward()

    y.register_hook(ask)
    with pytest.raises(RuntimeError, match="inside of a hook"):
        y.sum().backward()


def test_hooks_stay_with_their_values_when_the_tape_is_compacted() -> None:
    from jitgrad.core import trace

    x = leaf(1.0)
    for _ in range(5):
        x * 2
    y = x * 3
    y.register_hook(lambda g: g * 10)
    z = y * 2
    trace.imperative_tape().compact()
    z.sum().backward()
    assert x.grad.tolist() == [60.0]


def test_clipping() -> None:
    x = leaf(3.0, 4.0)
    x.register_hook(lambda g: g / max(1.0, float(np.linalg.norm(g.numpy()))))
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8])
