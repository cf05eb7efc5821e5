"""Cumulative sums and products, and the linear recurrence that differentiates products without dividing.

Of ``y[i] = x[0] * ... * x[i]`` the derivatives by ``x[j]`` are products that leave ``x[j]`` out. Summed with
their cotangents, they obey ``r[j] = g[j] + x[j + 1] * r[j + 1]``: one pass, no quotient, right with any
number of zeros. The derivative of a recurrence is a recurrence, so that holds for every order.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.elementwise import code_key
from jitgrad.core.op import Array, Op
from jitgrad.core.protocol import answers, method
from jitgrad.kernels import cache
from jitgrad.kernels import compile as compiler
from jitgrad.ops.arithmetic import add, multiply
from jitgrad.ops.axes import axis_of, dtype_of, refuse
from jitgrad.ops.casting import asarray
from jitgrad.ops.shaping import reshape_op

__all__ = [
    "cumprod",
    "cumprod_op",
    "cumsum",
    "cumsum_op",
    "cumulative_prod",
    "cumulative_sum",
    "product_of_others_op",
    "recurrence_op",
    "shift_op",
]


def _at(axis: int, index: int | slice) -> Any:
    """Return the index of a place, or of places, along one axis."""
    return (*(slice(None),) * axis, index)


def _accumulate(ufunc: np.ufunc) -> Callable[..., Array]:
    def forward(x: Array, *, axis: int, reverse: bool, dtype: Any = None) -> Array:
        if not reverse:
            return np.asarray(ufunc.accumulate(x, axis, dtype))
        backwards = _at(axis, slice(None, None, -1))
        return np.asarray(ufunc.accumulate(x[backwards], axis, dtype)[backwards])

    return forward


def _both_ways(*arrays: Array) -> Any:
    """Samples that run along each axis, in either direction."""
    return [(arrays, {"axis": axis, "reverse": reverse}) for axis, reverse in ((0, False), (1, True))]


cumsum_op: Op = Op(
    "cumsum",
    _accumulate(np.add),
    ("x",),
    rules={"x": lambda g, *, axis, reverse: cumsum_op(g, axis=axis, reverse=not reverse)},
    linear="each",
    samples=lambda rng: _both_ways(rng.normal(size=(3, 4))),
    doc="Running sums along an axis, from its end if ``reverse``.",
)


def _shift(x: Array, *, axis: int, by: int, fill: float) -> Array:
    if not x.shape[axis]:
        return x
    out = np.empty_like(x)
    head, tail = _at(axis, slice(None, -1)), _at(axis, slice(1, None))
    source, target, gap = (head, tail, 0) if by > 0 else (tail, head, -1)
    out[target] = x[source]
    out[_at(axis, gap)] = fill
    return out


shift_op: Op = Op(
    "shift",
    _shift,
    ("x",),
    rules={"x": lambda g, *, axis, by: shift_op(g, axis=axis, by=-by, fill=0.0)},
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)),), {"axis": axis, "by": by, "fill": fill})
        for axis, by, fill in ((0, 1, 1.0), (1, -1, 0.0))
    ],
    doc="Elements moved by one place along an axis; ``fill`` comes in at the open end.",
)


# -- the linear recurrence -----------------------------------------------------------------------------------


def _kernel(letter: str) -> Callable[..., Any]:
    """Return the loop for Numba: over arrays of shape (n_outer, n, n_inner), whose addresses it gets."""
    from jitgrad.kernels import intrinsics

    pointer = intrinsics.pointer_f8 if letter == "d" else intrinsics.pointer_f4

    def kernel(x_address: int, a_address: int, out_address: int, n_outer: int, n: int, n_inner: int) -> None:
        x, a, out = pointer(x_address), pointer(a_address), pointer(out_address)
        backwards = n < 0
        n = abs(n)
        step = -n_inner if backwards else n_inner
        for outer in range(n_outer):
            first = outer * n * n_inner + ((n - 1) * n_inner if backwards else 0)
            for k in range(first, first + n_inner):
                out[k] = x[k]
            for _ in range(1, n):
                previous = first
                first += step
                for k in range(n_inner):
                    out[first + k] = x[first + k] + a[first + k] * out[previous + k]

    return kernel


@functools.cache
def _compiled(letter: str) -> Callable[..., None]:
    meaning = repr((cache.sources(), code_key(_kernel.__code__)))
    name = f"recurrence_{letter}_{hashlib.sha256(meaning.encode()).hexdigest()[:16]}"
    address = compiler.address_of(name, lambda: _kernel(letter), n_arguments=6)
    call: Callable[..., None] = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(address)
    return call


def _recurrence(x: Array, a: Array, *, axis: int, reverse: bool) -> Array:
    n = x.shape[axis]
    if x.dtype.char in "df" and a.dtype == x.dtype and x.size:
        x, a = np.ascontiguousarray(x), np.ascontiguousarray(a)
        out = np.empty_like(x)
        n_outer = int(np.prod(x.shape[:axis], dtype=np.int64))
        signed = -n if reverse else n
        _compiled(x.dtype.char)(x.ctypes.data, a.ctypes.data, out.ctypes.data, n_outer, signed, x.size // (n_outer * n))
        return out
    out = np.array(x, dtype=np.result_type(x, a))
    for i in range(n - 2, -1, -1) if reverse else range(1, n):
        out[_at(axis, i)] += a[_at(axis, i)] * out[_at(axis, i + 1 if reverse else i - 1)]
    return out


def _pulled(g: Any, a: Any, axis: int, reverse: bool) -> Any:
    """Return the cotangent of a recurrence's ``x``: a recurrence the other way, with factors one place on."""
    return recurrence_op(g, shift_op(a, axis=axis, by=1 if reverse else -1, fill=0.0), axis=axis, reverse=not reverse)


