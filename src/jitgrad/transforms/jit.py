"""`jit`: a function that is traced once for each kind of arguments, and replayed natively from then on.

A trace is good for arguments of the same structure, shapes and dtypes, as long as its guards hold: what Python looked
at while the function ran must be what it was. Where a guard misses, the function is traced again, and both are kept.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
import optree

from jitgrad.core import trace as context
from jitgrad.core.capture import Capture
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, on_tape
from jitgrad.core.types import array_type, check_class
from jitgrad.errors import JitTypeError, RetraceWarning
from jitgrad.kernels import layout as L
from jitgrad.machine.calls import NativeCall, Unsuitable
from jitgrad.machine.memory import contiguous
from jitgrad.machine.passes import optimised
from jitgrad.machine.plan import Missed, Plan
from jitgrad.machine.program import GUARD, Program, program_of
from jitgrad.transforms.surroundings import Surroundings
from jitgrad.transforms.trace import flatten

__all__ = ["CacheInfo", "Captured", "Jitted", "Result", "Static", "Trace", "captured", "is_traced", "jit", "traced"]

P = ParamSpec("P")
R = TypeVar("R")
Array = np.ndarray[Any, Any]

MAX_SIGNATURES = 256  # kinds of arguments of one function
MAX_TRACES = 64  # of one kind of arguments
_MANY_TRACES = 8  # from which on a warning is due

_TRACED_KINDS = "fcbiu"


class CacheInfo(NamedTuple):
    """What `Jitted.cache_info` returns."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Result:
    """How the result of a traced function is put together."""

    __slots__ = ("leaves", "spec")

    def __init__(self, leaves: list[Any], spec: optree.PyTreeSpec) -> None:
        self.leaves = leaves  # for each, the number of the output it is, or a `Static`
        self.spec = spec

    def of(self, outputs: Sequence[Array]) -> Any:
        """Return the result that consists of these outputs."""
        leaves = [
            leaf.value if type(leaf) is Static else outputs[leaf][()] if not outputs[leaf].ndim else outputs[leaf]
            for leaf in self.leaves
        ]
        return leaves[0] if self.spec.is_leaf() else optree.tree_unflatten(self.spec, leaves)

    def form(self) -> list[tuple[int, Any]] | None:
        """Return how native code puts the result together: leaves and tuples of them; None for other containers."""
        words: list[tuple[int, Any]] = []
        leaves = iter(self.leaves)

        def add(spec: optree.PyTreeSpec) -> bool:
            if spec.is_leaf():
                leaf = next(leaves)
                words.append((L.FORM_OBJECT, leaf.value) if type(leaf) is Static else (L.FORM_OUTPUT, leaf))
                return True
            if spec.type is type(None):
                words.append((L.FORM_OBJECT, None))
                return True
            if spec.type is not tuple or not all(map(add, spec.children())):
                return False
            words.append((L.FORM_TUPLE, spec.num_children))
            return True

        return words if add(self.spec) and len(words) <= L.FORM_DEPTH else None


