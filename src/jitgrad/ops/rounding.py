"""Functions that are constant between jumps: their derivative is 0, as JAX and PyTorch have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.elementwise import elementwise
from jitgrad.core.op import Array, Op
from jitgrad.core.protocol import answers, method
from jitgrad.core.samples import uniform
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.ops.casting import asarray
from jitgrad.ops.selection import where_op

floor = elementwise(
    "floor",
    lambda x: np.floor(x),
    x=lambda: 0.0,
    numpy=np.floor,
    absorbing="both",
    samples=uniform((-3, 3)),
)

ceil = elementwise(
    "ceil",
    lambda x: np.ceil(x),
    x=lambda: 0.0,
    numpy=np.ceil,
    absorbing="both",
    samples=uniform((-3, 3)),
)

trunc = elementwise(
    "trunc",
    lambda x: np.trunc(x),
    x=lambda: 0.0,
    numpy=np.trunc,
    absorbing="both",
    samples=uniform((-3, 3)),
)

rint = elementwise(
    "rint",
    lambda x: np.rint(x),
    x=lambda: 0.0,
    numpy=np.rint,
    absorbing="both",
    node="Round",
    samples=uniform((-3, 3)),
)

heaviside = elementwise(
    "heaviside",
    lambda x, y: x if x != x else (y if x == 0 else (0.0 if x < 0 else 1.0)),
    x=lambda: 0.0,
    y=lambda x: where_op(x == 0, 1.0, 0.0),
    numpy=np.heaviside,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
)


def _zeros(x_t: ArrayType) -> Array:
    return np.zeros(x_t.shape, x_t.dtype)


round_op = Op(
    "round",
    lambda x, *, decimals: np.round(x, decimals),
    ("x",),
    rules={"x": _zeros},
    # further from the jumps than differences reach
    samples=lambda rng: [((10.0 * rng.integers(-3, 4, (3, 4)) + 1.0,), {"decimals": n}) for n in (-1, -2)],
)


@answers(np.round, np.around)
def round(a: Any, decimals: int = 0) -> Any:
    """Round to a number of decimals, halves to even, as `numpy.round`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.round(a, decimals)
    if decimals == 0 and a.dtype.kind == "f":
        return rint.call(a)
    return round_op(a, decimals=int(decimals))


@method("round")
def _round_method(self: Any, decimals: int = 0) -> Any:
    """Round to a number of decimals, as `numpy.ndarray.round`."""
    return round(self, decimals)


@method("__round__")
def _round_operator(self: Any, ndigits: int | None = None) -> Any:
    return round(self, 0 if ndigits is None else ndigits)


@answers(np.fix)
def fix(x: Any) -> Any:
    """Round towards zero, as `numpy.fix`."""
    return trunc.call(asarray(x))


method("__floor__")(floor.call)
method("__ceil__")(ceil.call)
method("__trunc__")(trunc.call)
