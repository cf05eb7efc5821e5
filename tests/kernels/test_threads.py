"""Threads change neither a result nor a warning; memory that results have died in is used again, and never sooner."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.kernels import memory, threads

N = 3 * threads.LARGE + 5  # does not divide by any count that is tried


@pytest.fixture(autouse=True)
def _count() -> Iterator[None]:
    before = jg.get_num_threads()
    yield
    jg.set_num_threads(before)


def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sum(np.tanh(x * y) + np.exp(-x * x) * y / (1.0 + np.cos(x) ** 2))


def arguments(dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal(N).astype(dtype), rng.standard_normal(N).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_do_not_depend_on_the_number_of_threads(dtype: type) -> None:
    x, y = arguments(dtype)
    results = []
    for count in (1, 2, 3, 7):
        jg.set_num_threads(count)
        assert jg.get_num_threads() == count
        results.append(jg.value_and_grad(loss, argnums=(0, 1))(x, y))
    value, (gx, gy) = results[0]
    assert gx.dtype == gy.dtype == dtype
    for other, (hx, hy) in results[1:]:
        assert other.tobytes() == value.tobytes()
        assert hx.tobytes() == gx.tobytes()
        assert hy.tobytes() == gy.tobytes()


def test_parts_meet_without_a_gap() -> None:
    x = np.arange(float(N))
    jg.set_num_threads(7)
    np.testing.assert_array_equal(threads.elementwise(np.add, x, 1.0), x + 1.0)
    out = np.full((N, 1), np.nan)
    assert threads.elementwise(np.multiply, x.reshape(N, 1), 2.0, out=out) is out
    np.testing.assert_array_equal(out[:, 0], x * 2.0)


@pytest.mark.parametrize(
    "args",
    [
        (np.arange(N), np.arange(N)),  # integers: the result's dtype is for NumPy to say
        (np.arange(N) > 3, np.arange(N) > 5),
        (np.ones(2 * N)[::2], np.ones(N)),
        (np.ones(N, np.float32), np.ones(N)),
        (np.ones((2, N)), np.ones(N)),
        (np.ones(N), np.float64(2.0)),
        (np.ones(N), np.ones(1)),
        (np.ones(N), 1j),
        (2, 3.0),
    ],
)
def test_what_is_not_alike_goes_to_numpy(args: tuple[object, object]) -> None:
    expected = np.add(*args)
    result = threads.elementwise(np.add, *args)
    np.testing.assert_array_equal(result, expected)
    assert np.asarray(result).dtype == np.asarray(expected).dtype


def test_every_thread_heeds_errstate() -> None:
    jg.set_num_threads(2)
    x = np.ones(N)
    for place in (0, N - 1):  # in the first thread's part and in the last one's
        bad = x.copy()
        bad[place] = 0.0
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            threads.elementwise(np.divide, x, bad)
        with np.errstate(divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert threads.elementwise(np.divide, x, bad)[place] == np.inf


@pytest.mark.parametrize(
    ("count", "error", "text"),
    [
        (0, ValueError, "positive integer, not 0"),
        (-2, ValueError, "positive integer, not -2"),
        (1.5, TypeError, "an integer, not float"),
        (True, TypeError, "an integer, not bool"),
        ("2", TypeError, "an integer, not str"),
    ],
)
def test_a_bad_count_is_refused(count: object, error: type[Exception], text: str) -> None:
    before = jg.get_num_threads()
    with pytest.raises(error, match=text):
        jg.set_num_threads(count)
    assert jg.get_num_threads() == before


@pytest.mark.parametrize(("value", "printed"), [("3", "3"), ("0", "JITGRAD_NUM_THREADS must be a positive integer")])
def test_the_environment_says_how_many(value: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import jitgrad as jg; print(jg.get_num_threads())"],
        env={**os.environ, "JITGRAD_NUM_THREADS": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed in (run.stdout if value == "3" else run.stderr)
    assert (run.returncode == 0) == (value == "3")


def _child(queue: multiprocessing.Queue[float]) -> None:
    x, y = arguments()
    queue.put(float(jg.grad(loss)(x, y)[-1]))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    jg.set_num_threads(2)
    x, y = arguments()
    expected = float(jg.grad(loss)(x, y)[-1])  # the pool runs by now
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join()
    assert child.exitcode == 0


def test_many_callers_at_once() -> None:
    jg.set_num_threads(2)
    x, y = arguments()
    gradient = jg.grad(loss, argnums=(0, 1))
    expected = [gradient(x * k, y) for k in range(1, 5)]
    results: dict[int, object] = {}

    def call(k: int) -> None:
        for _ in range(3):
            results[k] = gradient(x * k, y)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(1, 5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for k in range(1, 5):
        for got, want in zip(results[k], expected[k - 1], strict=True):
            np.testing.assert_array_equal(got, want)


# -- memory ------------------------------------------------------------------------------------------------------


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_only_when_its_last_view_has_died() -> None:
    shape = (7, threads.LARGE)
    first = memory.empty(shape, np.dtype(np.float64))
    assert first.shape == shape
    assert first.dtype == np.float64
    assert first.flags.c_contiguous
    assert first.flags.writeable
    place = address(first)
    view = first[3:].T
    del first
    assert address(memory.empty(shape, np.dtype(np.float64))) != place
    del view
    assert address(memory.empty(shape, np.dtype(np.float64))) == place


def test_what_is_kept_free_is_bounded() -> None:
    size = memory.LIMIT // 4 // 8
    held = [memory.empty((size,), np.dtype(np.float64)) for _ in range(6)]
    del held
    assert memory._free.n_bytes <= memory.LIMIT
    held = [memory.empty((size,), np.dtype(np.float64)) for _ in range(6)]
    assert len({address(array) for array in held}) == 6


def test_gradients_are_the_users() -> None:
    """A later call writes into no array that an earlier one has handed out."""
    x, y = arguments()
    gradient = jg.grad(loss, argnums=(0, 1))
    first = gradient(x, y)
    copies = [array.copy() for array in first]
    for _ in range(3):
        gradient(2 * x, y)
    for array, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        array += 1.0  # and may be written to
    again = gradient(x, y)
    for array, copy in zip(again, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_gradient_that_is_something_else_is_copied() -> None:
    """What is handed out shares no memory with an argument, a residual or another gradient."""
    x, y = arguments()
    for f in (lambda a, b: np.sum(a * b), lambda a, b: np.sum(a + b), lambda a, b: np.vdot(a, b)):
        gx, gy = jg.grad(f, argnums=(0, 1))(x, y)
        for one, other in ((gx, gy), (gx, x), (gx, y), (gy, x), (gy, y)):
            assert not np.shares_memory(one, other)
    seed = np.ones(N)
    _, pullback = jg.vjp(lambda a: a + 0.0, x)
    assert not np.shares_memory(pullback(seed)[0], seed)
