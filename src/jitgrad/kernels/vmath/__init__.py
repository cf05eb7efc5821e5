"""Elementary functions that LLVM vectorises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from jitgrad.kernels.vmath import emit as _e, exponential, inverse, logarithmic, power, trigonometric
from jitgrad.kernels.vmath.emit import F32, F64, Num


def _unary(body: Callable[[Num], Num]) -> Any:
    name = body.__name__

    @intrinsic
    def emit(typing_context: Any, x: Any) -> Any:
        if isinstance(x, (types.Integer, types.Boolean)):
            x = types.float64
        if x not in (types.float32, types.float64):
            raise TypingError(f"{name} takes float32 or float64, not {x}")

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            fmt = F32 if signature.return_type is types.float32 else F64
            return body(Num(fmt, builder, arguments[0])).ref

        return x(x), lower

    def function(x: float) -> float:
        return emit(x)

    function.__name__ = function.__qualname__ = name
    return njit(error_model="numpy", forceinline=True)(function)

def _binary(body):
    name = body.__name__

    @intrinsic
    def emit(typing_context: Any, x: Any, y: Any) -> Any:
        kind = typing_context.unify_types(x, y)
        if isinstance(kind, (types.Integer, types.Boolean)):
            kind = types.float64
        if kind not in (types.float32, types.float64):
            raise TypingError(f"{name} takes float32 or float64, not {x} and {y}")

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            fmt = F32 if signature.return_type is types.float32 else F64
            return body(*(Num(fmt, builder, argument) for argument in arguments)).ref

        return kind(kind, kind), lower

    def function(x: float, y: float) -> float:
        return emit(x, y)

    function.__name__ = function.__qualname__ = name
    return njit(error_model="numpy", forceinline=True)(function)

exp = _unary(exponential.exp)
exp2 = _unary(exponential.exp2)
expm1 = _unary(exponential.expm1)
sinh = _unary(exponential.sinh)
cosh = _unary(exponential.cosh)
tanh = _unary(exponential.tanh)
log = _unary(logarithmic.log)
sin = _unary(trigonometric.sin)
cos = _unary(trigonometric.cos)
tan = _unary(trigonometric.tan)
sin_fast = _unary(trigonometric.sin_fast)
cos_fast = _unary(trigonometric.cos_fast)
tan_fast = _unary(trigonometric.tan_fast)
log1p = _unary(logarithmic.log1p)
log2 = _unary(logarithmic.log2)
log10 = _unary(logarithmic.log10)
arctan = _unary(inverse.arctan)
sqrt = _unary(_e.sqrt)
pow = _binary(power.pow)
