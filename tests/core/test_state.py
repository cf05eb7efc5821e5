"""What tracing leaves behind: nothing, after errors, in threads, and for tapes of any length."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core import native, trace
from jitgrad.core.tensor import Tensor
from jitgrad.errors import LeakedTensorError, NoGradientError
from jitgrad.transforms.trace import Session

X = np.array([1.0, 2.0, 3.0])


class UsersError(Exception):
    pass


def failing(x: Any) -> Any:
    y = x * x
    raise UsersError(y.shape)


RUNS: dict[str, Any] = {
    "grad": jg.grad(failing),
    "value_and_grad": jg.value_and_grad(failing),
    "jacobian": jg.jacobian(failing),
    "hessian": jg.hessian(failing),
    "vjp": lambda x: jg.vjp(failing, x),
    "jvp": lambda x: jg.jvp(failing, (x,), (x,)),
    "nested": jg.grad(lambda x: np.sum(jg.grad(failing)(x))),
    "has_aux": jg.grad(failing, has_aux=True),
}


def assert_nothing_is_left() -> None:
    assert trace.current_trace() is None
    assert trace.grad_enabled()
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(x * x))(X), 2.0 * X)
    assert type(X * 2.0) is np.ndarray


@pytest.mark.parametrize("name", RUNS)
def test_an_error_in_the_function_leaves_nothing_behind(name: str) -> None:
    with pytest.raises(UsersError):
        RUNS[name](X)
    assert_nothing_is_left()


def test_an_error_that_the_outer_function_catches_costs_the_outer_derivative_nothing() -> None:
    def f(x: Any) -> Any:
        try:
            jg.grad(failing)(x)
        except UsersError:
            return np.sum(x * x * x)
        raise AssertionError("no error")

    np.testing.assert_allclose(jg.grad(f)(X), 3.0 * X * X)
    assert_nothing_is_left()


def test_an_error_in_a_replay_leaves_nothing_behind() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.fft.fft(x))

    with pytest.raises(NoGradientError, match="fft"):
        jg.grad(f)(X)
    assert_nothing_is_left()
    _, pullback = jg.vjp(lambda x: x * 2.0, X)
    with pytest.raises(ValueError, match="shape"):
        pullback(np.ones(7))
    np.testing.assert_array_equal(pullback(np.ones(3))[0], 2.0 * np.ones(3))


def test_keyboard_interrupt_leaves_nothing_behind() -> None:
    def interrupted(x: Any) -> Any:
        np.sum(x * x)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jg.grad(interrupted)(X)
    assert_nothing_is_left()


@pytest.mark.parametrize("use", [lambda t: t * 2.0, lambda t: np.sum(t), lambda t: t + X, np.tanh])
def test_a_tensor_that_leaves_its_transform_cannot_be_used(use: Any) -> None:
    leaked: list[Any] = []
    jg.grad(lambda x: leaked.append(x * 3.0) or np.sum(x))(X)
    with pytest.raises(LeakedTensorError, match="has_aux"):
        use(leaked[0])
    assert_nothing_is_left()


def test_a_tensor_that_leaves_its_transform_cannot_be_used_in_another() -> None:
    leaked: list[Any] = []
    jg.grad(lambda x: leaked.append(x * 3.0) or np.sum(x))(X)
    with pytest.raises(LeakedTensorError):
        jg.grad(lambda x: np.sum(x * leaked[0]))(X)
    with pytest.raises(LeakedTensorError):
        jg.grad(lambda x: np.sum(leaked[0]) + np.sum(x))(X)
    assert_nothing_is_left()


def test_generators_that_hold_a_transforms_tensors() -> None:
    """A generator that was started inside and is resumed outside has leaked."""

    def steps(x: Any) -> Any:
        while True:
            x = x * 2.0
            yield x

    held: list[Any] = []

    def f(x: Any) -> Any:
        generator = steps(x)
        held.append(generator)
        return np.sum(next(generator) + next(generator))

    np.testing.assert_array_equal(jg.grad(f)(X), 6.0 * np.ones(3))
    with pytest.raises(LeakedTensorError):
        next(held[0])


# -- threads and tasks -------------------------------------------------------------------------------------


def energy(x: Any, k: float) -> Any:
    y = np.tanh(x * k)
    for _ in range(5):
        y = y * x + k
    return np.sum(y)


def test_threads_do_not_see_each_other() -> None:
    expected = {k: jg.grad(energy)(X, float(k)) for k in range(8)}
    barrier = threading.Barrier(8)

    def work(k: int) -> int:
        barrier.wait()
        for n in range(200):
            found = jg.grad(energy)(X, float(k))
            if not np.array_equal(found, expected[k]):
                return n
            if n % 50 == 0:
                jg.hessian(lambda x: energy(x, float(k)))(X)
        return -1

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [-1] * 8
    assert_nothing_is_left()


def test_a_thread_started_inside_a_transform_is_outside_of_it() -> None:
    found: list[Any] = []

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: found.append((trace.current_trace(), jg.grad(np.sum)(X))))
        thread.start()
        thread.join()
        return np.sum(x * x)

    np.testing.assert_array_equal(jg.grad(f)(X), 2.0 * X)
    ((inside, gradient),) = found
    assert inside is None
    assert type(gradient) is np.ndarray


def test_a_tensor_handed_to_another_thread_does_no_harm() -> None:
    """Its trace does not run there: it is an error, or a record; never a wrong derivative."""
    outcome: list[Any] = []

    def f(x: Any) -> Any:
        def work() -> None:
            try:
                outcome.append(x * 2.0)
            except LeakedTensorError as error:
                outcome.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return np.sum(x * x)

    np.testing.assert_array_equal(jg.grad(f)(X), 2.0 * X)
    assert isinstance(outcome[0], (Tensor, LeakedTensorError))
    assert_nothing_is_left()


def test_tasks_do_not_see_each_other() -> None:
    async def work(k: float) -> Any:
        results = []
        for _ in range(5):
            await asyncio.sleep(0)
            results.append(jg.grad(energy)(X, k))
        return results

    async def everything() -> Any:
        return await asyncio.gather(*(work(float(k)) for k in range(4)))

    for k, results in enumerate(asyncio.run(everything())):
        for found in results:
            np.testing.assert_array_equal(found, jg.grad(energy)(X, float(k)))


def test_contexts_are_copied_with_the_trace() -> None:
    def f(x: Any) -> Any:
        return contextvars.copy_context().run(lambda: np.sum(x * x * x))

    np.testing.assert_allclose(jg.grad(f)(X), 3.0 * X * X)


def test_contexts_that_are_copied_into_threads_are_outside_the_trace() -> None:
    def f(x: Any, *, use: bool) -> Any:
        def work() -> Any:
            assert trace.current_trace() is None
            np.testing.assert_array_equal(jg.grad(energy)(X, 2.0), expected)
            return np.sum(x * x[::-1]) if use else 0.0

        async def everything() -> Any:
            return await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))

        return sum(asyncio.run(everything())) + np.sum(x * x)

    expected = jg.grad(energy)(X, 2.0)
    np.testing.assert_array_equal(jg.grad(f)(X, use=False), 2.0 * X)
    with pytest.raises(LeakedTensorError, match="in another thread than the transform's"):
        jg.grad(f)(X, use=True)
    assert_nothing_is_left()


@pytest.mark.parametrize(
    ("entry", "run"),
    [
        ("append", lambda y: y @ y.detach()),
        ("define", lambda y: y @ np.ones((3, 3))),
        ("view", lambda y: np.transpose(y, (1, 0))),
    ],
)
def test_interrupts_between_a_value_and_its_type(entry: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ^C in a notebook, whose tape goes on to be used."""
    native_entry = getattr(native, entry)

    def interrupted(*args: Any) -> None:
        native_entry(*args)
        raise KeyboardInterrupt

    x = jg.ones(3, 3, requires_grad=True)
    y = np.tanh(x)
    with monkeypatch.context() as patch:
        patch.setattr(native, entry, interrupted)
        patch.setattr(native, "derive", lambda *_: None)  # which would do it all in one call, ...
        patch.setattr(native, "run", lambda *_: None)  # ... as this would
        with pytest.raises(KeyboardInterrupt):
            run(y)
    tape = trace.imperative_tape()
    assert len(tape.types) == tape.count
    run(y).sum().backward()
    assert x.grad.shape == (3, 3)


