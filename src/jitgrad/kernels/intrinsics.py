"""Memory by address, inside Numba: loads, stores and calls on plain integers.

Imported only when a kernel is compiled; a process with a warm kernel cache never imports Numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I64 = ir.IntType(64)


def _pointer_to(numba_type: Any, llvm_type: ir.Type) -> Any:
    @intrinsic
    def pointer(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], llvm_type.as_pointer())

        return types.CPointer(numba_type)(types.int64), codegen

    return pointer


pointer_f8 = _pointer_to(types.float64, ir.DoubleType())
pointer_f4 = _pointer_to(types.float32, ir.FloatType())
pointer_i8 = _pointer_to(types.int64, I64)
pointer_u1 = _pointer_to(types.uint8, ir.IntType(8))
pointer_i4 = _pointer_to(types.int32, ir.IntType(32))
pointer_u1 = _pointer_to(types.uint8, ir.IntType(8))


@intrinsic
def load(typingctx: Any, address: Any) -> Any:
    """The int64 at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], I64.as_pointer()))

    return types.int64(types.int64), codegen


@intrinsic
def store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write an int64 to an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], I64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic(prefer_literal=True)
def scratch(typingctx: Any, n_words: Any) -> Any:
    """The address of ``n_words`` (a literal) int64 words on the stack of the calling function."""
    if not isinstance(n_words, types.IntegerLiteral):
        return None
    size = n_words.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # in the entry block: a slot in a loop body would grow the stack at every turn
        slot = cgutils.alloca_once(builder, ir.ArrayType(I64, size))
        return builder.ptrtoint(slot, I64)

    return types.int64(n_words), codegen


def _caller(result: Any, n_args: int) -> Any:
    arguments = ", ".join(f"a{i}" for i in range(n_args))

    def implementation(args: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            returns = ir.VoidType() if result == types.void else I64
            function = ir.FunctionType(returns, [I64] * n_args)
            answer = builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])
            return context.get_dummy_value() if result == types.void else answer

        return result(*[types.int64] * (n_args + 1)), codegen

    # an intrinsic's arity is read from its signature, so each arity is a function of its own
    namespace: dict[str, Any] = {"implementation": implementation}
    exec(
        f"def call(typingctx, address, {arguments}):\n    return implementation(({arguments},))",
        namespace,
    )
    return intrinsic(namespace["call"])


call_kernel = _caller(types.void, 4)  # (address, args, dims, steps, data)
call_new_array = _caller(types.int64, 9)  # PyArray_New
call_return = _caller(types.int64, 1)  # PyArray_Return
call_gemm = _caller(types.void, 13)  # dgemm, sgemm