class Static:
    """A part of a result that is no array: it is the same whenever the trace is good."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Trace:
    """One trace of a function: its program, its plan, and what must be as it was for it to be good."""

    __slots__ = ("path", "plan", "program", "result", "snapshots", "surroundings")

    def __init__(
        self, program: Program, result: Result, surroundings: Surroundings, snapshots: list[tuple[Array, Array]]
    ) -> None:
        self.program = program
        self.plan = Plan(program)
        self.result = result
        self.surroundings = surroundings
        self.snapshots = snapshots  # arrays that NumPy itself computed with, and what was in them
        self.path = [i for i in program.instructions if i.op is GUARD]

    def is_good(self) -> bool:
        """Tell whether what the function read beside its arguments is what it was."""
        return self.surroundings.changed() is None and all(
            array.tobytes() == seen.tobytes() for array, seen in self.snapshots
        )

    def begins_like(self, other: Trace, missed: Missed) -> bool:
        """Tell whether this trace takes the turn at which another one has missed."""
        at = other.path.index(missed.step)
        if len(self.path) <= at:
            return False
        pairs = zip(self.path[:at], other.path[:at], strict=True)
        turn = self.path[at]
        return (
            all(_stands_for_same(mine, its) for mine, its in pairs)
            and (turn.code, turn.lasti) == (missed.step.code, missed.step.lasti)
            and bool(turn.params["seen"].tobytes() == missed.found.tobytes())
        )


def _stands_for_same(mine: Any, its: Any) -> bool:
    return (mine.code, mine.lasti) == (its.code, its.lasti) and bool(
        mine.params["seen"].tobytes() == its.params["seen"].tobytes()
    )


def _entered(leaf: Any, tape: Tape, capture: Capture) -> Tensor:
    """Put a leaf of the arguments on the tape."""
    array = np.array(leaf, order="C", copy=True)
    value = tape.define(array)
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic):
        capture.weak.add(value)
    tape.kept[value] = array
    return on_tape(array, tape, value)


class Captured(NamedTuple):
    """What `captured` returns."""

    program: Program  # as it was recorded
    result: Result
    value: Any  # what the function returned
    capture: Capture


def captured(call: Callable[[Sequence[Any]], Any], leaves: Sequence[Any]) -> Captured:
    """Record what a function does with tensors that stand for ``leaves``."""
    tape = Tape()
    capture = Capture()
    tape.capture_all(capture)
    try:
        with context.tracing(tape), context.recording(True):
            inputs = [_entered(leaf, tape, capture) for leaf in leaves]
            entered = [tensor._vid for tensor in inputs]  # now: a write in place rebinds a tensor
            out_leaves, spec = flatten(call(inputs))
            parts: list[Any] = []
            outputs: list[int] = []
            values: list[Array] = []
            for leaf in out_leaves:
                if type(leaf) is Tensor:
                    values.append(leaf._value)
                    on = leaf._tape is tape and leaf._vid >= 0
                    outputs.append(leaf._vid if on else capture.enter(tape, leaf))
                elif isinstance(leaf, np.ndarray):
                    values.append(leaf)
                    outputs.append(capture.enter(tape, leaf))
                else:
                    parts.append(Static(leaf))
                    continue
                parts.append(len(outputs) - 1)
    finally:
        tape.end()
    result = Result(parts, spec)
    value = result.of([np.array(value) for value in values])
    capture.settle()
    program = program_of(tape, capture, entered, outputs)
    return Captured(program, result, value, capture)


def traced(
    f: Callable[..., Any],
    call: Callable[[Sequence[Any]], Any],
    leaves: Sequence[Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Trace, Any]:
    """Trace a function; return the trace and the function's result.

    ``call`` calls ``f`` with arguments made of the tensors that stand for ``leaves``; ``args`` and ``kwargs`` are all
    of its arguments.
    """
    program, result, value, capture = captured(call, leaves)
    surroundings = Surroundings(f, args, kwargs)  # as the function has left them
    snapshots = []
    if _computed_outside(capture, surroundings):
        snapshots = [(array, array.copy()) for array in surroundings.arrays.values()]
    return Trace(optimised(program), result, surroundings, snapshots), value


def _computed_outside(capture: Capture, surroundings: Surroundings) -> bool:
    """Tell whether a value of the trace may have been computed by NumPy itself, from arrays that change."""
    if any(id(array) not in surroundings.arrays for array in capture.arrays.values()):
        return True
    return any(
        isinstance(constant, np.generic) or (type(constant) is float and constant not in surroundings.numbers)
        for constant in capture.constants.values()
    )


class _Signature:
    """The traces of one kind of arguments, the latest good one first."""

    __slots__ = ("traces", "warned")

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.warned = False


class Jitted(Generic[P, R]):
    """What `jit` returns: calls like the function that it was made of."""

    def __init__(self, f: Callable[P, R], static_argnums: tuple[int, ...], static_argnames: tuple[str, ...]) -> None:
        self._f = f
        self._static_argnums = static_argnums
        self._static_argnames = static_argnames
        self._cache: OrderedDict[Any, _Signature] = OrderedDict()
        self._lock = threading.RLock()
        self._hits = self._misses = 0
        self._latest: Trace | None = None  # that was replayed
        functools.update_wrapper(self, f, updated=())
        self._native = NativeCall(getattr(f, "__name__", "jitted"), self._call)
        # a call through a class whose __call__ is a built-in function runs no Python
        self.__class__ = type("Jitted", (Jitted,), {"__call__": self._native.function, "__module__": __name__})

    def __repr__(self) -> str:
        return f"<jit of {getattr(self._f, '__qualname__', repr(self._f))}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method does."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function: replay its trace, if there is one for such arguments."""
        result: R = self._call(*args, **kwargs)
        return result

    def _call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function: by replay, if it has been traced for such arguments."""
        leaves, spec, key = self._arguments(args, kwargs)
        if key is None:
            return self._f(*args, **kwargs)
        signature = self._cache.get(key)
        if signature is None:
            return self._trace(_Signature(), key, leaves, spec, args, kwargs)
        for trace in signature.traces:
            if trace.is_good():
                return self._replay(trace, signature, key, leaves, spec, args, kwargs)
        return self._trace(signature, key, leaves, spec, args, kwargs)

    def _replay(
        self, trace: Trace, signature: _Signature, key: Any, leaves: list[Any], spec: Any, args: Any, kwargs: Any
    ) -> Any:
        inputs = [contiguous(leaf) for leaf in leaves]
        tried = {id(trace)}
        while True:
            try:
                outputs = trace.plan.run(inputs)
            except Missed as missed:
                others = [
                    other
                    for other in signature.traces
                    if id(other) not in tried and other.begins_like(trace, missed) and other.is_good()
                ]
                if not others:
                    return self._trace(signature, key, leaves, spec, args, kwargs, missed)
                trace = others[0]
                tried.add(id(trace))
                continue
            self._hits += 1
            self._install(trace, args, kwargs)
            if signature.traces[0] is not trace:
                with self._lock:
                    if trace in signature.traces:
                        signature.traces.remove(trace)
                    signature.traces.insert(0, trace)
            return trace.result.of(outputs)

    def _install(self, trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let native code answer calls like this one, if it can, from the second in a row for one trace on."""
        latest, self._latest = self._latest, trace
        if latest is not trace:
            return
        checks = trace.surroundings.by_identity()
        if kwargs or self._static_argnums or checks is None or trace.snapshots:
            return
        form = trace.result.form()
        if form is None:
            return
        with self._lock, suppress(Unsuitable):
            self._native.install(trace.plan, args, checks, form)

    def _trace(
        self,
        signature: _Signature,
        key: Any,
        leaves: list[Any],
        spec: Any,
        args: Any,
        kwargs: Any,
        missed: Missed | None = None,
    ) -> Any:
        def call(tensors: Sequence[Any]) -> Any:
            dynamic = iter(tensors)
            filled = [next(dynamic) if is_traced(leaf) else leaf for leaf in spec[1]]
            positional, named = optree.tree_unflatten(spec[0], filled)
            arguments = list(positional)
            for position in sorted(n for n in self._static_argnums if n < len(args)):
                arguments.insert(position, args[position])
            return self._f(*arguments, **named, **{n: kwargs[n] for n in self._static_argnames if n in kwargs})

        made, result = traced(self._f, call, leaves, args, kwargs)
        with self._lock:
            self._misses += 1
            signature.traces = [made, *[t for t in signature.traces if t.surroundings.changed() is None]][:MAX_TRACES]
            self._cache[key] = signature
            self._cache.move_to_end(key)
            while len(self._cache) > MAX_SIGNATURES:
                self._cache.popitem(last=False)
            warn = len(signature.traces) >= _MANY_TRACES and not signature.warned
            signature.warned |= warn
        if warn and missed is not None:
            where = missed.step.location
            name = getattr(self._f, "__qualname__", "f")
            warnings.warn(RetraceWarning.guards(name, len(signature.traces), where), stacklevel=4)
        return result

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """Return the leaves that are traced, the structure, and the key; no key where the call is not for a plan."""
        if context.current_trace() is not None:  # another transform's, which is to see what is done
            return [], None, None
        statics: tuple[Any, ...] = ()
        if self._static_argnums or self._static_argnames:
            statics = (
                tuple([(n, _hashable(args[n])) for n in self._static_argnums if n < len(args)]),
                tuple([(n, _hashable(kwargs[n])) for n in self._static_argnames if n in kwargs]),
            )
            args = tuple([arg for n, arg in enumerate(args) if n not in self._static_argnums])
            kwargs = {n: arg for n, arg in kwargs.items() if n not in self._static_argnames}
        leaves, spec = flatten((args, kwargs))
        dynamic: list[Any] = []
        kinds: list[Any] = []
        for leaf in leaves:
            if type(leaf) is np.ndarray:
                if leaf.dtype.kind not in _TRACED_KINDS:
                    raise JitTypeError.dtype(leaf.dtype)
                kinds.append(array_type(leaf.shape, leaf.dtype))
                dynamic.append(leaf)
            elif type(leaf) is float or type(leaf) is complex:
                kinds.append(type(leaf))
                dynamic.append(leaf)
            elif type(leaf) is Tensor:
                return [], None, None
            elif isinstance(leaf, (np.generic, np.ndarray)) and leaf.dtype.kind in _TRACED_KINDS:
                check_class(leaf)
                kinds.append((type(leaf), leaf.shape, leaf.dtype))
                dynamic.append(leaf)
            else:
                kinds.append((type(leaf), _hashable(leaf)))
        key = (spec, tuple(kinds), statics)
        try:
            hash(key)
        except TypeError:
            raise JitTypeError.unhashable() from None
        return dynamic, (spec, leaves), key

    def cache_info(self) -> CacheInfo:
        """Return how many calls were replayed (hits) and traced (misses), and how many traces there are."""
        with self._lock:
            traces = sum(len(signature.traces) for signature in self._cache.values())
            return CacheInfo(self._hits + self._native.hits, self._misses, MAX_SIGNATURES, traces)

    def cache_clear(self) -> None:
        """Forget all traces."""
        with self._lock:
            self._cache.clear()
            self._native.clear()
            self._latest = None
            self._hits = self._misses = 0


