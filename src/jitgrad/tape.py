"""Tapes to keep: a traced function as data, that can be printed, replayed, differentiated, saved and loaded."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec

import numpy as np
import optree

from jitgrad.core.capture import Guard, capture_of
from jitgrad.core.op import REGISTRY, Op
from jitgrad.core.protocol import OPERAND
from jitgrad.core.types import ArrayType, array_type
from jitgrad.errors import TapeError
from jitgrad.machine.memory import contiguous
from jitgrad.machine.passes import fuse, reduced
from jitgrad.machine.plan import Missed, Plan
from jitgrad.machine.program import GUARD, Instruction, Program
from jitgrad.transforms.derivatives import jvp, vjp
from jitgrad.transforms.jit import Result, Static, captured, is_traced
from jitgrad.transforms.trace import flatten

__all__ = ["Stats", "Tape", "trace"]

P = ParamSpec("P")
Array = np.ndarray[Any, Any]


class Stats(NamedTuple):
    """The size of a tape."""

    instructions: int
    rows: int  # native calls of a replay
    python_steps: int  # instructions that a replay runs in Python
    buffers: int
    bytes: int  # of the arena that the buffers share
    flops: int  # additions and multiplications of one replay; an elementwise operation counts as one an element


class Tape:
    """A traced function: instructions over numbered values, without the function.

    Made by `trace`. Immutable; it may be called from many threads at once.
    """

    def __init__(self, program: Program, arguments: optree.PyTreeSpec, result: Result) -> None:
        self._program = program
        self._arguments = arguments
        self._result = result

    @functools.cached_property
    def _plan(self) -> Plan:
        return Plan(fuse(self._program))

    def __len__(self) -> int:
        """Return the number of instructions."""
        return len(self._program)

    def __repr__(self) -> str:
        inputs = ", ".join(str(self._program.types[value]) for value in self._program.inputs)
        return f"<Tape of {len(self)} instructions ({inputs})>"

    def __str__(self) -> str:
        return listing(self._program)

    def __call__(self, *args: Any) -> Any:
        """Replay the tape on arguments of the same structure, shapes and dtypes.

        Raises
        ------
        TapeError
            If the arguments are not such, or a guard does not hold: the function would have gone another way.
        """
        outputs = self._run(self._leaves(args))
        return self._result.of(outputs)

    def _leaves(self, args: Sequence[Any]) -> list[Array]:
        leaves, spec = flatten(tuple(args))
        if spec != self._arguments:
            raise TapeError.structure(str(self._arguments), str(spec))
        arrays = []
        for leaf, value in zip(leaves, self._program.inputs, strict=True):
            array = contiguous(leaf)
            expected = self._program.types[value]
            if array.shape != expected.shape or array.dtype != expected.dtype:
                raise TapeError.argument(str(expected), str(array_type(array.shape, array.dtype)))
            arrays.append(array)
        return arrays

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        try:
            return self._plan.run(arrays)
        except Missed as missed:
            where = missed.step.location
            raise TapeError.guard(None if where is None else (where.file, where.line)) from None

    def _on(self, *inputs: Any) -> Any:
        """Run the instructions one by one, on arrays or tensors."""
        return interpreted(self._program, inputs)

    def vjp(self) -> Tape:
        """Return the tape of the function ``(*args, cotangents) -> (result, cotangents of args)``.

        ``cotangents`` is a tuple with one array for each array of the result; so is what comes back for each float or
        complex array among the arguments.

        Examples
        --------
        >>> import numpy as np
        >>> import jitgrad as jg
        >>> tape = jg.trace(lambda x, y: x * y)(2.0, 3.0)
        >>> tape.vjp()(2.0, 3.0, (1.0,))
        (np.float64(6.0), (np.float64(3.0), np.float64(2.0)))
        """
        varying, outputs = self._varying(), self._program.outputs

        def pull(leaves: Sequence[Any], bars: Sequence[Any]) -> Any:
            def of(*moving: Any) -> Any:
                filled = list(leaves)
                for place, value in zip(varying, moving, strict=True):
                    filled[place] = value
                return tuple(self._on(*filled))

            results, pullback = vjp(of, *[leaves[place] for place in varying])
            return results, pullback(tuple(bars))

        bars = [self._sample(value) for value in outputs]
        return self._derived(pull, bars, _tuple_of(len(bars)))

    def jvp(self) -> Tape:
        """Return the tape of the function ``(*args, tangents) -> (result, tangents of the result)``.

        ``tangents`` is a tuple with one array for each float or complex array among the arguments; so is what comes
        back for each array of the result.

        Examples
        --------
        >>> import jitgrad as jg
        >>> tape = jg.trace(lambda x, y: x * y)(2.0, 3.0)
        >>> tape.jvp()(2.0, 3.0, (1.0, 0.0))
        (np.float64(6.0), (np.float64(3.0),))
        """
        varying = self._varying()

        def push(leaves: Sequence[Any], moves: Sequence[Any]) -> Any:
            def of(*moving: Any) -> Any:
                filled = list(leaves)
                for place, value in zip(varying, moving, strict=True):
                    filled[place] = value
                return tuple(self._on(*filled))

            return jvp(of, tuple([leaves[place] for place in varying]), tuple(moves))

        moves = [self._sample(self._program.inputs[place]) for place in varying]
        return self._derived(push, moves, _tuple_of(len(moves)))

    def _varying(self) -> list[int]:
        """The places of the inputs that derivatives are taken by."""
        types = self._program.types
        return [place for place, value in enumerate(self._program.inputs) if types[value].inexact]

    def _sample(self, value: int) -> Array:
        """Any values of a type: integers may be indices, so that they are zeros."""
        described = self._program.types[value]
        return np.full(described.shape, 1 if described.inexact else 0, described.dtype)

    def _derived(self, function: Callable[..., Any], extra: list[Array], spec: optree.PyTreeSpec) -> Tape:
        """Trace a function of the inputs' leaves and of ``extra``; put its first result together as this tape's."""
        n_outputs = len(self._program.outputs)

        def call(tensors: Sequence[Any]) -> Any:
            n = len(self._program.inputs)
            return function(tensors[:n], tensors[n:])

        leaves = [self._sample(value) for value in self._program.inputs]
        program, result, *_ = captured(call, [*leaves, *extra])
        arguments = optree.treespec_tuple((*self._arguments.children(), spec))
        parts: list[Any] = list(self._result.leaves)
        rest = list(range(n_outputs, len(program.outputs)))
        pair = optree.treespec_tuple((self._result.spec, _tuple_of(len(rest))))
        del result
        return Tape(reduced(program), arguments, Result([*parts, *rest], pair))

    def stats(self) -> Stats:
        """Return how large the tape is, and what a replay does.

        Examples
        --------
        >>> import numpy as np
        >>> import jitgrad as jg
        >>> jg.trace(lambda x: np.sum(x * 2.0))(np.ones(10)).stats().instructions
        2
        """
        plan = self._plan
        rows = sum(1 for step in plan.steps if isinstance(step, tuple))
        buffers = [storage for storage in plan.storages if storage.kind == "arena"]
        flops = sum(_flops(instruction, self._program.types) for instruction in self._program.instructions)
        return Stats(len(self), rows, len(plan.steps) - rows, len(buffers), plan.arena_bytes, flops)

    # -- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tape to a file, which `load` reads in any process: it needs none of the function's source.

        The file is an archive of arrays (``numpy.load`` opens it) with a description in JSON. Arrays that the function
        closed over are saved as they are now.
        """
        program = self._program
        arrays: list[Array] = []

        def encode(value: Any) -> Any:
            return _encoded(value, arrays)

        described = {
            "version": 1,
            "types": [[list(t.shape), t.dtype.str] for t in program.types],
            "inputs": list(program.inputs),
            "outputs": list(program.outputs),
            "weak": sorted(program.weak),
            "constants": [
                [value, encode(constant)] for value, constant in {**program.constants, **program.arrays}.items()
            ],
            "instructions": [
                [i.op.name, list(i.operands), list(i.results), encode(i.params)] for i in program.instructions
            ],
            "arguments": _structure(self._arguments),
            "result": _structure(self._result.spec),
            "parts": [["static", encode(p.value)] if isinstance(p, Static) else p for p in self._result.leaves],
        }
        text = np.frombuffer(json.dumps(described).encode(), np.uint8)
        with open(path, "wb") as file:
            named: dict[str, Any] = {f"a{k}": array for k, array in enumerate(arrays)}
            np.savez(file, tape=text, **named)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Tape:
        """Read a tape that `save` has written."""
        with np.load(path, allow_pickle=False) as archive:
            if "tape" not in archive:
                raise TapeError.file(os.fspath(path))
            described = json.loads(archive["tape"].tobytes().decode())
            arrays = {name: archive[name] for name in archive.files if name != "tape"}
        if described.get("version") != 1:
            raise TapeError.file(os.fspath(path))

        def decode(value: Any) -> Any:
            return _decoded(value, arrays)

        instructions = []
        for name, operands, results, params in described["instructions"]:
            if name != GUARD.name and name not in REGISTRY:
                raise TapeError.unknown_op(name)
            op = GUARD if name == GUARD.name else REGISTRY[name]
            instructions.append(Instruction(op, tuple(operands), decode(params), tuple(results), None, 0))
        program = Program(
            [array_type(tuple(shape), np.dtype(dtype)) for shape, dtype in described["types"]],
            tuple(described["inputs"]),
            set(described["weak"]),
            {value: decode(constant) for value, constant in described["constants"]},
            {},
            instructions,
            tuple(described["outputs"]),
        )
        parts = [Static(decode(part[1])) if isinstance(part, list) else part for part in described["parts"]]
        return Tape(program, _spec(described["arguments"]), Result(parts, _spec(described["result"])))


