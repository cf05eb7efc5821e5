"""What an op is: one declaration that says how it runs, how it is differentiated, and how it is tested.

`apply` runs an op on arguments among which are tensors, and records it. Everything else about an op is read from its
declaration: what to keep for the reverse replay from the names that its rules mention, the forward rule from the VJP
rule by transposition, the NumPy functions that it answers for, its samples for the law tests and the benchmarks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import native, trace
from jitgrad.core.location import user_frame
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, constant, on_tape
from jitgrad.core.types import ArrayType, check_class, type_of
from jitgrad.errors import LeakedTensorError
from jitgrad.kernels import layout as L

__all__ = ["FUNCTIONS", "NAMESPACE", "REGISTRY", "Op", "Rule", "Samples", "apply", "constant_id", "leaf_id", "recorded"]

Array = np.ndarray[Any, Any]
Samples = Callable[[np.random.Generator], Iterable[tuple[tuple[Any, ...], dict[str, Any]]]]

REGISTRY: dict[str, Op] = {}  # by name
OPS: list[Op] = []  # by opcode
CALLS: list[tuple[Callable[..., Any] | None, ...] | None] = []  # by opcode: `Op.calls`, once they have been needed
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}  # NumPy's function: the one of ours that answers for it
NAMESPACE: dict[str, Callable[..., Any]] = {}  # the names of jitgrad.numpy


_PLAIN = (np.ndarray, float, int)


class Rule:
    """The VJP rule of one operand: a function of the cotangent and of what its parameters name.

    The positional parameters of ``function`` are, in any order: ``g``, the result's cotangent (a tuple of them for an
    op of several results); the name of an operand, for its value; ``out``, for the result; an operand's name followed
    by ``_t``, for its `ArrayType` only, which costs no memory. Keyword-only parameters are the op's static ones. For an
    op of any number of operands, they are ``g``, ``k`` (which operand), ``xs``, ``xs_t`` and ``out``.
    """

    __slots__ = ("_call", "_source", "function", "needs_out", "operand_values")

    def __init__(self, function: Callable[..., Any], operands: tuple[str, ...] | None) -> None:
        self.function = function
        arguments: list[str] = []
        needed: list[int] | None = []  # None: all of them
        self.needs_out = False
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                arguments.append(f"{name}=params[{name!r}]")
            elif operands is not None and name in operands:
                at = operands.index(name)
                arguments.append(f"values[{at}]")
                if needed is not None:
                    needed.append(at)
            elif operands is not None and name.removesuffix("_t") in operands:
                arguments.append(f"types[{operands.index(name.removesuffix('_t'))}]")
            elif name in ("g", "out", "k"):
                arguments.append(name)
                self.needs_out |= name == "out"
            elif name in ("xs", "xs_t") and operands is None:
                arguments.append("values" if name == "xs" else "types")
                needed = None if name == "xs" else needed
            else:
                raise TypeError(f"the rule {function} has a parameter {name!r}, which is no operand of its op")
        self.operand_values = None if needed is None else tuple(needed)
        self._source = f"lambda k, g, values, types, out, params: rule({', '.join(arguments)})"
        self._call: Callable[..., Any] | None = None

    @property
    def call(self) -> Callable[..., Any]:
        """The rule as a function ``(k, g, values, types, out, params)``, all of which are of one row of a tape."""
        if self._call is None:
            self._call = eval(self._source, {"rule": self.function})
        return self._call


class Op:
    """An operation that tapes can hold.

    Parameters
    ----------
    name : str
        Unique; it is what a saved tape knows the op by.
    forward : callable
        Computes the result (or a tuple of ``n_results``) from arrays and static parameters, as NumPy would.
    operands : tuple of str, optional
        Names of the operands; None for any number of them, which then are called ``xs``.
    linear : {"each", "jointly"}, optional
        The op is linear in each operand by itself (a product), or in all together (a sum, a concatenation): its JVP
        is then the op itself.
    view : bool
        The result may be a strided view of the one operand.
    node : str, optional
        What PyTorch calls its node in the graph, without ``Backward0``.
    node_of : callable, optional
        The same as a function of the operands' types (None for one that was not kept) and the static parameters, where
        one op stands for several of PyTorch's.
    numpy : tuple of callables
        NumPy functions that stand for exactly this op with these operands and parameters.
    as_view : callable, optional
        As ``forward``, but the result is a view of the operand wherever NumPy can make one. Defaults to ``forward``
        for an op that is a view.
    rows : callable, optional
        ``rows(builder, operands, out, **params)`` writes the op as native calls of a compiled plan
        (`jitgrad.machine.lowering`), and returns whether it could. Elementwise ops need none.
    samples : callable
        ``samples(rng)`` yields ``(args, params)``: what the law tests and the benchmarks run the op on.
    rules : dict
        VJP rules by operand name, ``xs`` for an op of any number of operands. An operand without a rule has no
        derivative: asking for it is an error, unless the name stands in ``discrete``.
    """

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        operands: tuple[str, ...] | None,
        *,
        rules: dict[str, Callable[..., Any]],
        samples: Samples | None,
        linear: str | None = None,
        view: bool = False,
        n_results: int = 1,
        node: str | None = None,
        node_of: Callable[[list[ArrayType | None], dict[str, Any]], str] | None = None,
        numpy: Sequence[Callable[..., Any]] = (),
        discrete: Sequence[str] = (),
        doc: str | None = None,
        as_view: Callable[..., Array] | None = None,
        rows: Callable[..., bool] | None = None,
    ) -> None:
        if name in REGISTRY:
            raise ValueError(f"an op called {name!r} exists already")
        self.name = name
        self.index = len(OPS)
        self.forward = forward
        self.operands = operands
        self.linear = linear
        self.view = view
        self.as_view = forward if view and as_view is None else as_view
        self.rows = rows
        self.n_results = n_results
        self.node = node or "".join(part.capitalize() for part in name.split("_"))
        self.node_of = node_of
        self.numpy = tuple(numpy)
        self.samples = samples
        self.discrete = frozenset(discrete)
        self.rules = {key: Rule(function, operands) for key, function in rules.items()}
        self._needs: dict[tuple[bool, ...], tuple[tuple[int, ...], bool, int]] = {}
        self.by_operand = [self.rules.get(operand) for operand in operands] if operands is not None else []
        self.is_native = self._tell_needs() and not view and n_results == 1 and bool(rules)
        self.__name__ = name
        self.__doc__ = doc or forward.__doc__
        REGISTRY[name] = self
        OPS.append(self)
        CALLS.append(None)
        for function in self.numpy:
            FUNCTIONS[function] = self
            NAMESPACE[function.__name__] = self

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Run the op: on arrays it returns arrays, and records nothing."""
        for arg in args:
            if type(arg) is Tensor:
                return apply(self, args, params)
        return self.forward(*args, **params)

    def __reduce__(self) -> Any:
        return _find, (self.name,)

    def node_name(self, tape: Tape, row: Sequence[int]) -> str:
        """Return the name of the node of one of the op's rows."""
        node = self.node
        if self.node_of is not None:
            types = [tape.types[value] if value >= 0 else None for value in tape.operands_of(row)]
            node = self.node_of(types, tape.params_of(row))
        return node + "Backward0"

    @property
    def calls(self) -> tuple[Callable[..., Any] | None, ...]:
        """The rules of all operands as `Rule.call`, or the one rule of an op of any number of operands."""
        rules = [self.rules.get("xs")] if self.operands is None else self.by_operand
        return tuple([None if rule is None else rule.call for rule in rules])

    def is_discrete(self, k: int) -> bool:
        """Tell whether the result does not vary with operand ``k``, so that it needs no rule."""
        return ("xs" if self.operands is None else self.operands[k]) in self.discrete

    def rule_of(self, k: int) -> Rule | None:
        """Return the VJP rule of operand ``k``."""
        return self.rules.get("xs") if self.operands is None else self.by_operand[k]

    def needs(self, on_tape: tuple[bool, ...]) -> tuple[tuple[int, ...], bool, int]:
        """Return what the rules of the operands on the tape mention, remembered by which these are.

        Returns
        -------
        operands : tuple of int
            The operands whose values they mention.
        result : bool
            Whether they mention the result.
        keeps : int
            Both, as a row of a tape has it.
        """
        found = self._needs.get(on_tape)
        if found is None:
            wanted: set[int] = set()
            out = False
            for k, recorded in enumerate(on_tape):
                rule = self.rule_of(k) if recorded else None
                if rule is not None:
                    wanted.update(range(len(on_tape)) if rule.operand_values is None else rule.operand_values)
                    out |= rule.needs_out
            mask = L.KEEPS_RESULT if out else 0
            for k in wanted:
                mask |= 1 << k if k < 61 else L.KEEPS_ALL
            found = self._needs[on_tape] = tuple(sorted(wanted)), out, mask
        return found

    def _tell_needs(self) -> bool:
        """Tell native code what the rules mention. Return whether that is the same for each number of operands."""
        if self.operands is None:
            rule = self.rules.get("xs")
            patterns: list[tuple[bool, ...]] = [()] if rule is None or rule.operand_values is None else [(True,)] * 8
        else:
            n = len(self.operands)
            patterns = [tuple([bool(mask >> k & 1) for k in range(n)]) for mask in range(1 << n)]
        if not 1 < len(patterns) <= 8:
            return False
        kept = [self.needs(pattern)[2] for pattern in patterns]
        native.KERNELS[2 * self.index : 2 * self.index + 2, L.KERNEL_KEEPS : L.KERNEL_KEEPS + len(kept)] = kept
        return True

    def record(self, tape: Tape, args: Sequence[Any], values: list[Any], out: Any, params: dict[str, Any]) -> Any:
        """Append the op, which has run, to the tape, and return handles of its results."""
        several = type(out) is tuple
        results = tuple(map(np.asarray, out)) if several else (np.asarray(out),)
        tape.reserve(len(args) + 3 + 2 * results[0].ndim, len(args) + len(results))
        ids = operand_ids(tape, args)
        wanted, keep_out, keeps = self.needs(tuple([vid >= 0 for vid in ids]))
        for k in wanted:
            value = np.asarray(values[k])
            if ids[k] == L.CONSTANT:
                ids[k] = constant_id(tape, args[k], value)
            tape.kept.setdefault(ids[k], value)
        if self.view and not keeps:
            handle = record_view(tape, self, values[0], ids[0], results[0], params)
            if handle is not None:
                return handle
        vid = tape.append(self.index, L.KIND_RULE, ids, results, params, keeps=keeps)
        if keep_out:
            tape.kept.update(enumerate(results, vid))
        if not several:
            return on_tape(results[0], tape, vid, tape.types[vid])
        return tuple(on_tape(value, tape, vid + k, tape.types[vid + k]) for k, value in enumerate(results))