def _hashable(static: Any) -> Any:
    """Return a static argument as it is looked up: slices are hashable from Python 3.12 on only."""
    if type(static) is slice:
        return slice, static.start, static.stop, static.step
    return tuple(map(_hashable, static)) if type(static) is tuple else static


def is_traced(leaf: Any) -> bool:
    """Tell whether a leaf of the arguments is an input of the trace, rather than a part of its key."""
    return isinstance(leaf, (np.ndarray, np.generic)) or type(leaf) is float or type(leaf) is complex


def _numbers(argnums: int | Iterable[int]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _names(argnames: str | Iterable[str]) -> tuple[str, ...]:
    return (argnames,) if isinstance(argnames, str) else tuple(argnames)


def jit(
    f: Callable[P, R],
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
) -> Jitted[P, R]:
    """Return a function that computes what ``f`` does, without running its Python.

    The first call with arguments of some structure, shapes and dtypes traces ``f``: it runs, on the real arguments, and
    what it does with them is recorded, optimised and laid out as a plan of native calls. Later calls replay the plan.
    Branches and loops on values are free: what Python looked at is checked at every replay, and where it is not what it
    was, ``f`` is traced again, and both traces are kept.

    Parameters
    ----------
    f : callable
        A function of arrays and numbers, in trees, written in NumPy, Python operators and jitgrad's functions, among
        them its transforms.
    static_argnums, static_argnames : int, str or iterable of them
        Arguments that are no arrays, and hashable: ``f`` is traced for each value of theirs. Integers, booleans and
        strings are so without being named; floats and arrays are not.

    Returns
    -------
    Jitted
        Has the signature of ``f``. Its arrays are the caller's: no later call writes to them.

    Raises
    ------
    JitTypeError
        For an argument that is neither a number, an array, nor hashable.

    Notes
    -----
    Arrays that ``f`` closes over are read anew at every call. Other values that it reads from closures, globals and
    stored attributes are checked. What it does beside computing its result (printing, drawing random numbers, changing
    a global) happens while it is traced, and not in replays.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> gradient = jg.jit(jg.grad(lambda x: np.sum(x**3)))
    >>> gradient(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> gradient(np.array([2.0, 3.0]))
    array([12., 27.])
    >>> gradient.cache_info()
    CacheInfo(hits=1, misses=1, maxsize=256, currsize=1)
    """
    if not callable(f):
        raise JitTypeError.function(f)
    return Jitted(f, _numbers(static_argnums), _names(static_argnames))