def _tuple_of(n: int) -> optree.PyTreeSpec:
    return flatten((0.0,) * n)[1]


class _Tracer(Generic[P]):
    """What `trace` returns: called with arguments, it gives a tape."""

    def __init__(self, f: Callable[P, Any]) -> None:
        self._f = f
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Tape:
        """Run the function on these arguments, and return the tape of what it has done."""
        if kwargs:
            raise TapeError.keywords(sorted(kwargs))
        leaves, spec = flatten(tuple(args))
        for leaf in leaves:
            if not is_traced(leaf):
                raise TapeError.leaf(type(leaf))

        def call(tensors: Sequence[Any]) -> Any:
            f: Callable[..., Any] = self._f
            return f(*optree.tree_unflatten(spec, tensors))

        program, result, *_ = captured(call, leaves)
        return Tape(reduced(program), spec, result)


def trace(f: Callable[P, Any]) -> _Tracer[P]:
    """Return a function that gives the `Tape` of ``f`` for the arguments that it is called with.

    Parameters
    ----------
    f : callable
        A function of arrays and floats, in trees. To fix other arguments, use `functools.partial`.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> tape = jg.trace(jg.grad(lambda x: np.sum(x**3)))(np.ones(2))
    >>> tape(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    return _Tracer(f)


def interpreted(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Run a program's instructions one by one, on arrays or on tensors, which record them."""
    values: dict[int, Any] = dict(zip(program.inputs, inputs, strict=True))
    values.update(program.constants)
    values.update(program.arrays)
    for instruction in program.instructions:
        operands = [values[value] for value in instruction.operands]
        if instruction.op is GUARD:
            _guard(operands[0], instruction)
            continue
        if not isinstance(instruction.op, Op):
            raise TypeError(f"{instruction.op!r} is no operation")
        out = instruction.op(*operands, **instruction.params)
        values.update(zip(instruction.results, out if len(instruction.results) > 1 else (out,), strict=True))
    return [values[value] for value in program.outputs]


