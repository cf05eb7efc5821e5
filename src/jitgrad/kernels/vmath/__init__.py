"""Elementary functions that LLVM vectorises when a plain loop calls them.

Numba's own ``exp``, ``sin``, ... call libm for one element at a time. These are branch-free code with no
calls, so that ``for i in range(n): out[i] = vmath.exp(x[i])`` runs on whole vectors. Each takes and returns
float64 or float32 (integers count as float64), from compiled code and from Python alike, and is within 2 ulp
in float64 and 1.5 ulp in float32 of the exact value, everywhere; special values are those of C99.
Overflow and domain errors give infinities and NaN in silence. The bits do not depend on the caller's
``fastmath`` flags, nor on whether the loop was vectorised.

`sin`, `cos` and `tan` are right for every finite argument. `sin_fast`, `cos_fast` and `tan_fast` cost about
half as much and are as accurate where ``abs(x) <= SIN_FAST_LIMIT``; beyond that they are meaningless.

The machine is expected to have fused multiply-add (x86-64-v3, every AArch64); on others LLVM calls libm's.

Examples
--------
>>> import numpy as np
>>> from numba import njit
>>> from jitgrad.kernels import vmath
>>> @njit
... def softplus(x, out):
...     for i in range(x.size):
...         out[i] = vmath.log1p(vmath.exp(x[i]))
>>> out = np.empty(3)
>>> softplus(np.array([-1.0, 0.0, 1.0]), out)
>>> out.round(6)
array([0.313262, 0.693147, 1.313262])
>>> vmath.exp(0.0)
1.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from jitgrad.kernels.vmath import emit, exponential, inverse, logarithmic, power, trigonometric

__all__ = [
    "SIN_FAST_LIMIT",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cos",
    "cos_fast",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "sin",
    "sin_fast",
    "sinh",
    "sqrt",
    "tan",
    "tan_fast",
    "tanh",
]

SIN_FAST_LIMIT = trigonometric.FAST_LIMIT


def _signature(name: str, *arguments: Any) -> tuple[Any, emit.Format]:
    """The signature for these types of arguments, and the format to compute in."""
    kinds = {
        types.float64 if isinstance(kind, (types.Integer, types.Boolean)) else kind for kind in arguments
    }
    if not kinds <= {types.float32, types.float64}:
        raise TypingError(f"vmath.{name} takes float32 or float64, not {', '.join(map(str, arguments))}")
    kind = types.float32 if kinds == {types.float32} else types.float64
    return kind(*[kind] * len(arguments)), emit.F32 if kind is types.float32 else emit.F64


def _finish(name: str, function: Any) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of float64 or float32 scalars; see the module's documentation."
    # Inlined always: the longest are beyond what LLVM inlines of itself, and a call would stop vectorisation.
    return njit(error_model="numpy", forceinline=True)(function)


def _unary(body: Callable[[emit.Num], emit.Num]) -> Callable[[float], float]:
    """Let compiled code and Python call what `body` writes."""
    name = body.__name__

    @intrinsic
    def write(typing_context: Any, x: Any) -> Any:
        signature, fmt = _signature(name, x)

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return body(emit.Num(fmt, builder, arguments[0])).ref

        return signature, lower

    def function(x: float) -> Any:
        return write(x)

    result: Callable[[float], float] = _finish(name, function)
    return result


def _binary(body: Callable[[emit.Num, emit.Num], emit.Num]) -> Callable[[float, float], float]:
    """The same for functions of two arguments."""
    name = body.__name__

    @intrinsic
    def write(typing_context: Any, x: Any, y: Any) -> Any:
        signature, fmt = _signature(name, x, y)

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, y = (emit.Num(fmt, builder, argument) for argument in arguments)
            return body(x, y).ref

        return signature, lower

    def function(x: float, y: float) -> Any:
        return write(x, y)

    result: Callable[[float, float], float] = _finish(name, function)
    return result


exp = _unary(exponential.exp)
exp2 = _unary(exponential.exp2)
expm1 = _unary(exponential.expm1)
sinh = _unary(exponential.sinh)
cosh = _unary(exponential.cosh)
tanh = _unary(exponential.tanh)
log = _unary(logarithmic.log)
log2 = _unary(logarithmic.log2)
log10 = _unary(logarithmic.log10)
log1p = _unary(logarithmic.log1p)
arcsinh = _unary(logarithmic.arcsinh)
arccosh = _unary(logarithmic.arccosh)
arctanh = _unary(logarithmic.arctanh)
sin = _unary(trigonometric.sin)
cos = _unary(trigonometric.cos)
tan = _unary(trigonometric.tan)
sin_fast = _unary(trigonometric.sin_fast)
cos_fast = _unary(trigonometric.cos_fast)
tan_fast = _unary(trigonometric.tan_fast)
arctan = _unary(inverse.arctan)
arcsin = _unary(inverse.arcsin)
arccos = _unary(inverse.arccos)
arctan2 = _binary(inverse.arctan2)
sqrt = _unary(emit.sqrt)
cbrt = _unary(power.cbrt)
pow = _binary(power.pow)
