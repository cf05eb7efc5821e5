"""Elementwise ops: a scalar value expression, and its partial derivatives in terms of the operands and the result.

The same Python functions are compiled by Numba into kernels, and run on arrays or tensors where a rule is itself
differentiated. So an op is declared in one line:

    tanh = elementwise("tanh", "tanh", x=lambda x: 4 * expit(2 * x) * expit(-2 * x))

A partial's parameters are the operands (or ``out``) that it mentions: just those are kept for the reverse replay.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from jitgrad.core import native
from jitgrad.core.op import FUNCTIONS, NAMESPACE, REGISTRY, Op, Samples, apply, constant_id, operand_ids
from jitgrad.core.shapes import translated
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, on_tape
from jitgrad.kernels import cache, threads
from jitgrad.kernels import compile as compiler
from jitgrad.kernels import layout as L

__all__ = ["Elementwise", "code_key", "elementwise"]

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_BOOL = np.dtype(np.bool_)


def code_key(code: types.CodeType) -> tuple[Any, ...]:
    """What a code object does, and those inside it: the same in every process."""
    constants = tuple(code_key(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames


def _global_names(code: types.CodeType) -> list[str]:
    """Names that are looked up as globals: ``floor`` of ``np.floor`` is not one."""
    return [i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"]


def _fingerprint(function: Callable[..., Any] | str) -> tuple[Any, ...]:
    """What a scalar function means: its own code and the value expressions of the ops that it calls."""
    if isinstance(function, str):
        return (function,)
    parts: list[Any] = [code_key(function.__code__)]
    for name in _global_names(function.__code__):
        called = function.__globals__.get(name)
        if isinstance(called, Elementwise):
            parts.append((name, _fingerprint(called.value)))
        elif isinstance(called, (int, float)):
            parts.append((name, called))
    return tuple(parts)


def _compilable(function: Callable[..., Any] | str) -> Any:
    """Return the function as Numba is to compile it: the ops that it calls are replaced by their scalar functions."""
    from numba import njit

    if isinstance(function, str):
        from jitgrad.kernels import vmath

        return getattr(vmath, function)
    names = {
        name: called.scalar if isinstance(called, Elementwise) else called
        for name in _global_names(function.__code__)
        if (called := function.__globals__.get(name)) is not None
    }
    rebound = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    # forced inline: a loop with a call in it is not vectorised
    return njit(error_model="numpy", fastmath={"contract"}, forceinline=True)(rebound)


def _is_array(value: Any, dtype: np.dtype[Any]) -> bool:
    return type(value) is not Tensor and (value.dtype is dtype or value.dtype is _BOOL)


def _characters(masks: Sequence[bool], dtype: int) -> str:
    """The dtype characters of a kernel's operands and result."""
    return "".join(["?" if masked else "df"[dtype] for masked in (*masks, False)])