def _guard(operand: Any, instruction: Instruction) -> None:
    """Let a tape that is derived from a program have the program's guards; it is traced on any values."""
    capture = capture_of(operand)
    if capture is not None:
        tape = operand._tape
        seen = instruction.params["seen"]
        capture.guards.append(Guard(len(tape), operand._vid, seen, instruction.code, instruction.lasti))


# -- printing --------------------------------------------------------------------------------------------------


def listing(program: Program) -> str:
    """Return a program as text, an instruction a line, with types and the user's lines."""
    lines: list[tuple[str, str]] = []

    def name(value: int) -> str:
        constant = program.constants.get(value)
        if constant is not None and np.ndim(constant) == 0 and not isinstance(constant, np.ndarray):
            return repr(constant)
        return f"%{value}"

    lines += [(f"%{value}: {program.types[value]} = input", "") for value in program.inputs]
    lines += [(f"%{value}: {program.types[value]} = array from outside", "") for value in program.arrays]
    for value, constant in program.constants.items():
        if name(value).startswith("%"):
            lines.append((f"%{value}: {program.types[value]} = constant {_short(constant)}", ""))
    for instruction in program.instructions:
        operands = " ".join(map(name, instruction.operands))
        results = ", ".join(f"%{value}: {program.types[value]}" for value in instruction.results)
        params = ", ".join(f"{key}={_short(item)}" for key, item in instruction.params.items())
        text = f"{results} = " if results else ""
        text += f"{instruction.op.name} {operands}" + (f" [{params}]" if params else "")
        where = instruction.location
        lines.append((text, "" if where is None else f"{os.path.basename(where.file)}:{where.line}"))
    lines.append(("return " + ", ".join(map(name, program.outputs)), ""))
    width = min(max(len(text) for text, _ in lines), 100)
    return "\n".join(f"{text:<{width}}  # {where}" if where else text for text, where in lines)


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=4, edgeitems=2, precision=4).replace("\n", "")
        return text if len(text) < 40 else f"{value.dtype}{list(value.shape)}"
    return repr(value)


