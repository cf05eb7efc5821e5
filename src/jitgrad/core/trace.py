"""The state of tracing, for each context (thread or task) by itself: which tape records, and whether any."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from jitgrad.core.native import SUSPENDED, TRACES

if TYPE_CHECKING:
    from jitgrad.core.tape import Tape

__all__ = [
    "abandon",
    "current_trace",
    "grad_enabled",
    "imperative_tape",
    "recording",
    "restore",
    "start",
    "stop",
    "switch",
    "tracing",
]


class _Off:
    """Recording is off in the contexts that hold this: while any does, operations must ask if they are one.

    A context may outlive the block that has switched recording off (a task that was started in it has a
    copy), so what is counted is the contexts' own references.
    """

    __slots__ = ()

    def __init__(self) -> None:
        SUSPENDED[0] += 1

    def __del__(self, counter: Any = SUSPENDED) -> None:
        counter[0] -= 1


class _Thread(threading.local):
    """What belongs to a thread, and not to its tasks."""

    tape: Tape | None = None


_trace: ContextVar[Tape | None] = ContextVar("jitgrad_trace", default=None)
_off: ContextVar[_Off | None] = ContextVar("jitgrad_off", default=None)
_thread = _Thread()


def current_trace() -> Tape | None:
    """Return the tape of the transform that is running in this context.

    A context that has been copied into another thread is outside it: no two threads may record on one tape.
    """
    tape = _trace.get()
    return tape if tape is None or tape.thread == threading.get_ident() else None


def grad_enabled() -> bool:
    """Tell whether operations on tensors are recorded in this context."""
    return _off.get() is None


def imperative_tape() -> Tape:
    """Return the tape on which this thread's tensors record outside transforms.

    It is the thread's, not the context's: a context may be copied into another thread, but no two threads may
    record on one tape.
    """
    tape = _thread.tape
    if tape is None:
        from jitgrad.core.tape import Tape

        tape = _thread.tape = Tape(tracks_handles=True)
    return tape


def start(tape: Tape) -> Token[Tape | None]:
    """Make ``tape`` the one that records in this context, until `stop` is called with what this returns."""
    before = _trace.get()
    TRACES[0] += 1
    try:
        return _trace.set(tape)
    except BaseException:  # a ^C, after which nobody would have the token
        _trace.set(before)
        TRACES[0] -= 1
        raise


def stop(token: Token[Tape | None]) -> None:
    """Undo `start`."""
    TRACES[0] -= 1
    _trace.reset(token)


def abandon(tape: Tape) -> None:
    """Undo a `start` that an interrupt has left behind, if it was this context's last."""
    if _trace.get() is tape:
        TRACES[0] -= 1
        _trace.set(None)


@contextmanager
def tracing(tape: Tape) -> Iterator[Tape]:
    """Make ``tape`` the one that records in this context."""
    token = start(tape)
    try:
        yield tape
    finally:
        stop(token)


def switch(enabled: bool) -> object:
    """Switch recording on or off in this context; return what `restore` undoes that with."""
    before = _off.get()
    if enabled:
        _off.set(None)
    elif before is None:
        _off.set(_Off())
    return before


def restore(before: object) -> None:
    """Undo `switch`."""
    _off.set(before)  # type: ignore[arg-type]


@contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Switch recording on or off in this context, for a block."""
    before = switch(enabled)
    try:
        yield
    finally:
        restore(before)
