"""Switching recording off and on: blocks, decorators, nesting, threads and tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.core.native import SUSPENDED


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    assert jg.is_grad_enabled()
    yield
    assert jg.is_grad_enabled()
    assert SUSPENDED[0] == 0


def recorded() -> bool:
    x = jg.ones(2, requires_grad=True)
    results = {(x * 2).requires_grad, (x * x).requires_grad, x.sum().requires_grad, (2 - x).requires_grad}
    assert results == {jg.is_grad_enabled()}
    return jg.is_grad_enabled()


def test_blocks() -> None:
    assert recorded()
    with jg.no_grad():
        assert not recorded()
        with jg.enable_grad():
            assert recorded()
            with jg.no_grad():
                assert not recorded()
            assert recorded()
        assert not recorded()
    assert recorded()


def test_one_object_entered_twice() -> None:
    off = jg.no_grad()
    with off:
        with off:
            assert not recorded()
        assert not recorded()
    assert recorded()


def test_exceptions_leave_the_mode_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), jg.no_grad():
        raise ZeroDivisionError
    assert recorded()


def test_tensors_that_are_made_inside_may_require_gradients() -> None:
    with jg.no_grad():
        x = jg.ones(2, requires_grad=True)
    assert x.requires_grad
    assert (x * 2).requires_grad


def test_decorators() -> None:
    @jg.no_grad()
    def off() -> bool:
        """Say it."""
        return recorded()

    @jg.no_grad
    def bare() -> bool:
        return recorded()

    @jg.enable_grad()
    def on() -> bool:
        return recorded()

    assert off.__doc__ == "Say it."
    assert off.__name__ == "off"
    assert (off(), bare(), on()) == (False, False, True)
    with jg.no_grad():
        assert on()
        assert not recorded()


def test_decorated_methods() -> None:
    class Model:
        @jg.no_grad()
        def predict(self) -> bool:
            return recorded()

    assert Model().predict() is False


def test_recursive_decorated_function() -> None:
    @jg.no_grad()
    def down(n: int) -> bool:
        return recorded() if n == 0 else down(n - 1) or recorded()

    assert down(3) is False


def test_decorated_generator_switches_back_between_items() -> None:
    @jg.no_grad()
    def items() -> Iterator[Any]:
        received = yield recorded()
        assert received == "sent"
        assert not jg.is_grad_enabled()
        try:
            yield recorded()
        except KeyError:
            yield "caught", recorded()
        return "end"

    generator: Any = items()
    assert next(generator) is False
    assert recorded()
    assert generator.send("sent") is False
    assert recorded()
    assert generator.throw(KeyError) == ("caught", False)
    assert recorded()
    with pytest.raises(StopIteration, match="end"):
        next(generator)


def test_decorated_generator_is_closed_in_its_mode() -> None:
    seen = []

    @jg.no_grad()
    def items() -> Iterator[int]:
        try:
            yield 1
        finally:
            seen.append(recorded())

    generator: Any = items()
    next(generator)
    generator.close()
    assert seen == [False]


def test_decorated_coroutines() -> None:
    @jg.no_grad()
    async def off() -> bool:
        await asyncio.sleep(0)
        return recorded()

    @jg.no_grad()
    async def items() -> AsyncIterator[bool]:
        yield recorded()
        await asyncio.sleep(0)
        yield recorded()

    async def main() -> None:
        assert await off() is False
        async for item in items():
            assert item is False
            assert recorded()

    asyncio.run(main())


def test_classes_are_not_decorated() -> None:
    with pytest.raises(TypeError, match="decorates functions and methods"):

        @jg.no_grad()
        class _Model:
            pass


def test_set_grad_enabled_at_once() -> None:
    jg.set_grad_enabled(False)
    try:
        assert not recorded()
    finally:
        jg.set_grad_enabled(True)
    assert recorded()


def test_set_grad_enabled_as_a_block() -> None:
    with jg.set_grad_enabled(False):
        assert not recorded()
        with jg.set_grad_enabled(True):
            assert recorded()
        assert not recorded()
    assert recorded()
    mode = jg.set_grad_enabled(False)
    assert not recorded()
    with mode:
        assert not recorded()
    assert recorded()


def test_set_grad_enabled_as_a_decorator() -> None:
    @jg.set_grad_enabled(False)
    def off() -> bool:
        return recorded()

    assert recorded()
    assert off() is False
    assert recorded()


def test_set_grad_enabled_takes_a_bool() -> None:
    with pytest.raises(TypeError, match=r"argument 'enabled' \(position 1\) must be bool, not NoneType"):
        jg.set_grad_enabled(None)  # type: ignore[arg-type]


def test_inference_mode() -> None:
    with jg.inference_mode():
        assert not recorded()
    with jg.inference_mode(False):
        assert recorded()

    @jg.inference_mode
    def bare() -> bool:
        return recorded()

    @jg.inference_mode()
    def called() -> bool:
        return recorded()

    assert (bare(), called()) == (False, False)


def test_threads_have_modes_of_their_own() -> None:
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def other() -> None:
        with jg.no_grad():
            inside.set()
            go_on.wait(10)
            seen.append(recorded())

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    assert recorded()
    go_on.set()
    thread.join()
    assert seen == [False]
    assert recorded()


def test_thread_that_ends_in_no_grad_slows_nobody_down() -> None:
    thread = threading.Thread(target=lambda: jg.set_grad_enabled(False))
    thread.start()
    thread.join()
    assert SUSPENDED[0] == 0


def test_task_started_in_no_grad_stays_in_it() -> None:
    async def late() -> bool:
        await asyncio.sleep(0)
        return recorded()

    async def main() -> None:
        with jg.no_grad():
            task = asyncio.create_task(late())
        assert recorded()
        assert await task is False
        assert recorded()

    asyncio.run(main())


def test_tasks_have_modes_of_their_own() -> None:
    async def off() -> bool:
        with jg.no_grad():
            await asyncio.sleep(0)
            return recorded()

    async def on() -> bool:
        await asyncio.sleep(0)
        return recorded()

    async def main() -> None:
        assert await asyncio.gather(off(), on(), off()) == [False, True, False]

    asyncio.run(main())


def test_transforms_record_inside_no_grad() -> None:
    with jg.no_grad():
        assert jg.grad(lambda x: x * x)(3.0) == 6.0
        assert not recorded()


def test_no_grad_inside_a_transform() -> None:
    def f(x: Any) -> Any:
        with jg.no_grad():
            weight = x * x
        return weight * x

    assert jg.grad(f)(3.0) == 9.0
