"""Threads: each records on a tape of its own; results may be passed on, and gradients find their way back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors
from jitgrad.core import trace


def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in another thread, and return what it returns or raise what it raises."""
    results: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


def test_threads_have_tapes_of_their_own() -> None:
    mine = trace.imperative_tape()
    assert mine is trace.imperative_tape()
    assert in_thread(trace.imperative_tape) is not mine


def test_contexts_that_are_copied_into_threads_have_too() -> None:
    mine = trace.imperative_tape()

    async def main() -> Any:
        return await asyncio.to_thread(trace.imperative_tape)

    assert asyncio.run(main()) is not mine


def test_result_of_another_thread() -> None:
    x = leaf(1.0, 2.0)
    y = in_thread(lambda: x * x)
    z = (y * 3).sum()
    z.backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_backward_in_another_thread() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    in_thread(y.backward)
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("size", [2, 5000])
def test_there_and_back(size: int) -> None:
    x = jg.ones(size, requires_grad=True)
    a = jg.tanh(x)
    b = in_thread(lambda: a * a + x)
    c = (b * a).sum()  # = a**3 + x a
    c.backward()
    a_value = np.tanh(1.0)
    slope = 1 - a_value**2
    np.testing.assert_allclose(x.grad.numpy(), 3 * a_value**2 * slope + a_value + slope)


def test_freed_across_threads() -> None:
    x = leaf(1.0, 2.0)
    y = in_thread(lambda: x * x)
    z = (y * y).sum()
    z.backward()
    with pytest.raises(errors.GraphFreedError):
        z.backward()
    with pytest.raises(errors.GraphFreedError):
        y.sum().backward()


def test_retained_across_threads() -> None:
    x = leaf(1.0, 2.0)
    y = in_thread(lambda: x * x)
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [8.0, 64.0]


def test_second_derivative_across_threads() -> None:
    x = leaf(1.0, 2.0)
    y = in_thread(lambda: x * x * x)
    (g,) = jg.autograd.grad((y * x).sum(), x, create_graph=True)
    (h,) = jg.autograd.grad(g.sum(), x)
    assert g.tolist() == [4.0, 32.0]
    assert h.tolist() == [12.0, 48.0]


def test_autograd_grad_by_a_result_of_another_thread() -> None:
    x = leaf(1.0, 2.0)
    y = in_thread(lambda: x * 3)
    z = (y * y).sum()
    g, h = jg.autograd.grad(z, [y, x])
    assert g.tolist() == [6.0, 12.0]
    assert h.tolist() == [18.0, 36.0]


def test_graph_of_a_result_of_another_thread() -> None:
    x = leaf(1.0)
    y = in_thread(lambda: x * x)
    z = y + 1
    assert z.grad_fn.next_functions[0][0] is y.grad_fn


def test_result_of_another_thread_outlives_compaction_there() -> None:
    x = leaf(1.0, 2.0)

    def other() -> Any:
        for _ in range(5):
            x * 5
        return x * x, trace.imperative_tape()

    y, tape = in_thread(other)
    z = y + 1
    del y
    tape.compact()
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_result_that_is_written_to_after_another_thread_has_used_it() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    z = in_thread(lambda: (y * y).sum())
    y += 1
    z.backward()
    assert x.grad.tolist() == [8.0, 16.0]


def test_leaf_written_to_by_another_thread() -> None:
    x = leaf(1.0, 2.0)
    z = (x * x).sum()

    @jg.no_grad()
    def write() -> None:
        x.add_(1)

    in_thread(write)
    with pytest.raises(errors.InplaceError):
        z.backward()


def test_many_threads_with_one_leaf() -> None:
    x = leaf(*np.linspace(0.1, 1.0, 10))
    n_threads, n_steps = 4, 50
    sums: list[Any] = [None] * n_threads
    start = threading.Barrier(n_threads)

    def work(k: int) -> None:
        start.wait()
        total = np.zeros(10)
        for _ in range(n_steps):
            (g,) = jg.autograd.grad((jg.tanh(x * float(k + 1)) * x).sum(), x)
            total += g.numpy()
        sums[k] = total

    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    v = x.detach().numpy()
    for k in range(n_threads):
        t = np.tanh(v * (k + 1))
        np.testing.assert_allclose(sums[k], n_steps * (t + v * (k + 1) * (1 - t * t)), rtol=1e-12)


def test_threads_pass_results_to_each_other_while_all_go_on_recording() -> None:
    x = leaf(*np.linspace(0.1, 1.0, 10))
    n_threads = 4
    shared = [x * float(k + 1) for k in range(n_threads)]
    start = threading.Barrier(n_threads)
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            start.wait()
            for step in range(60):
                other = shared[(k + step) % n_threads]
                mine = jg.tanh(other) + x
                shared[k] = mine * 0.5
                (g,) = jg.autograd.grad(mine.sum(), x, retain_graph=True)
                assert np.isfinite(g.numpy()).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tape_that_is_reached_by_several_ways() -> None:
    x = leaf(1.0, 2.0, 3.0)
    a = in_thread(lambda: x * x)
    b = a * 3
    c = in_thread(lambda: (b * a).sum())  # = 3 x**4, from a directly and through b
    c.backward(retain_graph=True)
    c.backward()
    assert x.grad.tolist() == [24.0, 192.0, 648.0]
    with pytest.raises(errors.GraphFreedError):
        c.backward()


@pytest.mark.parametrize("order", [1, -1])
def test_outputs_of_several_threads(order: int) -> None:
    x = leaf(1.0, 2.0)
    a = in_thread(lambda: x * x)
    b = (a * a).sum()
    c = in_thread(lambda: (a * x * x).sum())
    jg.autograd.backward([b, c][::order])
    assert x.grad.tolist() == [8.0, 64.0]
