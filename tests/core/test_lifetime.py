"""How long tapes keep what: bounded memory without `backward()`, nothing left after it, no dead graph kept alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors
from jitgrad.core import trace
from jitgrad.core.references import holders
from jitgrad.core.tape import Tape
from jitgrad.kernels.layout import SMALL


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    """A new tape for this thread."""
    monkeypatch.setattr(trace._thread, "tape", Tape(tracks_handles=True))
    return trace.imperative_tape()


def leaf(*shape: int) -> Any:
    return jg.ones(*shape, requires_grad=True)


def kept_bytes(tape: Tape) -> int:
    return sum(array.nbytes for array in tape.kept.values())


# -- evaluation without backward ------------------------------------------------------------------------------


def test_small_evaluations_are_bounded(tape: Tape) -> None:
    w = leaf(10)
    longest = most_inputs = 0
    for _ in range(20_000):
        loss = (jg.tanh(w * 2.0) * w).sum()
        longest = max(longest, len(tape))
        most_inputs = max(most_inputs, len(tape.inputs))
    assert loss.requires_grad
    assert longest <= 1024
    assert most_inputs <= 2
    assert tape.count <= 2048
    assert len(tape.handles or ()) <= 2048
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), np.tanh(2.0) + 2 * (1 - np.tanh(2.0) ** 2))


def test_large_evaluations_are_bounded_in_bytes(tape: Tape) -> None:
    w = leaf(100_000)
    most = 0
    for _ in range(300):
        loss = (jg.tanh(w * 2.0) * w).sum()
        most = max(most, kept_bytes(tape))
    assert loss.requires_grad
    assert most < 160 << 20


def test_evaluations_on_new_data_are_bounded(tape: Tape) -> None:
    w = leaf(10)
    references = []
    for _ in range(3000):
        data = jg.full((10,), 2.0)
        references.append(weakref.ref(data._value))
        (w * data).sum()
        del data
    tape.compact()
    assert sum(reference() is not None for reference in references) == 0
    assert len(tape) <= 2


def test_leaves_that_come_and_go(tape: Tape) -> None:
    references = []
    for _ in range(3000):
        x = leaf(5)
        references.append(weakref.ref(x))
        (x * x).sum()
        del x
    assert sum(reference() is not None for reference in references) < 1000
    tape.compact()
    assert sum(reference() is not None for reference in references) == 0


def test_long_graph_that_lives_is_kept(tape: Tape) -> None:
    x = leaf(3)
    y = x
    for _ in range(2000):
        y = y * 1.001
    for _ in range(2000):
        x * 2.0  # dead at once
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1.001**2000)


def test_results_that_are_held_are_kept(tape: Tape) -> None:
    x = leaf(3)
    held = []
    for k in range(1000):
        y = jg.tanh(x * float(k))
        if k % 10 == 0:
            held.append(y)
    for y in held:
        (g,) = jg.autograd.grad(y.sum(), x)
        assert g.shape == (3,)
    held.clear()
    del y
    tape.compact()
    assert len(tape) == 0


@pytest.mark.parametrize("n_leaves", [3, 100, 400])
def test_many_leaves_in_few_operations(tape: Tape, n_leaves: int) -> None:
    leaves = [leaf(2) for _ in range(n_leaves)]
    held = []
    for k in range(200):
        stacked = jg.stack(leaves)
        if k % 50 == 0:
            held.append(stacked.sum())
    for total in held:
        total.backward()
    assert all(x.grad.tolist() == [4.0, 4.0] for x in leaves)


def test_storage_does_not_grow_without_end(tape: Tape) -> None:
    before = len(tape._rows)
    w = leaf(300_000)  # compacted for its bytes, long before the rows are full
    for _ in range(200):
        (w * 2.0 + 1.0) * w
    assert len(tape._rows) == before


# -- after backward -------------------------------------------------------------------------------------------


def test_residuals_are_gone_at_once(tape: Tape) -> None:
    x = leaf(5000)
    y = jg.tanh(x)
    z = (y * y).sum()
    residual = weakref.ref(y._value)
    del y
    assert residual() is not None
    z.backward()
    assert residual() is None
    assert kept_bytes(tape) == 0


@pytest.mark.parametrize("size", [10, 5000])
def test_nothing_is_kept_after_backward(tape: Tape, size: int) -> None:
    x, w = leaf(size), leaf(size)
    for _ in range(3):
        loss = (jg.tanh(x * w) + jg.exp(x) * w).sum()
        loss.backward()
        assert not tape.kept
    assert x.grad.shape == (size,)


def test_intermediate_residuals_go_while_the_replay_runs(tape: Tape) -> None:
    x = leaf(2 * SMALL)
    first = jg.tanh(x)
    residual = weakref.ref((first * first)._value)  # not kept by anything
    assert residual() is None
    alive = []
    last = jg.exp(first)
    gone = weakref.ref(last._value)
    first.register_hook(lambda g: alive.append(gone() is not None))
    z = last.sum()
    del last
    z.backward()
    assert alive == [False]


def test_retained_graph_goes_with_its_last_tensor(tape: Tape) -> None:
    x = leaf(2 * SMALL)
    z = jg.tanh(x).sum()
    z.backward(retain_graph=True)
    assert kept_bytes(tape) > 0
    del z
    tape.compact()
    assert kept_bytes(tape) == 0


def test_exception_in_backward_leaves_nothing_behind(tape: Tape) -> None:
    x, w = leaf(5000), leaf(5000)
    y = x * x
    y.sum().backward()
    z = (y * jg.tanh(w)).sum()
    with pytest.raises(errors.GraphFreedError):
        z.backward()
    del y, z
    tape.compact()
    assert (len(tape), len(tape.kept)) == (0, 0)
    x.grad = None
    (x * 3.0).sum().backward()
    assert (x.grad.numpy() == 3.0).all()


def test_exception_in_the_users_function_leaves_nothing_behind(tape: Tape) -> None:
    x = leaf(3)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            jg.grad(lambda v: (v * v / (1 // 0)).sum())(x)
        with pytest.raises(ZeroDivisionError):
            jg.grad(lambda v: 1 // 0)(np.ones(3))
    assert trace.current_trace() is None
    assert jg.is_grad_enabled()
    assert not tape.locked
    gc.collect()
    tape.compact()
    assert len(tape) == 0


# -- gradients with a graph -----------------------------------------------------------------------------------


def test_gradient_with_a_graph_does_not_keep_itself_alive(tape: Tape) -> None:
    # x holds its gradient, whose graph holds x
    references = []
    for _ in range(20):
        x = leaf(3)
        references.append(weakref.ref(x))
        (x * x * x).sum().backward(create_graph=True)
        del x
    tape.compact()
    assert [reference() for reference in references] == [None] * 20
    assert len(tape) == 0


def test_gradient_with_a_graph_lives_with_its_leaf(tape: Tape) -> None:
    x, y = leaf(3), leaf(3)
    (x * y * y).sum().backward(create_graph=True)
    tape.compact()
    del y
    tape.compact()
    # x.grad = y**2, whose graph leads to y, which nobody else has; y's own gradient stays with it
    (node,) = {node for node, _ in x.grad.grad_fn.next_functions if node is not None}
    leaves = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.name() == "AccumulateGrad":
            leaves.add(node.variable)
        waiting.extend(following for following, _ in node.next_functions if following is not None)
    del node
    (y,) = leaves - {x}
    tape.compact()
    assert jg.autograd.grad(x.grad.sum(), y, retain_graph=True)[0].tolist() == [2.0, 2.0, 2.0]
    (g,) = jg.autograd.grad(y.grad.sum(), x)
    assert g.tolist() == [2.0, 2.0, 2.0]


def test_gradient_with_a_graph_that_is_held_elsewhere(tape: Tape) -> None:
    x = leaf(3)
    (x * x * x).sum().backward(create_graph=True)
    g = x.grad
    del x
    tape.compact()
    for _ in range(3000):
        leaf(2) * 2.0
    g.sum().backward()
    assert g.tolist() == [9.0, 9.0, 9.0]  # it is still the leaf's gradient, to which 6 x was added in place


# -- renumbering ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compact", [False, True])
def test_leaf_with_an_old_and_a_new_value(tape: Tape, compact: bool) -> None:
    x = leaf(3)
    old = (x * 2.0).sum()
    with jg.no_grad():
        x.add_(1)
    if compact:
        tape.compact()
    new = (x * x).sum()
    if compact:
        tape.compact()
    new.backward()
    old.backward()
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def test_stale_values_are_known_after_compaction(tape: Tape) -> None:
    x = leaf(3)
    x * 5.0
    z = (x * x).sum()
    with jg.no_grad():
        x.add_(1)
    tape.compact()
    with pytest.raises(errors.InplaceError):
        z.backward()


def test_freed_rows_stay_freed(tape: Tape) -> None:
    x = leaf(3)
    x * 5.0
    z = (x * x).sum()
    z.backward()
    tape.compact()
    with pytest.raises(errors.GraphFreedError):
        z.backward()


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, w: jg.tanh(x * w) + 2.0,
        lambda x, w: (x[1:] * w[:-1]).sum(),
        lambda x, w: jg.stack([x, w, x * w]).sum(axis=0),
        lambda x, w: (x.reshape(2, 2) @ w.reshape(2, 2)).T,
        lambda x, w: jg.concatenate([x, w]).mean() * x,
        lambda x, w: (x + jg.ones(3, 4)) * w.sum(),
    ],
)
def test_compaction_at_any_time_changes_nothing(tape: Tape, compute: Callable[[Any, Any], Any]) -> None:
    values = np.linspace(0.1, 1.0, 4), np.linspace(1.0, 2.0, 4)

    def gradients(compacting: bool) -> list[Any]:
        x, w = (jg.tensor(value, requires_grad=True) for value in values)
        for _ in range(3):
            jg.tanh(x) * w
        y = compute(x, w)
        if compacting:
            tape.compact()
        z = (y * y).sum() + (x * 3.0).sum()
        del y
        if compacting:
            tape.compact()
        first = jg.autograd.grad(z, [x, w], create_graph=True)
        if compacting:
            tape.compact()
        second = jg.autograd.grad(first[0].sum() + first[1].sum(), [x, w], materialize_grads=True)
        return [g.tolist() for g in (*first, *second)]

    assert gradients(True) == gradients(False)


def test_locations_survive_compaction(tape: Tape) -> None:
    x = leaf(3)
    x * 5.0
    y = jg.tanh(x)
    tape.compact()
    location = tape.location(tape.producer(y._vid))
    assert location.file.endswith("test_lifetime.py")
    assert location.function == "test_locations_survive_compaction"


def test_code_of_a_function_that_is_gone_is_held_by_the_tape(tape: Tape) -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    return x * 2.0\n", namespace)
    y = namespace.pop("f")(leaf(3))
    gc.collect()
    tape.compact()
    assert tape.location(tape.producer(y._vid)).function == "f"


def test_compaction_waits_for_transforms(tape: Tape) -> None:
    x = leaf(3)

    def f(v: Any) -> Any:
        for _ in range(3000):
            v * 2.0
        return (v * v * v).sum()

    g = jg.grad(f)(x)
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def _gradient_of_a_gradient(x: Any) -> None:
    (first,) = jg.autograd.grad((x * x).sum(), x, create_graph=True)
    first.sum().backward()


def _pullback(x: Any) -> Callable[[Any], Any]:
    _, pullback = jg.vjp(lambda v: v * v, x)
    return lambda _: pullback(np.ones(3))


@pytest.mark.parametrize("extra", range(4))  # where in an iteration the storage is full
@pytest.mark.parametrize("size", [3, SMALL + 1])
@pytest.mark.parametrize(
    "iterate",
    [
        _gradient_of_a_gradient,
        jg.grad(lambda v: (v * v * v).sum()),
        lambda x: jg.jvp(lambda v: v * v * v, (x,), (np.ones(x.shape),)),
        lambda x: jg.hvp(lambda v: (v * v * v).sum(), (x,), (np.ones(x.shape),)),
    ],
)
def test_what_is_recorded_while_the_tape_is_locked_is_bounded(
    tape: Tape, iterate: Callable[[Any], Any], size: int, extra: int
) -> None:
    x = leaf(size)
    rows = []
    kept = [x * 2.0 for _ in range(extra)]
    for _ in range(1500 if size == 3 else 300):
        iterate(x)
        rows.append(len(tape))
    assert max(rows) < 1024
    assert len(tape._rows) == 1024
    assert kept_bytes(tape) < 192 << 20
    assert len(kept) == extra


def test_calls_of_a_pullback_are_bounded(tape: Tape) -> None:
    x = leaf(3)
    call = _pullback(x)
    for _ in range(1000):
        (bar,) = call(x)
        assert len(tape) < 1024
    assert bar.tolist() == [2.0, 2.0, 2.0]


def test_interrupts_of_compaction(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Tape._publish
    arrived = []

    def interrupted(self: Tape) -> None:
        if not arrived:
            arrived.append(True)
            raise KeyboardInterrupt
        publish(self)

    x = leaf(3)
    rubbish = jg.tanh(x) * 2.0
    y = jg.exp(x)
    z = (y * y * x).sum()
    del rubbish
    monkeypatch.setattr(Tape, "_publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tape.compact()
    assert len(tape) == 4
    (z + (y * 3.0).sum()).backward()  # 2 x exp(2 x) + exp(2 x) + 3 exp(x)
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 3 * np.exp(2.0) + 3 * np.exp(1.0)))


@pytest.mark.parametrize("dropped", [False, True])
def test_pullbacks_survive_compaction(tape: Tape, dropped: bool) -> None:
    x = leaf(3)
    rubbish = jg.tanh(x) * 2.0
    y = x * 2.0
    out, pullback = jg.vjp(lambda c, v: c * v * v, np.full(3, 5.0), y)
    if dropped:
        del out
    del rubbish
    tape.compact()
    _, bar = pullback(np.ones(3))
    assert bar.tolist() == [20.0, 20.0, 20.0]
    bar.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0, 20.0]


def test_holders() -> None:
    thing = object()
    assert holders(thing) == 1
    others = [thing, thing]
    assert holders(thing) == 3
    del others
    assert holders(thing) == 1