def _find(name: str) -> Op:
    return REGISTRY[name]


def record_view(tape: Tape, op: Op, base: Array, base_id: int, out: Array, params: dict[str, Any]) -> Tensor | None:
    """Append a row that native code can replay by strides alone, if ``out`` is such a view of ``base``."""
    frame = user_frame(3)
    code = frame.f_code
    tape.codes[id(code)] = code
    vid = tape.count
    kind = type_of(out)
    place = len(tape.params)
    tape.params.append(params)
    try:
        row = native.view(tape.header, op.index, code, frame.f_lasti, base, base_id, out, place)
        if row is None:
            tape.params.pop()
            return None
        tape.types.append(kind)
    except BaseException:
        tape.mend([kind])
        raise
    return on_tape(out, tape, vid, kind)


def constant_id(tape: Tape, arg: Any, value: Array) -> int:
    """Enter an operand that is on no tape, because a rule will need it; return its id."""
    if type(arg) is not Tensor:
        vid, tape_value = tape.define_users(value)
        tape.kept[vid] = tape_value
        return vid
    vid = tape.define(value)
    if arg._leaf is not None:  # its memory may be written to
        tape.versions[vid] = (arg._leaf.version, arg._leaf.version.count)
    return vid


def leaf_id(tape: Tape, tensor: Tensor) -> int:
    """Return the id on ``tape`` of a tensor from outside it: a leaf, or a result on another tape."""
    home, leaf = tensor._tape, tensor._leaf
    if leaf is None or not leaf.requires_grad:
        return _link_id(tape, tensor)
    if home is not tape and home is not None:  # it is known by its id on the tape where it was used first
        for vid, other in tape.inputs.items():
            if other is tensor and tape.versions[vid][1] == leaf.version.count:
                return vid
    vid = tape.define(tensor._value, tensor._type)
    tape.inputs[vid] = tensor
    tape.versions[vid] = (leaf.version, leaf.version.count)
    if home is tape or home is None:
        tensor._tape = tape
        tensor._vid = vid
        leaf.version.enter(tensor)
    return vid


