"""Diagonals and triangles of arrays: taking them, and putting them into zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.op import FUNCTIONS, Array, Op
from jitgrad.core.protocol import answers, method
from jitgrad.ops.axes import dtype_of, refuse
from jitgrad.ops.casting import asarray
from jitgrad.ops.reductions import sum_op
from jitgrad.ops.shaping import reshape_op

__all__ = ["diag", "diagflat", "diagonal", "diagonal_embed_op", "diagonal_op", "trace", "tril", "triu"]


diagonal_op: Op = Op(
    "diagonal",
    lambda x, *, offset, axis1, axis2: x.diagonal(offset, axis1, axis2),
    ("x",),
    rules={
        "x": lambda g, x_t, *, offset, axis1, axis2: diagonal_embed_op(
            g, offset=offset, axis1=axis1, axis2=axis2, shape=x_t.shape
        )
    },
    linear="each",
    view=True,
    samples=lambda rng: (
        [((rng.normal(size=(3, 4)),), {"offset": offset, "axis1": 0, "axis2": 1}) for offset in (0, 1, -2)]
        + [((rng.normal(size=(3, 2, 4)),), {"offset": 1, "axis1": -1, "axis2": 0})]
    ),
)


def _diagonal_embed(x: Array, *, offset: int, axis1: int, axis2: int, shape: tuple[int, ...]) -> Array:
    out = np.zeros(shape, dtype=x.dtype)
    place = out.diagonal(offset, axis1, axis2)
    place.setflags(write=True)
    place[...] = x
    return out


def _diagonal_embed_rows(b: Any, xs: Any, out: Any, *, shape: tuple[int, ...], **which: int) -> bool:
    place = out.view(out.array.diagonal(which["offset"], which["axis1"], which["axis2"]))
    return bool(b.copy(b.number(0.0, out), out) and b.copy(xs[0], place))


diagonal_embed_op: Op = Op(
    "diagonal_embed",
    _diagonal_embed,
    ("x",),
    rows=_diagonal_embed_rows,
    rules={
        "x": lambda g, *, offset, axis1, axis2: diagonal_op(g, offset=offset, axis1=axis1, axis2=axis2),
    },
    linear="each",
    samples=lambda rng: [
        ((rng.normal(size=3),), {"offset": 0, "axis1": 0, "axis2": 1, "shape": (3, 4)}),
        ((rng.normal(size=3),), {"offset": -1, "axis1": 0, "axis2": 1, "shape": (4, 4)}),
        ((rng.normal(size=(2, 2)),), {"offset": 1, "axis1": -1, "axis2": 0, "shape": (3, 2, 4)}),
    ],
    doc="Zeros of a shape with ``x`` on a diagonal: the transpose of `diagonal`.",
)

tril_op: Op = Op(
    "tril",
    lambda x, *, k: np.tril(x, k),
    ("x",),
    rules={"x": lambda g, *, k: tril_op(g, k=k)},
    linear="each",
    samples=lambda rng: (
        [((rng.normal(size=(3, 4)),), {"k": k}) for k in (0, 1, -1)]
        + [((rng.normal(size=(2, 3, 3)),), {"k": 0}), ((rng.normal(size=3),), {"k": 0})]
    ),
)

triu_op: Op = Op(
    "triu",
    lambda x, *, k: np.triu(x, k),
    ("x",),
    rules={"x": lambda g, *, k: triu_op(g, k=k)},
    linear="each",
    samples=lambda rng: (
        [((rng.normal(size=(3, 4)),), {"k": k}) for k in (0, 1, -1)]
        + [((rng.normal(size=(2, 3, 3)),), {"k": 0}), ((rng.normal(size=3),), {"k": 0})]
    ),
)


@method("diagonal")
@answers(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonal over two axes, as `numpy.diagonal`: a view, with its elements along the last axis.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda a: jnp.sum(jnp.diagonal(a, 1)))(np.ones((2, 3)))
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    return diagonal_op(asarray(a), offset=int(offset), axis1=int(axis1), axis2=int(axis2))


@method("trace")
@answers(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """Sum of the diagonal over two axes, as `numpy.trace`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.trace)(np.ones((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    refuse("trace", out=out)
    elements = diagonal(a, offset, axis1, axis2)
    axes = (elements.ndim - 1,)
    return sum_op(elements, axes=axes, keepdims=False, dtype=dtype_of(dtype))


@answers(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """Take the diagonal of a matrix, or make a matrix of a diagonal, as `numpy.diag`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda v: jnp.sum(jnp.diag(v) @ np.array([1.0, 2.0])))(np.ones(2))
    array([1., 2.])
    """
    v, k = asarray(v), int(k)
    if v.ndim == 1:
        n = v.shape[0] + abs(k)
        return diagonal_embed_op(v, offset=k, axis1=0, axis2=1, shape=(n, n))
    if v.ndim == 2:
        return diagonal_op(v, offset=k, axis1=0, axis2=1)
    raise ValueError(f"Input must be 1- or 2-d: diag got an array of shape {v.shape}.")


@answers(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """Make a matrix with the elements of ``v``, flattened, on a diagonal, as `numpy.diagflat`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> jnp.diagflat([[1.0, 2.0]])
    array([[1., 0.],
           [0., 2.]])
    """
    return diag(reshape_op(asarray(v), shape=(-1,)), k)


@answers(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """Keep the elements on and below a diagonal, as `numpy.tril`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda m: jnp.sum(jnp.tril(m)))(np.ones((2, 2)))
    array([[1., 0.],
           [1., 1.]])
    """
    return tril_op(asarray(m), k=int(k))


@answers(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """Keep the elements on and above a diagonal, as `numpy.triu`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda m: jnp.sum(jnp.triu(m)))(np.ones((2, 2)))
    array([[1., 1.],
           [0., 1.]])
    """
    return triu_op(asarray(m), k=int(k))


def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Diagonals of matrices in the last two axes, as `numpy.linalg.diagonal`."""
    return diagonal(x, offset, -2, -1)


def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sums of the diagonals of matrices in the last two axes, as `numpy.linalg.trace`."""
    return trace(x, offset, -2, -1, dtype)


FUNCTIONS[np.linalg.diagonal] = _linalg_diagonal
FUNCTIONS[np.linalg.trace] = _linalg_trace
