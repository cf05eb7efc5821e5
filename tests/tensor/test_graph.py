"""`grad_fn`: names, what leads where, and that nodes hold their places."""

from __future__ import annotations

import gc
import operator
import re
import weakref
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors
from jitgrad.core import trace


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (lambda x: x + 2, "AddBackward0"),
        (lambda x: x - 2, "SubBackward0"),
        (lambda x: x * 2, "MulBackward0"),
        (lambda x: x / 2, "DivBackward0"),
        (lambda x: -x, "NegBackward0"),
        (lambda x: x**2, "PowBackward0"),
        (lambda x: x.exp(), "ExpBackward0"),
        (lambda x: x.sum(), "SumBackward0"),
        (lambda x: x.mean(), "MeanBackward0"),
        (lambda x: x.view(1, 2), "ViewBackward0"),
        (lambda x: x.reshape(1, 2), "ViewBackward0"),
        (lambda x: x[0], "SelectBackward0"),
        (lambda x: x.clone(), "CloneBackward0"),
        (lambda x: jg.stack([x, x]), "StackBackward0"),
        (lambda x: abs(x), "AbsBackward0"),
        (lambda x: jg.tanh(x), "TanhBackward0"),
    ],
)
def test_names_are_pytorchs(compute: Any, name: str) -> None:
    y = compute(leaf(1.0, 2.0))
    assert y.grad_fn.name() == name
    assert re.fullmatch(rf"<{name} object at 0x[0-9a-f]+>", repr(y.grad_fn))
    assert repr(y).endswith(f"grad_fn=<{name}>)")


@pytest.mark.parametrize(
    ("x", "y", "name"),
    [
        ((3,), (3,), "DotBackward0"),
        ((2, 3), (3,), "MvBackward0"),
        ((2, 3), (3, 4), "MmBackward0"),
        ((3,), (3, 4), "MmBackward0"),
        ((5, 2, 3), (3, 4), "BmmBackward0"),
        ((5, 2, 3), (5, 3, 4), "BmmBackward0"),
        ((2, 3), (5, 3, 4), "BmmBackward0"),
        ((5, 2, 3), (3,), "BmmBackward0"),
    ],
)
@pytest.mark.parametrize("product", [operator.matmul, np.matmul])
@pytest.mark.parametrize("recorded", [(True, True), (True, False), (False, True)])
def test_products_are_named_by_their_factors_axes(
    product: Any, x: tuple[int, ...], y: tuple[int, ...], name: str, recorded: tuple[bool, bool]
) -> None:
    left, right = jg.ones(x, requires_grad=recorded[0]), jg.ones(y, requires_grad=recorded[1])
    out: Any = product(left, right)
    assert out.grad_fn.name() == name
    assert [following is None for following, _ in out.grad_fn.next_functions] == [not flag for flag in recorded]
    out.sum().backward()
    assert out.grad_fn.name() == name


def test_methods_and_errors_name_products_too() -> None:
    x = leaf(1.0, 2.0)
    out = x.dot(x)
    assert repr(out).endswith("grad_fn=<DotBackward0>)")
    out.backward()
    with pytest.raises(errors.GraphFreedError, match="DotBackward0"):
        out.backward()
    b = jg.ones(2)
    late = (jg.ones(2, 2, requires_grad=True) @ b).sum()
    b += 1
    with pytest.raises(errors.InplaceError, match="MvBackward0"):
        late.backward()


def test_leaves_and_constants_have_none() -> None:
    x = leaf(1.0)
    x.sum()
    assert x.grad_fn is None
    assert jg.ones(1).grad_fn is None
    with jg.no_grad():
        assert (x * 2).grad_fn is None


def test_identity() -> None:
    y = leaf(1.0, 2.0) * 2
    assert y.grad_fn is y.grad_fn
    node = y.grad_fn
    z = y + 1
    assert z.grad_fn.next_functions[0][0] is node
    assert z.grad_fn != node


def test_next_functions() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = (x * w) + 2
    (mul, place), constant = z.grad_fn.next_functions
    assert (mul.name(), place) == ("MulBackward0", 0)
    assert constant == (None, 0)
    (first, _), (second, _) = mul.next_functions
    assert (first.name(), second.name()) == ("AccumulateGrad", "AccumulateGrad")
    assert first.variable is x
    assert second.variable is w
    assert first.next_functions == ()
    assert first is mul.next_functions[0][0]
    assert re.fullmatch(r"<AccumulateGrad object at 0x[0-9a-f]+>", repr(first))


def test_kept_constants_lead_nowhere() -> None:
    y = leaf(1.0, 2.0) * jg.tensor([3.0, 4.0])
    assert y.grad_fn.next_functions[1] == (None, 0)


def test_leaf_is_the_same_from_two_graphs() -> None:
    x = leaf(1.0)
    a, b = x * 2, x * 3
    node = a.grad_fn.next_functions[0][0]
    assert b.grad_fn.next_functions[0][0] is node


def test_walk_over_a_graph() -> None:
    x = leaf(1.0, 2.0)
    y = (jg.tanh(x) * x).sum()
    names, waiting = [], [y.grad_fn]
    while waiting:
        node = waiting.pop()
        names.append(node.name())
        waiting.extend(following for following, _ in node.next_functions if following is not None)
    assert sorted(names) == ["AccumulateGrad", "AccumulateGrad", "MulBackward0", "SumBackward0", "TanhBackward0"]


def test_node_keeps_the_graph_when_the_tape_is_compacted() -> None:
    x = leaf(1.0, 2.0)
    y = jg.tanh(x) * x
    node = y.grad_fn
    del y
    for _ in range(3):
        x * 2
    trace.imperative_tape().compact()
    assert node.name() == "MulBackward0"
    assert [following.name() for following, _ in node.next_functions] == ["TanhBackward0", "AccumulateGrad"]


def test_graph_is_dropped_with_the_last_node() -> None:
    trace.imperative_tape().compact()
    before = len(trace.imperative_tape())
    x = leaf(1.0, 2.0)
    node = (jg.tanh(x) * x).grad_fn
    alive = weakref.ref(node)
    del node
    gc.collect()
    assert alive() is None
    trace.imperative_tape().compact()
    assert len(trace.imperative_tape()) == before


def test_writes_in_place_show_as_what_they_are() -> None:
    y = leaf(1.0, 2.0) * 2
    node = y.grad_fn
    y += 1
    assert y.grad_fn.name() == "AddBackward0"
    assert y.grad_fn.next_functions[0][0] is node


def test_unrecorded_write_in_place_leaves_the_node() -> None:
    y = leaf(1.0, 2.0) * 2
    node = y.grad_fn
    with jg.no_grad():
        y.zero_()
    assert y.grad_fn is node
    assert y.tolist() == [0.0, 0.0]


def test_inside_a_transform() -> None:
    seen = []

    def f(x: Any) -> Any:
        y = x * x
        seen.append((x.grad_fn, y.grad_fn.name(), y.grad_fn.next_functions[0], repr(y)))
        return y.sum()

    jg.grad(f)(np.array([1.0, 2.0]))
    assert seen == [(None, "MulBackward0", (None, 0), "tensor([1., 4.], grad_fn=<MulBackward0>)")]
