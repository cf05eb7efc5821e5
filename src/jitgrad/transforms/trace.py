"""Tracing a function for a transform: which tape, what goes on it, and how values come back out.

A transform that is the outermost one of its context traces on a tape of its own, and returns arrays. Inside
another's trace, or on tensors that require gradients, it records on the tape that is there already, and returns
tensors: so derivatives of derivatives are derivatives of recorded rows, with no levels to confuse.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import Token
from typing import Any, Self

import numpy as np
import optree

from jitgrad.core import trace
from jitgrad.core.op import REGISTRY, requires_grad
from jitgrad.core.reverse import replay_arrays, replay_tensors
from jitgrad.core.tape import Anchor, Tape
from jitgrad.core.tensor import Tensor, constant, on_tape
from jitgrad.core.types import check_class
from jitgrad.errors import ArgnumsError, DifferentiationTypeError

__all__ = ["NAMESPACE", "Session", "call", "flatten", "result", "select", "substitute"]

NAMESPACE = "jitgrad"  # of optree registrations: dataclasses registered by jitgrad.register_dataclass
Leaves = list[Any]


def flatten(tree: Any) -> tuple[Leaves, optree.PyTreeSpec]:
    """Return the leaves of a tree of containers, and its structure."""
    return optree.tree_flatten(tree, namespace=NAMESPACE)


def select(args: Sequence[Any], argnums: int | Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """Return the arguments that ``argnums`` names (one by itself, or a tuple of them) and their positions."""
    if isinstance(argnums, (bool, np.bool_)) or not isinstance(argnums, (int, np.integer, tuple, list)):
        raise ArgnumsError.wrong_type(argnums)
    several = isinstance(argnums, (tuple, list))
    numbers = tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)
    if not numbers:
        raise ArgnumsError.empty()
    positions = []
    for number in numbers:
        if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)):
            raise ArgnumsError.wrong_type(argnums)
        if not -len(args) <= number < len(args):
            raise ArgnumsError.out_of_range(int(number), len(args))
        positions.append(int(number) % len(args))
    if len(set(positions)) != len(positions):
        raise ArgnumsError.repeated(numbers)
    return (tuple(args[p] for p in positions) if several else args[positions[0]]), tuple(positions)


def substitute(args: Sequence[Any], positions: Sequence[int], chosen: Any, several: bool) -> list[Any]:
    """Return the arguments with the chosen ones replaced."""
    replaced = list(args)
    for position, value in zip(positions, chosen if several else (chosen,), strict=True):
        replaced[position] = value
    return replaced


class Session:
    """One trace of one function: its tape, its inputs, and the rows that belong to it.

    A context manager: operations are recorded inside the block. The tape is chosen by the arguments.
    """

    __slots__ = (
        "_enabled",
        "_held",
        "_open",
        "_token",
        "end_row",
        "first_row",
        "first_value",
        "inputs",
        "nested",
        "tape",
    )

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._open = False
        tape = trace.current_trace()
        self.nested = True
        if tape is None:
            if _any_requires_grad(arguments):
                tape = trace.imperative_tape()
            else:
                tape = Tape()
                self.nested = False
        self.tape = tape
        self.first_row = len(tape) if self.nested else 0
        self.first_value = tape.count if self.nested else 0
        self.end_row = 0
        self._token: Token[Tape | None] | None = None
        self._enabled: AbstractContextManager[None] | None = None
        self.inputs: list[int] = []
        self._held: list[Anchor] = []

    def __enter__(self) -> Self:
        """Start recording."""
        tape = self.tape
        tape.locked += 1
        self._open = True
        self._enabled = None if trace.grad_enabled() else trace.recording(True)
        if self._enabled is not None:
            self._enabled.__enter__()
        self._token = None if self.nested else trace.start(tape)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop recording, whatever has happened."""
        self._close()

    def __del__(self) -> None:
        """Close what a ^C, in the very moment when it was to be closed, has left open."""
        if self._open:
            if self._token is not None:
                self._token = None
                trace.abandon(self.tape)
            self._close()

    def _close(self) -> None:
        tape = self.tape
        if self._token is not None:
            trace.stop(self._token)
            self._token = None
            tape.end()
        if self._enabled is not None:
            enabled, self._enabled = self._enabled, None
            enabled.__exit__(None, None, None)
        tape.locked -= 1
        self._open = False
        if self.nested and not tape.locked:
            tape.catch_up()

    def enter(self, leaf: Any) -> Tensor:
        """Put an input on the tape, as a new value: what is recorded from it on is this session's."""
        check_class(leaf)
        if self.nested and type(leaf) is Tensor and requires_grad(leaf):
            handle: Tensor = REGISTRY["alias"](leaf)
        elif self.tape.capture is not None:  # a value from outside, which every replay reads anew
            outside = self.tape.capture.enter(self.tape, leaf)
            handle = REGISTRY["alias"](on_tape(self.tape.kept.get(outside, np.asarray(leaf)), self.tape, outside))
        else:
            tape = self.tape
            if isinstance(leaf, np.ndarray):
                vid, value = tape.define_users(np.asarray(leaf))
            else:
                value = leaf._value if type(leaf) is Tensor else np.asarray(leaf)
                vid = tape.define(value)
            handle = on_tape(value, tape, vid)
        self.inputs.append(handle._vid)
        return handle

    def hold(self) -> None:
        """See to it that `pull` finds the inputs when the session is over and its tape may be compacted."""
        if self.tape.handles is not None:
            self._held = [self.tape.anchor(value) for value in self.inputs]

    def _find_again(self) -> None:
        """Look up where the inputs are now: compacting numbers values and rows anew, in the same order."""
        self.inputs = [anchor._vid for anchor in self._held]
        self.first_value = min(self.inputs)
        rows = [self.tape.producer(value) for value in self.inputs]
        self.first_row = min(row for row in rows if row >= 0)  # what requires a gradient was entered by a row

    def recycle(self) -> None:
        """Let the next trace use this one's storage, unless a tensor has escaped that still refers to the tape."""
        if not self.nested:
            tape = self.tape
            del self.tape
            if sys.getrefcount(tape) == 2:
                tape.recycle()

    def holds(self, value: Any) -> bool:
        """Tell whether a value was recorded in this session."""
        return type(value) is Tensor and value._tape is self.tape and value._vid >= self.first_value

    def pull(self, seeds: Sequence[tuple[Any, Any]], retain: bool = False) -> list[Any]:
        """Propagate cotangents of outputs back to the inputs; an input that nothing reached gets zeros."""
        if self._held:
            self._find_again()
        tensors = self.nested or any(type(bar) is Tensor for _, bar in seeds)
        gathered: dict[int, Any] = {}
        for output, bar in seeds:
            if self.holds(output):
                seed = bar if type(bar) is Tensor or not tensors else constant(bar)
                held = gathered.get(output._vid)
                gathered[output._vid] = seed if held is None else REGISTRY["add"](held, seed)
        bars: dict[int, Any]
        if tensors:
            bars = replay_tensors(
                self.tape, gathered, self.inputs, first_row=self.first_row, first_value=self.first_value
            )
        else:
            bars = replay_arrays(self.tape, gathered, self.inputs, self.first_row, self.first_value, retain)
        pulled = [self._zeros(value, tensors) if value not in bars else bars[value] for value in self.inputs]
        if self._held and self.tape is trace.imperative_tape():
            self.tape.catch_up()
        return pulled

    def _zeros(self, value: int, tensors: bool) -> Any:
        kind = self.tape.types[value]
        zeros = np.zeros(kind.shape, kind.dtype)
        return constant(zeros) if tensors else zeros


