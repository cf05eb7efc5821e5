"""Functions of the user's that a replay calls with a tensor's gradient before it goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from jitgrad.core import trace
from jitgrad.core.op import requires_grad
from jitgrad.core.protocol import method
from jitgrad.core.tensor import Tensor, constant
from jitgrad.errors import GradientShapeError, NoGraphError

__all__ = ["RemovableHandle", "hooked_leaf", "running"]

Hook = Callable[[Tensor], Tensor | None]

_numbers = itertools.count()
_running: ContextVar[bool] = ContextVar("jitgrad_hook", default=False)


class RemovableHandle:
    """What `Tensor.register_hook` returns: ``remove()``, or the end of a ``with`` block, takes the hook away."""

    def __init__(self, hooks: dict[int, Callable[[Any], Any]], number: int) -> None:
        self._hooks = hooks
        self._number = number

    def remove(self) -> None:
        """Take the hook away; if it is gone already, nothing happens."""
        self._hooks.pop(self._number, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def running() -> bool:
    """Tell whether a hook is being called, in the middle of a replay."""
    return _running.get()


def _wrapped(hook: Hook) -> Callable[[Any], Any]:
    """Make a function from cotangent to cotangent, arrays or tensors, of a user's hook."""
    name = getattr(hook, "__name__", repr(hook))

    def call(bar: Any) -> Any:
        recorded = type(bar) is Tensor
        token = _running.set(True)
        try:
            with trace.recording(recorded):
                result = hook(bar if recorded else constant(bar))
        finally:
            _running.reset(token)
        if result is None:
            return bar
        if type(result) is not Tensor:
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
        if result.shape != bar.shape:
            raise GradientShapeError.hook(name, result.shape, bar.shape)
        result = result.astype(bar.dtype, copy=False)
        return result if recorded else result._value

    return call


@method("register_hook")
def register_hook(self: Tensor, hook: Hook) -> RemovableHandle:
    """Call a function with the tensor's gradient whenever it is computed.

    Parameters
    ----------
    hook : callable
        Takes the gradient, a tensor. It may return another one of the same shape, which then takes its place; it
        must not change its argument.

    Returns
    -------
    RemovableHandle
        ``remove()`` takes the hook away again. A hook that refers to its own tensor keeps it alive until then.

    Raises
    ------
    NoGraphError
        If the tensor does not require a gradient.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """
    if not requires_grad(self):
        raise NoGraphError.hook()
    tape = self._tape
    if self._leaf is not None and self._leaf.requires_grad:
        if self._leaf.hooks is None:
            self._leaf.hooks = {}
        hooks = self._leaf.hooks  # they see the gradient when all of it has arrived
    elif tape is None or tape.handles is None:
        raise NoGraphError.traced()
    else:
        if tape.hooks is None:
            tape.hooks = {}
        hooks = tape.hooks.setdefault(self._vid, {})
    number = next(_numbers)
    hooks[number] = _wrapped(hook)
    return RemovableHandle(hooks, number)


def hooked_leaf(leaf: Tensor, bar: Any) -> Any:
    """Return a leaf's whole gradient after its hooks have seen it."""
    hooks = None if leaf._leaf is None else leaf._leaf.hooks
    if not hooks:
        return bar
    for hook in list(hooks.values()):
        bar = hook(bar)
    return bar if type(bar) is Tensor else bar.copy()  # a hook may have kept it