def _link_id(tape: Tape, tensor: Tensor) -> int:
    """Return the id of a result on another tape, such as another thread's, which goes on recording there."""
    home = tensor._tape
    if home is None or home.lock is None:
        running = home is not None and not home.ended
        raise LeakedTensorError.elsewhere() if running else LeakedTensorError.escaped("transform")
    with home.lock:
        anchor = home.anchor(tensor._vid)
    for vid, other in tape.inputs.items():
        if other is anchor:
            return vid
    vid = tape.define(tensor._value, tensor._type)
    tape.inputs[vid] = anchor
    return vid


def requires_grad(tensor: Tensor) -> bool:
    """Tell whether operations on a tensor must be recorded."""
    if tensor._leaf is not None and tensor._leaf.requires_grad:
        return True
    return tensor._tape is not None and tensor._vid >= 0


def recording_tape(args: Iterable[Any]) -> Tape | None:
    """Return the tape on which an operation on ``args`` is to be recorded, if any."""
    if native.SUSPENDED[0] and not trace.grad_enabled():
        return None
    current = trace.current_trace()
    found = False
    for arg in args:
        if type(arg) is Tensor:
            tape = arg._tape
            if tape is not None and arg._vid >= 0:
                if tape is current:
                    return tape
                if tape.ended:
                    raise LeakedTensorError.escaped("transform")
                found = True
            elif arg._leaf is not None and arg._leaf.requires_grad:
                found = True
    return trace.imperative_tape() if found else None