def result(value: Any, keep_tensors: bool) -> Any:
    """Return what a transform hands out for a value: tensors inside a trace, arrays and NumPy scalars outside."""
    if type(value) is Tensor:
        if keep_tensors:
            return value
        value = value._value
    if type(value) is np.ndarray and value.ndim == 0:
        return value[()]
    return value


def _any_requires_grad(arguments: Any) -> bool:
    for argument in arguments:
        kind = type(argument)
        if kind is np.ndarray or kind is float:
            continue
        if kind is Tensor:
            if requires_grad(argument):
                return True
        elif any(type(leaf) is Tensor and requires_grad(leaf) for leaf in flatten(argument)[0]):
            return True
    return False


_LEAF = flatten(0.0)[1]


def call(
    session: Session, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any, transform: str
) -> tuple[Any, optree.PyTreeSpec]:
    """Run ``f`` with the chosen arguments on the session's tape; return its result and the chosen ones' structure."""
    if type(argnums) is int and 0 <= argnums < len(args):
        chosen = args[argnums]
        if type(chosen) is float or (type(chosen) is np.ndarray and chosen.dtype.kind == "f"):
            replaced = list(args)
            replaced[argnums] = session.enter(chosen)
            out = f(*replaced, **kwargs)
            session.end_row = len(session.tape)
            return out, _LEAF
    chosen, positions = select(args, argnums)
    several = isinstance(argnums, (tuple, list))
    if type(chosen) is np.ndarray or type(chosen) is float:
        leaves, spec = [chosen], _LEAF
    else:
        leaves, spec = flatten(chosen)
    entered: list[Tensor] = []
    for leaf in leaves:
        if not _differentiable(leaf):
            raise _input_error(transform, leaf, len(entered), chosen, positions, several)
        entered.append(session.enter(leaf))
    tensors = entered[0] if spec is _LEAF else optree.tree_unflatten(spec, entered)
    out = f(*substitute(args, positions, tensors, several), **kwargs)
    session.end_row = len(session.tape)
    return out, spec


def _differentiable(leaf: Any) -> bool:
    kind = type(leaf)
    if kind is float or kind is complex:
        return True
    dtype = getattr(leaf, "dtype", None)
    return isinstance(leaf, (Tensor, np.ndarray, np.generic)) and dtype is not None and dtype.kind in "fc"


def _input_error(
    transform: str, leaf: Any, index: int, chosen: Any, positions: Sequence[int], several: bool
) -> DifferentiationTypeError:
    path = optree.tree_paths(chosen, namespace=NAMESPACE)[index]
    number, rest = (positions[path[0]], path[1:]) if several else (positions[0], path)
    position = f"argument {number}" + "".join(f"[{entry!r}]" for entry in rest)
    if isinstance(leaf, (bool, int, np.ndarray, np.generic, Tensor)):
        dtype = leaf.dtype if isinstance(leaf, (np.ndarray, np.generic, Tensor)) else np.asarray(leaf).dtype
        return DifferentiationTypeError.input(transform, position, dtype)
    return DifferentiationTypeError.input_type(transform, position, type(leaf))
