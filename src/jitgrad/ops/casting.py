"""Identity, change of dtype, real and imaginary parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.op import Array, Op
from jitgrad.core.protocol import answers, method, of_type
from jitgrad.core.samples import uniform
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType

alias = Op(
    "alias",
    lambda x: x,
    ("x",),
    rules={"x": lambda g: g},
    linear="each",
    view=True,
    samples=uniform((-3, 3)),
    doc="The same value under a new id: a transform's input, from which on its own rows count.",
)


stop_gradient = Op(
    "stop_gradient",
    lambda x: x,
    ("x",),
    rules={},
    discrete=("x",),
    samples=uniform((-3, 3)),
    doc="The same value, through which no derivative flows.",
)


def _cast(x: Array, *, dtype: Any) -> Array:
    return np.asarray(x).astype(dtype)


astype_op = Op(
    "astype",
    _cast,
    ("x",),
    rules={"x": lambda g, x_t: g if g.dtype is x_t.dtype else _restore(g, x_t)},
    linear="each",
    node="ToCopy",
    samples=lambda rng: [((rng.uniform(-3, 3, (3, 4)),), {"dtype": np.dtype(np.float64)})],
)


def _restore(g: Any, kind: ArrayType) -> Any:
    if g.dtype.kind == "c" and kind.dtype.kind == "f":
        g = real(g)
    return astype_op(g, dtype=kind.dtype)


@method("astype")
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """Return ``x`` in another dtype, as `numpy.ndarray.astype`."""
    target = np.dtype(dtype)
    if not copy and x.dtype == target:
        return x
    return astype_op(x, dtype=target)


def _real_and_complex(rng: np.random.Generator) -> Any:
    yield from uniform((-3, 3))(rng)
    yield (rng.uniform(-3, 3, (3, 4)) + 1j * rng.uniform(-3, 3, (3, 4)),), {}


real = Op(
    "real",
    lambda x: np.real(x),
    ("x",),
    rules={"x": lambda g, x_t: g if x_t.dtype.kind == "f" else astype_op(g, dtype=x_t.dtype)},
    samples=_real_and_complex,
    numpy=(np.real,),
    doc=np.real.__doc__,
)


def _imag_rule(g: Any, x_t: ArrayType) -> Any:
    if x_t.dtype.kind == "f":
        return None
    from jitgrad.ops.arithmetic import multiply

    # of z = x + iy the cotangent is conj(dz)'s dual: d imag(z) pairs with -i g (autograd's and JAX's convention)
    return multiply(astype_op(g, dtype=x_t.dtype), np.asarray(-1j, dtype=x_t.dtype))


imag = Op(
    "imag",
    lambda x: np.imag(x),
    ("x",),
    rules={"x": _imag_rule},
    samples=_real_and_complex,
    numpy=(np.imag,),
    doc=np.imag.__doc__,
)


@answers(name="asarray")
def asarray(x: Any, dtype: Any = None) -> Any:
    """Return ``x`` as an array or tensor, with the elements of sequences of tensors stacked."""
    if type(x) is not Tensor:
        if isinstance(x, (list, tuple)) and any(_holds_tensor(item) for item in x):
            from jitgrad.ops.joining import stack

            x = stack([asarray(item) for item in x])
        else:
            x = np.asarray(x)
    return x if dtype is None else astype(x, dtype, copy=False)


def _holds_tensor(x: Any) -> bool:
    return type(x) is Tensor or (isinstance(x, (list, tuple)) and any(_holds_tensor(item) for item in x))


of_type(np.ndim, np.shape, np.size)