class Interrupting:
    """A context variable in whose ``set`` a ^C arrives."""

    def __init__(self, variable: contextvars.ContextVar[Any]) -> None:
        self.variable = variable
        self.get = variable.get
        self.reset = variable.reset
        self.armed = True

    def set(self, value: Any) -> Any:
        token = self.variable.set(value)
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt
        return token


def test_interrupts_when_a_trace_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(trace, "_trace", Interrupting(trace._trace))
        with pytest.raises(KeyboardInterrupt):
            jg.grad(energy)(X, 2.0)
    assert_nothing_is_left()
    assert type(jg.grad(energy)(X, 2.0)) is np.ndarray


@pytest.mark.parametrize("nested", [False, True])
def test_interrupts_when_a_trace_ends(nested: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Session, *error: object) -> None:
        raise KeyboardInterrupt

    x = jg.tensor(X, requires_grad=True) if nested else X
    with monkeypatch.context() as patch:
        patch.setattr(Session, "__exit__", interrupted)
        with jg.no_grad(), pytest.raises(KeyboardInterrupt):
            jg.grad(energy)(x, 2.0)
    gc.collect()  # the traceback holds the frames
    assert_nothing_is_left()
    assert trace.imperative_tape().locked == 0
    assert type(jg.grad(energy)(X, 2.0)) is np.ndarray