def _flops(instruction: Instruction, types: Sequence[ArrayType]) -> int:
    if not instruction.results:
        return 0
    if instruction.op.name in ("contraction", "matmul"):
        x, y = (types[value].shape for value in instruction.operands)
        out = types[instruction.results[0]].shape
        # each label of the three shapes stands in two of them
        return 2 * math.isqrt(max(math.prod(x) * math.prod(y) * math.prod(out), 0))
    if isinstance(instruction.op, Op) and instruction.op.view:
        return 0
    return max(types[value].size for value in (*instruction.operands, *instruction.results))


# -- encoding --------------------------------------------------------------------------------------------------


def _encoded(value: Any, arrays: list[Array]) -> Any:
    """Write a parameter as JSON: a pair of a kind and what it holds."""
    if value is OPERAND:
        return ["operand"]
    if value is ...:
        return ["ellipsis"]
    if value is None or isinstance(value, (bool, str)):
        return ["plain", value]
    if type(value) is int:
        return ["int", str(value)]
    if type(value) is float:
        return ["float", value.hex()]
    if type(value) is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, np.dtype):
        return ["dtype", value.str]
    if isinstance(value, np.generic):
        return ["scalar", _encoded(np.asarray(value), arrays)]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value)
        return ["array", f"a{len(arrays) - 1}"]
    if isinstance(value, slice):
        return ["slice", *[_encoded(end, arrays) for end in (value.start, value.stop, value.step)]]
    if type(value) in (tuple, list):
        return [type(value).__name__, *[_encoded(item, arrays) for item in value]]
    if type(value) is dict:
        return ["dict", *[[_encoded(key, arrays), _encoded(item, arrays)] for key, item in value.items()]]
    if isinstance(value, type) and issubclass(value, np.generic):
        return ["type", np.dtype(value).str]
    raise TapeError.parameter(type(value))


def _decoded(value: Any, arrays: dict[str, Array]) -> Any:
    kind, *rest = value
    simple: dict[str, Callable[..., Any]] = {
        "operand": lambda: OPERAND,
        "ellipsis": lambda: ...,
        "plain": lambda item: item,
        "int": int,
        "float": float.fromhex,
        "complex": lambda real, imag: complex(float.fromhex(real), float.fromhex(imag)),
        "dtype": np.dtype,
        "type": lambda name: np.dtype(name).type,
        "scalar": lambda item: _decoded(item, arrays)[()],
        "array": lambda name: arrays[name],
        "slice": lambda *ends: slice(*[_decoded(end, arrays) for end in ends]),
        "tuple": lambda *items: tuple([_decoded(item, arrays) for item in items]),
        "list": lambda *items: [_decoded(item, arrays) for item in items],
        "dict": lambda *pairs: {_decoded(key, arrays): _decoded(item, arrays) for key, item in pairs},
    }
    return simple[kind](*rest)


def _structure(spec: optree.PyTreeSpec) -> Any:
    """Write a structure of tuples, lists and dicts as JSON."""
    if spec.is_leaf():
        return "*"
    if spec.type is type(None):
        return None
    children = [_structure(child) for child in spec.children()]
    if spec.type is tuple or spec.type is list:
        return [spec.type.__name__, *children]
    if spec.type is dict and all(isinstance(key, str) for key in spec.entries()):
        return ["dict", *zip(spec.entries(), children, strict=True)]
    raise TapeError.container(spec.type or object)


def _spec(described: Any) -> optree.PyTreeSpec:
    def example(part: Any) -> Any:
        if part == "*":
            return 0.0
        if part is None:
            return None
        kind, *children = part
        if kind == "dict":
            return {key: example(child) for key, child in children}
        return (tuple if kind == "tuple" else list)([example(child) for child in children])

    return flatten(example(described))[1]
