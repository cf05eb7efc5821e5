"""The state of tracing, for each context (thread or task) by itself: which tape records, and whether at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from jitgrad.core.native import SUSPENDED

if TYPE_CHECKING:
    from jitgrad.core.tape import Tape

__all__ = ["current_trace", "grad_enabled", "imperative_tape", "recording", "start", "stop", "tracing"]

_trace: ContextVar[Tape | None] = ContextVar("jitgrad_trace", default=None)
_grad_enabled: ContextVar[bool] = ContextVar("jitgrad_grad_enabled", default=True)
_imperative: ContextVar[Tape | None] = ContextVar("jitgrad_imperative", default=None)


def current_trace() -> Tape | None:
    """Return the tape of the transform that is running in this context."""
    return _trace.get()


def grad_enabled() -> bool:
    """Tell whether operations on tensors are recorded in this context."""
    return _grad_enabled.get()


def imperative_tape() -> Tape:
    """Return the tape on which this context's tensors record outside transforms."""
    tape = _imperative.get()
    if tape is None:
        from jitgrad.core.tape import Tape

        tape = Tape(tracks_handles=True)
        _imperative.set(tape)
    return tape


def start(tape: Tape) -> Token[Tape | None]:
    """Make ``tape`` the one that records in this context, until `stop` is called with what this returns."""
    return _trace.set(tape)


def stop(token: Token[Tape | None]) -> None:
    """Undo `start`."""
    _trace.reset(token)


@contextmanager
def tracing(tape: Tape) -> Iterator[Tape]:
    """Make ``tape`` the one that records in this context."""
    token = _trace.set(tape)
    try:
        yield tape
    finally:
        _trace.reset(token)


@contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Switch recording on or off in this context."""
    token = _grad_enabled.set(enabled)
    if not enabled:
        SUSPENDED[0] += 1
    try:
        yield
    finally:
        if not enabled:
            SUSPENDED[0] -= 1
        _grad_enabled.reset(token)