def recorded(tape: Tape, out: Array) -> bool:
    """Tell whether a result goes on a tape: if a derivative can flow through it, or it is to be computed again."""
    return out.dtype.kind in "fc" or tape.capture is not None


def operand_ids(tape: Tape, args: Sequence[Any]) -> list[int]:
    """Return the ids of operands, CONSTANT for what is on no tape."""
    ids: list[int] = []
    for arg in args:
        vid = L.CONSTANT
        if type(arg) is Tensor:
            if arg._tape is tape and arg._vid >= 0:
                vid = arg._vid
            elif arg._tape is not None and arg._tape.ended:
                raise LeakedTensorError.escaped("transform")
            elif requires_grad(arg) and tape is not trace.current_trace():
                # inside a transform, a tensor of the imperative face is a constant; here it is an input
                vid = leaf_id(tape, arg)
        if vid < 0 and tape.capture is not None:
            vid = tape.capture.enter(tape, arg)
        ids.append(vid)
    return ids


def apply(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run an op on arguments among which are tensors; record it if one of them needs it."""
    if op.is_native:
        done = native.run(op.index, op.forward, args, params)
        if done is not None:
            return done
    tape = recording_tape(args)
    values = [arg._value if type(arg) is Tensor else arg for arg in args]
    for value in values:
        if type(value) not in _PLAIN:
            check_class(value)
    if tape is not None and tape.capture is not None:
        out = op.forward(*tape.capture.operands(args), **params)
        return Op.record(op, tape, args, values, out, params)
    out = op.forward(*values, **params)
    several = type(out) is tuple
    if tape is None or (out[0] if several else out).dtype.kind not in "fc" or not op.rules:
        return tuple([constant(np.asarray(result)) for result in out]) if several else constant(np.asarray(out))
    return op.record(tape, args, values, out, params)
