"""Elementwise loops, written out for Numba: the forward kernel of an op, and one VJP kernel an operand.

All have NumPy's inner-loop signature ``(char **args, intp *dims, intp *steps, void *data)``, so the same code runs as
a NumPy ufunc and as a row of a tape. Operands are contiguous or single elements in the fast loops, which LLVM
vectorises, and anything in the last one.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from itertools import product
from typing import Any, Literal

from jitgrad.kernels.layout import ACCUMULATE, CALLED_BY_NUMPY

__all__ = ["forward_kernel", "vjp_kernel"]

# FE_ALL_EXCEPT of <fenv.h>
_FLOATING_POINT_FLAGS = 0x3D if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686") else 0x1F


def _loop(
    names: list[str], masks: tuple[bool, ...], accumulate: bool, body: str, scalar: tuple[bool, ...], itemsize: int
) -> list[str]:
    """One fast loop: ``scalar`` says which inputs are single elements."""
    sizes = [0 if one else 1 if masked else itemsize for one, masked in zip(scalar, masks, strict=True)]
    test = " and ".join(f"s_{name} == {size}" for name, size in zip(names, sizes, strict=True))
    lines = [f"if {test} and s_out == {itemsize}:"]
    lines += [f"    p_{name} = {'mask' if m else ''}pointer(a_{name})" for name, m in zip(names, masks, strict=True)]
    lines += ["    p_out = pointer(a_out)"]
    lines += [f"    {name} = p_{name}[0]" for name, one in zip(names, scalar, strict=True) if one]
    load = [f"{name} = p_{name}[i]" for name, one in zip(names, scalar, strict=True) if not one]

    def turn(indent: str, assignment: str) -> list[str]:
        return [f"{indent}for i in range(n):", *(f"{indent}    {line}" for line in [*load, body, assignment])]

    if accumulate:
        lines += [f"    if data == {ACCUMULATE}:", *turn("        ", "p_out[i] = p_out[i] + r")]
        lines += ["    else:", *turn("        ", "p_out[i] = r")]
    else:
        lines += turn("    ", "p_out[i] = r")
    return lines


def _kernel(
    names: list[str], masks: tuple[bool, ...], body: str, dtype: str, accumulate: bool, functions: dict[str, Any]
) -> Callable[..., Any]:
    from numba import types

    from jitgrad.kernels import intrinsics

    itemsize = 8 if dtype == "f8" else 4
    lines = ["def kernel(args, dims, steps, data):", "    n = load(dims)"]
    for place, name in enumerate([*names, "out"]):
        lines.append(f"    a_{name} = load(args + {8 * place}); s_{name} = load(steps + {8 * place})")
    branch = "    "
    for scalar in product((False, True), repeat=len(names)):
        # one scalar at most: more of them are rare, and every loop costs compile time
        if sum(scalar) > 1 or (scalar[0] and (accumulate or len(names) == 1)):
            continue
        loop = _loop(names, masks, accumulate, body, scalar, itemsize)
        lines.append(f"{branch}{loop[0]}")
        lines += [f"    {line}" for line in loop[1:]]
        branch = "    el"
    lines += ["    else:", "        for i in range(n):"]
    for name, masked in zip(names, masks, strict=True):
        lines.append(f"            {name} = {'mask' if masked else ''}pointer(a_{name})[0]")
    lines += [f"            {body}"]
    if accumulate:
        lines += [f"            if data == {ACCUMULATE}:", "                r = pointer(a_out)[0] + r"]
    lines += ["            pointer(a_out)[0] = r"]
    lines += [f"            a_{name} += s_{name}" for name in [*names, "out"]]
    lines += [f"    if data == {CALLED_BY_NUMPY}:", f"        feclearexcept({_FLOATING_POINT_FLAGS})"]
    namespace: dict[str, Any] = {
        "load": intrinsics.load,
        "pointer": intrinsics.pointer_f8 if dtype == "f8" else intrinsics.pointer_f4,
        "maskpointer": intrinsics.pointer_u1,
        "feclearexcept": types.ExternalFunction("feclearexcept", types.int32(types.int32)),
        **functions,
    }
    exec("\n".join(lines), namespace)
    kernel: Callable[..., Any] = namespace["kernel"]
    return kernel


def forward_kernel(scalar: Callable[..., Any], masks: tuple[bool, ...], dtype: str) -> Callable[..., Any]:
    """``out[i] = scalar(x0[i], x1[i], ...)``, for ``dtype`` "f8" or "f4"; ``masks`` says which inputs are booleans."""
    names = [f"x{k}" for k in range(len(masks))]
    return _kernel(names, masks, f"r = scalar({', '.join(names)})", dtype, False, {"scalar": scalar})


def vjp_kernel(
    partial: Callable[..., Any], masks: tuple[bool, ...], dtype: str, absorbing: bool | Literal["both"]
) -> Callable[..., Any]:
    """``bar[i] (+)= g[i] * partial(residuals[i]...)``; the arguments are g, the residuals (or ``masks``), bar.

    With ``absorbing``, a cotangent of exactly zero stays zero whatever the partial, as in TensorFlow's
    ``multiply_no_nan``: the branch of a ``where`` that was not taken gives no NaN. ``"both"``: a partial of exactly
    zero does the same to an infinite cotangent.
    """
    residuals = [f"x{k}" for k in range(len(masks))]
    call = f"partial({', '.join(residuals)})"
    body = f"r = g * {call}"
    if absorbing:
        otherwise = "p if p == 0 else g * p" if absorbing == "both" else "g * p"
        body = f"p = {call}; r = g if g == 0 else {otherwise}"
    return _kernel(["g", *residuals], (False, *masks), body, dtype, True, {"partial": partial})
