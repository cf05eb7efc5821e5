"""Tracing a function for a transform: which tape, what goes on it, and how values come back out.

A transform that is the outermost one of its context traces on a tape of its own, and returns arrays. Inside
another's trace, or on tensors that require gradients, it records on the tape that is there already, and returns
tensors: so derivatives of derivatives are derivatives of recorded rows, with no levels to confuse.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from jitgrad.core import trace
from jitgrad.core.op import REGISTRY, requires_grad
from jitgrad.core.reverse import replay_arrays, replay_tensors
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, constant, on_tape
from jitgrad.errors import ArgnumsError, DifferentiationTypeError

__all__ = ["NAMESPACE", "Session", "call", "flatten", "open_session", "result", "select", "substitute"]

NAMESPACE = "jitgrad"  # of optree registrations: dataclasses registered by jitgrad.register_dataclass
Leaves = list[Any]


def flatten(tree: Any) -> tuple[Leaves, optree.PyTreeSpec]:
    """Return the leaves of a tree of containers, and its structure."""
    return optree.tree_flatten(tree, namespace=NAMESPACE)


def select(args: Sequence[Any], argnums: int | Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """Return the arguments that ``argnums`` names (one by itself, or a tuple of them) and their positions."""
    if type(argnums) is int and 0 <= argnums < len(args):
        return args[argnums], (argnums,)
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
    """One trace of one function: its tape, its inputs, and the rows that belong to it."""

    def __init__(self, tape: Tape, nested: bool) -> None:
        self.tape = tape
        self.nested = nested
        self.first_row = len(tape)
        self.first_value = tape.count
        self.inputs: list[int] = []
        self.end_row = 0

    def enter(self, leaf: Any) -> Tensor:
        """Put an input on the tape, as a new value: what is recorded from it on is this session's."""
        if self.nested and type(leaf) is Tensor and requires_grad(leaf):
            handle: Tensor = REGISTRY["alias"](leaf)
        else:
            value = leaf._value if type(leaf) is Tensor else np.asarray(leaf)
            handle = on_tape(value, self.tape, self.tape.define(value))
        self.inputs.append(handle._vid)
        return handle

    def recycle(self) -> None:
        """Let the next trace use this one's storage, unless a tensor has escaped that still refers to the tape."""
        if not self.nested:
            tape = self.__dict__.pop("tape")
            if sys.getrefcount(tape) == 2:
                tape.recycle()

    def holds(self, value: Any) -> bool:
        """Tell whether a value was recorded in this session."""
        return type(value) is Tensor and value._tape is self.tape and value._vid >= self.first_value

    def pull(self, seeds: Sequence[tuple[Any, Any]], retain: bool = False) -> list[Any]:
        """Propagate cotangents of outputs back to the inputs; an input that nothing reached gets zeros."""
        tensors = self.nested or any(type(bar) is Tensor for _, bar in seeds)
        gathered: dict[int, Any] = {}
        for output, bar in seeds:
            if self.holds(output):
                seed = bar if type(bar) is Tensor or not tensors else constant(bar)
                held = gathered.get(output._vid)
                gathered[output._vid] = seed if held is None else REGISTRY["add"](held, seed)
        where = {"first_row": self.first_row, "first_value": self.first_value}
        if tensors:
            bars: dict[int, Any] = dict(replay_tensors(self.tape, gathered, self.inputs, **where))
        else:
            bars = dict(replay_arrays(self.tape, gathered, self.inputs, retain=retain, **where))
        return [self._zeros(value, tensors) if value not in bars else bars[value] for value in self.inputs]

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


class open_session:  # noqa: N801  (a context manager, used as a function)
    """Start a session on the tape that is right for these arguments; inside the block, operations are recorded."""

    __slots__ = ("arguments", "enabled", "session", "token", "was_locked")

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.token: Any = None
        self.enabled: Any = None
        self.was_locked = False

    def __enter__(self) -> Session:
        current = trace.current_trace()
        if not trace.grad_enabled():
            self.enabled = trace.recording(True)
            self.enabled.__enter__()
        if current is not None:
            self.session = Session(current, nested=True)
        elif _any_requires_grad(self.arguments):
            self.session = Session(trace.imperative_tape(), nested=True)
        else:
            self.session = Session(Tape(), nested=False)
            self.token = trace.start(self.session.tape)
        tape = self.session.tape
        self.was_locked, tape.locked = tape.locked, True
        return self.session

    def __exit__(self, *error: object) -> None:
        tape = self.session.tape
        tape.locked = self.was_locked
        if self.token is not None:
            trace.stop(self.token)
            tape.end()
        if self.enabled is not None:
            self.enabled.__exit__(None, None, None)


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


_LEAF = optree.tree_structure(0.0)


def call(
    session: Session, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any, transform: str
) -> tuple[Any, optree.PyTreeSpec]:
    """Run ``f`` with the chosen arguments on the session's tape; return its result and the chosen ones' structure."""
    chosen, positions = select(args, argnums)
    several = isinstance(argnums, (tuple, list))
    if type(chosen) is np.ndarray or type(chosen) is float:
        leaves, spec = [chosen], _LEAF
    else:
        leaves, spec = flatten(chosen)
    entered = []
    for leaf in leaves:
        if not _differentiable(leaf):
            raise _input_error(transform, leaf, len(entered), chosen, positions, several)
        entered.append(session.enter(leaf))
    replaced = entered[0] if spec is _LEAF else optree.tree_unflatten(spec, entered)
    out = f(*substitute(args, positions, replaced, several), **kwargs)
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