recurrence_op: Op = Op(
    "recurrence",
    _recurrence,
    ("x", "a"),
    rules={
        "x": lambda g, a, *, axis, reverse: _pulled(g, a, axis, reverse),
        "a": lambda g, a, out, *, axis, reverse: multiply(
            _pulled(g, a, axis, reverse), shift_op(out, axis=axis, by=-1 if reverse else 1, fill=0.0)
        ),
    },
    samples=lambda rng: _both_ways(rng.normal(size=(3, 4)), rng.normal(size=(3, 4))),
    doc="``y[i] = x[i] + a[i] * y[i - 1]`` along an axis; from its end, with ``y[i + 1]``, if ``reverse``.",
)


# -- products ------------------------------------------------------------------------------------------------


def _cumprod_rule(g: Any, x: Any, out: Any, *, axis: int, reverse: bool) -> Any:
    on = -1 if reverse else 1
    return multiply(shift_op(out, axis=axis, by=on, fill=1.0), _pulled(g, x, axis, reverse))


cumprod_op: Op = Op(
    "cumprod",
    _accumulate(np.multiply),
    ("x",),
    rules={"x": _cumprod_rule},
    samples=lambda rng: (
        _both_ways(rng.uniform(0.5, 2, size=(3, 4)))
        + _both_ways(np.array([[2.0, 0.0, 3.0, 0.0], [1.0, 2.0, 0.0, 3.0]]))
    ),
    doc="Running products along an axis, from its end if ``reverse``.",
)


def _others(x: Array, *, axis: int) -> Array:
    out = np.ones_like(x)
    head, tail = _at(axis, slice(None, -1)), _at(axis, slice(1, None))
    np.multiply.accumulate(x[head], axis, out=out[tail])
    out[head] *= _accumulate(np.multiply)(x[tail], axis=axis, reverse=True)
    return out


def _others_rule(g: Any, x: Any, *, axis: int) -> Any:
    """Differentiate the product of two cumulative products: of what comes before, and of what follows."""
    contributions = []
    for reverse in (False, True):
        on = -1 if reverse else 1
        other = shift_op(cumprod_op(x, axis=axis, reverse=not reverse), axis=axis, by=-on, fill=1.0)
        pulled = shift_op(multiply(g, other), axis=axis, by=-on, fill=0.0)
        contributions.append(
            _cumprod_rule(pulled, x, cumprod_op(x, axis=axis, reverse=reverse), axis=axis, reverse=reverse)
        )
    return add(*contributions)


product_of_others_op: Op = Op(
    "product_of_others_op",
    _others,
    ("x",),
    rules={"x": _others_rule},
    samples=lambda rng: [
        ((rng.uniform(0.5, 2, size=(3, 4)),), {"axis": 1}),
        ((np.array([[2.0, 0.0, 3.0, 0.0], [1.0, 2.0, 0.0, 3.0], [0.0, 0.0, 0.0, 2.0]]),), {"axis": 0}),
    ],
    doc="For each element, the product of all others along an axis.",
)


# -- NumPy's functions ---------------------------------------------------------------------------------------


def _along(op: Op, a: Any, axis: Any, dtype: Any) -> Any:
    a = asarray(a)
    if axis is None:
        a, axis = (a if a.ndim == 1 else reshape_op(a, shape=(-1,))), 0
    return op(a, axis=axis_of(axis, a.ndim), reverse=False, dtype=dtype_of(dtype))


@method("cumsum")
@answers(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative sum along an axis, or over all elements, as `numpy.cumsum`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda x: jnp.sum(jnp.cumsum(x)))(np.ones(3))
    array([3., 2., 1.])
    """
    refuse("cumsum", out=out)
    return _along(cumsum_op, a, axis, dtype)


@method("cumprod")
@answers(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative product along an axis, or over all elements, as `numpy.cumprod`.

    Its derivatives are right where elements are zero.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda x: jnp.sum(jnp.cumprod(x)))(np.array([2.0, 0.0, 3.0]))
    array([1., 8., 0.])
    """
    refuse("cumprod", out=out)
    return _along(cumprod_op, a, axis, dtype)


def _cumulative(op: Op, name: str, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool) -> Any:
    x = asarray(x)
    refuse(name, out=out, include_initial=include_initial or None)
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name}() of an array of {x.ndim} dimensions needs an axis; only that of one has a default.")
    return _along(op, x, axis, dtype)


if hasattr(np, "cumulative_sum"):  # NumPy 2.1

    @answers(np.cumulative_sum)
    def cumulative_sum(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        """Cumulative sum along an axis, as `numpy.cumulative_sum`.

        Examples
        --------
        >>> import jitgrad.numpy as jnp
        >>> jnp.cumulative_sum([1.0, 2.0, 3.0])
        array([1., 3., 6.])
        """
        return _cumulative(cumsum_op, "cumulative_sum", x, axis, dtype, out, include_initial)

    @answers(np.cumulative_prod)
    def cumulative_prod(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        """Cumulative product along an axis, as `numpy.cumulative_prod`.

        Examples
        --------
        >>> import jitgrad.numpy as jnp
        >>> jnp.cumulative_prod([1.0, 2.0, 3.0])
        array([1., 2., 6.])
        """
        return _cumulative(cumprod_op, "cumulative_prod", x, axis, dtype, out, include_initial)
