"""Elementary functions that LLVM vectorises when a plain loop calls them.

Numba's own ``exp``, ``sin``, ... call libm for one element at a time. These are branch-free code with no
calls, so that ``for i in range(n): out[i] = vmath.exp(x[i])`` runs on whole vectors. Each takes and returns
float64 or float32 (integers count as float64), from compiled code and from Python alike, and is within 2 ulp
in float64 and 1.5 ulp in float32 of the exact value, everywhere; special values are those of C99.
Overflow and domain errors give infinities and NaN in silence. The bits do not depend on whether the loop was
vectorised, nor on the caller's ``fastmath={"contract"}``. A blanket ``fastmath=True`` gives up infinities and
NaN here as it does elsewhere.

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
from numba.extending import lower_builtin, type_callable

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


def _type_of(name: str, *arguments: Any) -> Any:
    """The Numba type in which a function of these arguments is computed."""
    kinds = {types.float64 if isinstance(kind, (types.Integer, types.Boolean)) else kind for kind in arguments}
    if not kinds <= {types.float32, types.float64}:
        raise TypingError(f"vmath.{name} takes float32 or float64, not {', '.join(map(str, arguments))}")
    return types.float32 if kinds == {types.float32} else types.float64


def _register(function: Callable[..., float], body: Callable[..., emit.Num], count: int) -> None:
    """Let compiled code call `function`: its instructions are written into the caller, as if inlined."""
    function.__name__ = function.__qualname__ = body.__name__
    function.__doc__ = f"{body.__name__} of float64 or float32 scalars; see the module's documentation."

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        fmt = emit.F32 if signature.return_type is types.float32 else emit.F64
        return body(*(emit.Num(fmt, builder, argument) for argument in arguments)).ref

    for kind in (types.float32, types.float64):
        lower_builtin(function, *[kind] * count)(lower)


def _unary(body: Callable[[emit.Num], emit.Num]) -> Callable[[float], float]:
    """The function of one argument that `body` writes."""

    def function(x: float) -> float:
        result: float = alone(x)
        return result

    @njit(error_model="numpy")
    def alone(x: Any) -> Any:
        return function(x)

    _register(function, body, 1)

    @type_callable(function)
    def typer(context: Any) -> Any:
        def type_call(x: Any) -> Any:
            kind = _type_of(body.__name__, x)
            return kind(kind)

        return type_call

    return function


def _binary(body: Callable[[emit.Num, emit.Num], emit.Num]) -> Callable[[float, float], float]:
    """The function of two arguments that `body` writes."""

    def function(x: float, y: float) -> float:
        result: float = alone(x, y)
        return result

    @njit(error_model="numpy")
    def alone(x: Any, y: Any) -> Any:
        return function(x, y)

    _register(function, body, 2)

    @type_callable(function)
    def typer(context: Any) -> Any:
        def type_call(x: Any, y: Any) -> Any:
            kind = _type_of(body.__name__, x, y)
            return kind(kind, kind)

        return type_call

    return function


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