class Elementwise(Op):
    """An op whose result at each position depends on its operands there, with NumPy's broadcasting."""

    def __init__(
        self,
        name: str,
        value: Callable[..., Any] | str,
        operands: tuple[str, ...],
        partials: dict[str, Callable[..., Any]],
        *,
        fallback: Callable[..., Any],
        absorbing: bool | Literal["both"],
        node: str | None,
        numpy: Sequence[Callable[..., Any]],
        samples: Samples,
        linear: str | None,
        doc: str | None,
        discrete: Sequence[str] = (),
        masks: Sequence[str] = (),
    ) -> None:
        self.value = value
        self.masks = tuple([operand in masks for operand in operands])
        self.fallback = fallback
        self.absorbing = absorbing
        self.partials = partials
        self.residuals = {key: tuple(inspect.signature(partial).parameters) for key, partial in partials.items()}
        self._ufuncs: dict[int, Callable[..., Any]] = {}  # by dtype
        self._vjp_ufuncs: dict[tuple[int, int], Callable[..., Any]] = {}  # by operand and dtype
        self._scalar: Any = None
        self._assemblies: dict[str, tuple[str, str, Callable[[], str]]] = {}
        super().__init__(
            name,
            self._forward,
            operands,
            rules={key: self._rule(key) for key in partials},
            samples=samples,
            node=node,
            numpy=numpy,
            linear=linear,
            doc=doc,
            discrete=(*discrete, *masks),
        )
        self.is_native = False  # what `call` does not take, it has refused
        bits = sum(masked << k for k, masked in enumerate(self.masks))
        self.call = native.operation(name, "operate", self.index, self._general, doc, masks=bits, arity=len(operands))
        for function in self.numpy:
            FUNCTIONS[function] = self.call
            NAMESPACE[function.__name__] = self.call

    def __call__(self, *args: Any) -> Any:
        """Run the op: on arrays it returns arrays, and records nothing."""
        return self.call(*args)

    def _general(self, *args: Any) -> Any:
        """What `call` does where the native path does not apply."""
        if len(args) != len(self.operands or ()):
            raise TypeError(f"{self.name}() takes {len(self.operands or ())} arguments ({len(args)} given)")
        for arg in args:
            if type(arg) is Tensor:
                return apply(self, args, {})
        return self._forward(*args)

    @property
    def reflected(self) -> Callable[[Any, Any], Any]:
        """The op with its operands exchanged, as ``__rsub__`` wants it."""
        return native.operation(
            f"r{self.name}", "operate", self.index, self._general, self.__doc__, arity=2, reflected=True
        )

    # -- kernels -----------------------------------------------------------------------------------------------

    @property
    def scalar(self) -> Any:
        """The value expression as a Numba function of scalars."""
        if self._scalar is None:
            self._scalar = _compilable(self.value)
        return self._scalar

    def _address(self, part: str, dtype: int, meaning: tuple[Any, ...], build: Callable[[str], Any]) -> int:
        letter = "f8" if dtype == 0 else "f4"
        # taken now, not when the op is declared: ops that are declared later may be called
        sources = cache.sources("loops", "vmath")
        digest = hashlib.sha256(repr((sources, meaning)).encode()).hexdigest()[:16]
        return compiler.address_of(f"{self.name}_{part}_{letter}_{digest}", lambda: build(letter))

    def forward_address(self, dtype: int) -> int:
        """Return the address of the forward kernel, compiled if need be. ``dtype`` is 0 (float64) or 1 (float32)."""
        line = native.KERNELS[2 * self.index + dtype]
        if not line[L.KERNEL_FORWARD]:

            def build(letter: str) -> Any:
                from jitgrad.kernels.loops import forward_kernel

                return forward_kernel(self.scalar, self.masks, letter)

            meaning = (_fingerprint(self.value), self.masks)
            line[L.KERNEL_FORWARD] = self._address("forward", dtype, meaning, build)
        return int(line[L.KERNEL_FORWARD])

    def assembly(self, letter: str) -> tuple[str, str, Callable[[], str]]:
        """Return the scalar function for fused kernels, on ``letter`` d or f.

        Its symbol, a fingerprint of what it means, and a function that returns its LLVM assembly.
        """
        known = self._assemblies.get(letter)
        if known is not None:
            return known
        meaning = repr((cache.sources("vmath"), _fingerprint(self.value)))
        fingerprint = hashlib.sha256(meaning.encode()).hexdigest()[:16]
        symbol = f"{self.name}_{letter}"

        def build() -> Callable[..., Any]:
            arguments = ", ".join(self.operands or ())
            namespace: dict[str, Any] = {"scalar": self.scalar}
            exec(f"def function({arguments}):\n    return scalar({arguments})", namespace)
            function: Callable[..., Any] = namespace["function"]
            return function

        letters = "".join(["?" if masked else letter for masked in (*self.masks, False)])
        made = symbol, fingerprint, lambda: compiler.assembly_of(f"{symbol}_{fingerprint}", build, letters)
        self._assemblies[letter] = made
        return made

    def vjp_address(self, k: int, dtype: int) -> int:
        """Return the address of the kernel that adds to the cotangent of operand ``k``."""
        operands = self.operands or ()
        group = native.KERNELS[2 * self.index + dtype, L.KERNEL_VJP + k * L.VJP_WIDTH :]
        if not group[L.VJP_ADDRESS]:
            residuals = self.residuals[operands[k]]
            masks = self._masked(residuals)

            def build(letter: str) -> Any:
                from jitgrad.kernels.loops import vjp_kernel

                return vjp_kernel(_compilable(self.partials[operands[k]]), masks, letter, self.absorbing)

            for place, residual in enumerate(residuals):
                which = L.RESULT if residual == "out" else operands.index(residual)
                group[L.VJP_RESIDUALS + place] = which
            group[L.VJP_N_RESIDUALS] = len(residuals)
            meaning = (_fingerprint(self.partials[operands[k]]), self.absorbing, masks)
            group[L.VJP_ADDRESS] = self._address(f"vjp{k}", dtype, meaning, build)
        return int(group[L.VJP_ADDRESS])

    def _masked(self, residuals: Sequence[str]) -> tuple[bool, ...]:
        """Tell of each of a partial's residuals whether it is an operand of booleans."""
        masks = dict(zip(self.operands or (), self.masks, strict=True))
        return tuple([masks.get(residual, False) for residual in residuals])

    def _forward(self, *values: Any) -> Any:
        """Compute on arrays of any dtype, with NumPy's broadcasting and promotion."""
        try:
            inexact = single = double = False
            for value, masked in zip(values, self.masks, strict=True):
                if type(value) is float:
                    inexact = True
                    continue
                dtype = getattr(value, "dtype", None)
                # np.dtype(float) == None is true
                if dtype is not None and (dtype is _BOOL if masked else dtype in _FLOATS):
                    inexact |= not masked
                    single |= dtype == _FLOATS[1]
                    double |= dtype == _FLOATS[0]
                elif type(value) is not int and type(value) is not bool:
                    return self.fallback(*values)
            if not inexact:
                return self.fallback(*values)
            kind = 0 if double or not single else 1
            ufunc = self._ufuncs.get(kind)
            if ufunc is None:
                ufunc = native.ufunc(self.name, _characters(self.masks, kind), self.forward_address(kind))
                self._ufuncs[kind] = ufunc
            return threads.elementwise(ufunc, *values)
        except ValueError as error:
            raise translated(error, self.name, values) from None

    # -- derivatives -------------------------------------------------------------------------------------------

    def contribution(self, k: int, g: Any, residuals: Sequence[Any]) -> Any:
        """Return ``g * partial``, of the result's shape: from the fused kernel on arrays, from ops on tensors."""
        operands = self.operands or ()
        arrays = type(g) is not Tensor and g.dtype in _FLOATS
        if arrays and all(type(value) is float or _is_array(value, g.dtype) for value in residuals):
            kind = _FLOATS.index(g.dtype)
            ufunc = self._vjp_ufuncs.get((k, kind))
            if ufunc is None:
                masks = (False, *self._masked(self.residuals[operands[k]]))
                ufunc = native.ufunc(f"{self.name}_vjp{k}", _characters(masks, kind), self.vjp_address(k, kind))
                self._vjp_ufuncs[k, kind] = ufunc
            return threads.elementwise(ufunc, g, *residuals)
        return self.product(g, self.partials[operands[k]](*residuals))

    def product(self, g: Any, partial: Any) -> Any:
        """Return ``g * partial``; of an absorbing op, 0 where g is exactly 0 (or the partial is, if ``"both"``)."""
        if type(partial) is float and partial == 1.0:
            return g
        if self.absorbing == "both":
            return REGISTRY["multiply_absorbing"](g, partial)
        return REGISTRY["multiply_no_nan" if self.absorbing else "multiply"](g, partial)

    def _rule(self, operand: str) -> Callable[..., Any]:
        """The VJP rule as `Rule` wants it: a function whose parameters name what it needs."""
        residuals = self.residuals[operand]
        arguments = ", ".join(("g", *residuals))
        namespace = {"contribution": lambda g, *r: self.contribution((self.operands or ()).index(operand), g, r)}
        exec(f"def rule({arguments}):\n    return contribution({arguments})", namespace)
        return namespace["rule"]

    # -- recording ---------------------------------------------------------------------------------------------

    def record(self, tape: Tape, args: Sequence[Any], values: list[Any], out: Any, params: dict[str, Any]) -> Any:
        """Append the op; small contiguous operands of one extent make a row that native code replays."""
        out = np.asarray(out)
        dtype = 0 if out.dtype is _FLOATS[0] else 1 if out.dtype is _FLOATS[1] else -1
        if dtype < 0 or out.size > L.SMALL or not out.flags.c_contiguous:
            return super().record(tape, args, values, out, params)
        values = [v if type(v) in (np.ndarray, float, int) else np.asarray(v) for v in values]
        native_row = True
        immediate: float | None = None
        for value, masked in zip(values, self.masks, strict=True):
            if type(value) is float or type(value) is int:
                native_row &= immediate is None
                immediate = float(value)
            elif (
                value.dtype is not (_BOOL if masked else out.dtype)
                or not value.flags.c_contiguous
                or (value.shape != out.shape and value.ndim > 0)
            ):
                native_row = False
        if not native_row:
            # numbers are of the result's dtype, so that the rules stay in it
            values = [np.asarray(v, out.dtype) if type(v) is float or type(v) is int else v for v in values]
            return super().record(tape, args, values, out, params)
        tape.reserve(len(args), len(args) + 1)
        ids = operand_ids(tape, args)
        keeps = self.needs(tuple([vid >= 0 for vid in ids]))[2]
        bits = 0
        for k, value in enumerate(values):
            if type(value) is float or type(value) is int:
                ids[k] = L.IMMEDIATE
                scalar = np.zeros(8 // out.dtype.itemsize, dtype=out.dtype)
                scalar[0] = value
                bits = int(scalar.view(np.int64)[0])
            elif keeps >> k & 1:
                if ids[k] == L.CONSTANT:
                    ids[k] = constant_id(tape, args[k], value)
                tape.kept.setdefault(ids[k], value)
        vid = tape.append(self.index, L.KIND_ELEMENTWISE, ids, (out,), None, dtype, bits, keeps)
        if keeps & L.KEEPS_RESULT:
            tape.kept[vid] = out
        return on_tape(out, tape, vid)


def elementwise(
    name: str,
    value: Callable[..., Any] | str,
    *,
    numpy: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    fallback: Callable[..., Any] | None = None,
    absorbing: bool | Literal["both"] = True,
    node: str | None = None,
    samples: Samples,
    linear: str | None = None,
    doc: str | None = None,
    discrete: Sequence[str] = (),
    masks: Sequence[str] = (),
    **partials: Callable[..., Any],
) -> Elementwise:
    """Declare an elementwise op.

    Parameters
    ----------
    name : str
        Unique name.
    value : callable or str
        The value as a function of scalars, in Python operators and other elementwise ops; or the name of a function
        of `jitgrad.kernels.vmath`.
    numpy : callable or sequence of callables
        The NumPy functions that this op answers for.
    fallback : callable, optional
        Computes the op on arrays that are neither float64 nor float32. Defaults to the first of ``numpy``, then to
        ``value`` on arrays.
    absorbing : bool or "both"
        Whether a cotangent of exactly zero stays zero where the partial is infinite or NaN. Off for ops whose partials
        are finite wherever the op is. ``"both"``: a partial of exactly zero also makes zero of an infinite cotangent,
        for ops that choose: ``sqrt(maximum(x, 0))`` does not vary with a negative x.
    node : str, optional
        What PyTorch calls the node.
    samples : callable
        See `Op`.
    linear : {"each", "jointly"}, optional
        See `Op`.
    doc : str, optional
        The docstring; NumPy's own by default.
    discrete : sequence of str
        See `Op`.
    masks : sequence of str
        Operands that are arrays of booleans, of which no derivative is asked.
    **partials : callable
        The partial derivative with respect to each operand, as a function of the operands (by name) and ``out``.

    Returns
    -------
    Elementwise
        The op, which is also the function that users call.
    """
    functions = tuple(numpy) if isinstance(numpy, Sequence) else (numpy,)
    operands = tuple(partials) if isinstance(value, str) else tuple(inspect.signature(value).parameters)
    if fallback is None and functions:
        fallback = functions[0]
    elif fallback is None:
        if isinstance(value, str):
            raise TypeError(f"{name} needs a fallback for dtypes that have no kernel")
        fallback = value
    return Elementwise(
        name,
        value,
        operands,
        partials,
        fallback=fallback,
        absorbing=absorbing,
        node=node,
        numpy=functions,
        samples=samples,
        linear=linear,
        doc=doc or (functions[0].__doc__ if functions else None),
        discrete=discrete,
        masks=masks,
    )
