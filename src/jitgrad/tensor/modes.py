"""Whether operations are recorded: `no_grad`, `enable_grad` and their kin, context managers and decorators.

The state belongs to the context (thread or task) by itself, as everything else about tracing does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar

from jitgrad.core import trace

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Tell whether operations on tensors that require gradients are recorded.

    Examples
    --------
    >>> import jitgrad as jg
    >>> with jg.no_grad():
    ...     jg.is_grad_enabled()
    False
    """
    return trace.grad_enabled()


class _Mode:
    """A context manager that sets the mode and puts back what was there; it also decorates."""

    _enabled: bool

    def __init__(self) -> None:
        self._before: list[object] = []  # a stack: one object may be entered several times over

    def __enter__(self) -> None:
        self._before.append(trace.switch(self._enabled))

    def __exit__(self, *error: object) -> None:
        trace.restore(self._before.pop())

    def __call__(self, function: F) -> F:
        """Wrap a function (or generator function, or coroutine function): its body runs in this mode."""
        return _wrapped(function, self._enabled)


def _wrapped(function: F, enabled: bool) -> F:
    if inspect.isclass(function) or not callable(function):
        raise TypeError(f"a grad mode decorates functions and methods, not {function!r}")
    wrapper: Any
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return _resumed(function(*args, **kwargs), enabled)

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return _resumed_async(function(*args, **kwargs), enabled)

    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with trace.recording(enabled):
                return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            before = trace.switch(enabled)
            try:
                return function(*args, **kwargs)
            finally:
                trace.restore(before)

    decorated: F = wrapper
    return decorated


def _resumed(generator: Generator[Any, Any, Any], enabled: bool) -> Generator[Any, Any, Any]:
    """Run a generator's body in the mode, and whoever iterates over it in theirs."""
    resume: Callable[[], Any] = functools.partial(next, generator)
    while True:
        try:
            with trace.recording(enabled):
                item = resume()
        except StopIteration as end:
            return end.value
        try:
            sent = yield item
        except GeneratorExit:
            with trace.recording(enabled):
                generator.close()
            raise
        except BaseException as error:
            resume = functools.partial(generator.throw, error)
        else:
            resume = functools.partial(generator.send, sent)


async def _resumed_async(generator: AsyncGenerator[Any, Any], enabled: bool) -> AsyncGenerator[Any, Any]:
    resume: Callable[[], Any] = generator.__anext__
    while True:
        try:
            with trace.recording(enabled):
                item = await resume()
        except StopAsyncIteration:
            return
        try:
            sent = yield item
        except GeneratorExit:
            with trace.recording(enabled):
                await generator.aclose()
            raise
        except BaseException as error:
            resume = functools.partial(generator.athrow, error)
        else:
            resume = functools.partial(generator.asend, sent)


class no_grad(_Mode):
    """Do not record operations; what they return requires no gradient.

    A context manager, and a decorator of functions and generator functions, with or without parentheses.
    Functions that make tensors (`jitgrad.tensor`, ...) still honour ``requires_grad=True``.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> with jg.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    >>> @jg.no_grad()
    ... def double(x):
    ...     return x * 2
    >>> double(x).requires_grad
    False
    """

    _enabled = False

    def __new__(cls, function: Any = None) -> Any:
        """Decorate a function, where the class itself stands as the decorator."""
        return object.__new__(cls) if function is None else _wrapped(function, enabled=False)

    def __init__(self, function: None = None) -> None:
        self._before = []


class enable_grad(_Mode):
    """Record operations, also inside of `no_grad`. A context manager and a decorator.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> with jg.no_grad(), jg.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    _enabled = True

    def __new__(cls, function: Any = None) -> Any:
        """Decorate a function, where the class itself stands as the decorator."""
        return object.__new__(cls) if function is None else _wrapped(function, enabled=True)

    def __init__(self, function: None = None) -> None:
        self._before = []


class set_grad_enabled(_Mode):
    """Set whether operations are recorded: at once, and for a block only if used as a context manager.

    Parameters
    ----------
    mode : bool
        Whether to record.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> training = False
    >>> with jg.set_grad_enabled(training):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        super().__init__()
        self._enabled = mode
        self._at_first = [trace.switch(mode)]

    def __enter__(self) -> None:
        # What was there before the call is put back, not what the call itself has set.
        before = trace.switch(self._enabled)
        self._before.append(self._at_first.pop() if self._at_first else before)

    def __call__(self, function: F) -> F:
        """Decorate a function; the mode outside of it is as it was."""
        if self._at_first:
            trace.restore(self._at_first.pop())
        return super().__call__(function)


class inference_mode(_Mode):
    """The same as `no_grad`, under the name that PyTorch's inference code uses.

    Parameters
    ----------
    mode : bool
        With False, the block changes nothing.

    Examples
    --------
    >>> import jitgrad as jg
    >>> with jg.inference_mode():
    ...     (jg.ones(2, requires_grad=True) * 2).requires_grad
    False
    """

    def __new__(cls, mode: Any = True) -> Any:
        """Decorate a function, where the class itself stands as the decorator."""
        return object.__new__(cls) if isinstance(mode, bool) else _wrapped(mode, enabled=False)

    _enabled = False

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._effective = mode

    def __enter__(self) -> None:
        self._before.append(trace.switch(False if self._effective else trace.grad_enabled()))

    def __call__(self, function: F) -> F:
        """Wrap a function so that its body runs in this mode."""
        return super().__call__(function) if self._effective else function