# -- long tapes --------------------------------------------------------------------------------------------


def test_chains_need_no_recursion() -> None:
    n = 100_000

    def f(x: Any) -> Any:
        for _ in range(n // 2):
            x = x * 0.5
            x = x + 1.0
        return x

    value, gradient = jg.value_and_grad(f)(3.0)
    assert (value, gradient) == (2.0, 0.5 ** (n // 2))  # which is 0
    assert jg.grad(lambda x: long_sum(x, n))(0.25) == pytest.approx(n * 0.5)


def long_sum(x: Any, n: int) -> Any:
    total = x * 0.0
    square = x * x
    for _ in range(n):
        total = total + square
    return total


def test_chains_at_second_order() -> None:
    assert jg.grad(jg.grad(lambda x: long_sum(x, 2000)))(0.25) == pytest.approx(4000.0)
    assert jg.jvp(jg.grad(lambda x: long_sum(x, 2000)), (0.25,), (1.0,))[1] == pytest.approx(4000.0)


@pytest.mark.parametrize("n", [0, 1, 30, 31, 32, 33, 62, 63, 64, 65, 126, 127, 128, 129, 130, 254, 255, 256, 257, 600])
@pytest.mark.parametrize("kind", ["native", "rule", "view", "several"])
def test_tapes_of_any_length(n: int, kind: str) -> None:
    """On both sides of wherever the tape's tables have to grow."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(n):
            if kind == "native":
                y = y + x
            elif kind == "rule":
                y = y + np.sum(x) * 0.0 + x
            elif kind == "view":
                y = np.reshape(np.reshape(y + x, (3, 1)), (3,))
            else:
                left, right = np.split(np.concatenate([y, x]), 2)
                y = left + right
        return np.sum(y * y)

    np.testing.assert_allclose(jg.grad(f)(X), 2.0 * (n + 1) ** 2 * X, rtol=1e-12)
    _, tangent = jg.jvp(f, (X,), (X,))
    assert tangent == pytest.approx(float(2.0 * (n + 1) ** 2 * np.sum(X * X)))


def test_tapes_of_many_constants_and_wide_rows() -> None:
    pieces = [np.full(3, float(k)) for k in range(300)]

    def f(x: Any) -> Any:
        return np.sum(np.stack([x * piece for piece in pieces]) * np.stack([x] * 300))

    np.testing.assert_allclose(jg.grad(f)(X), 2.0 * X * sum(range(300)), rtol=1e-12)


def test_mixtures_of_dtypes_on_one_tape() -> None:
    def f(a: Any, b: Any) -> Any:
        y = a * 2.0  # float32
        z = y * b  # float64
        for _ in range(10):
            y = y + a * 3
            z = z * 0.5 + y
        return np.sum(z) + np.sum(y)

    a, b = X.astype(np.float32), X * 3.0
    by_a, by_b = jg.grad(f, (0, 1))(a, b)
    assert (by_a.dtype, by_b.dtype) == (np.float32, np.float64)
    wide_a, wide_b = jg.grad(f, (0, 1))(X, b)
    np.testing.assert_allclose(by_a, wide_a, rtol=1e-6)
    np.testing.assert_allclose(by_b, wide_b, rtol=1e-6)


def test_a_finished_tape_is_given_back() -> None:
    tapes: list[Any] = []

    def f(x: Any) -> Any:
        current = trace.current_trace()
        assert current is not None
        tapes.append(weakref.ref(current))
        return np.sum(x * x)

    jg.grad(f)(X)
    gc.collect()
    for _ in range(3):
        jg.grad(lambda x: np.sum(x))(X)  # whatever is kept for reuse is kept once
    gradients = [jg.grad(f)(X) for _ in range(50)]
    gc.collect()
    alive = sum(tape() is not None for tape in tapes)
    assert alive <= 1
    assert len(gradients) == 50


def test_memory_does_not_grow_with_gradients() -> None:
    x = np.ones(1000)

    def once() -> None:
        jg.grad(lambda x: np.sum(np.tanh(x) * x))(x)
        jg.jvp(lambda x: np.tanh(x) * x, (x,), (x,))
        jg.grad(lambda x: np.sum(jg.grad(lambda y: np.sum(y * y * y))(x)))(x)

    for _ in range(20):
        once()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(200):
        once()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 10 * x.nbytes
