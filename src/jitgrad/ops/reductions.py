"""Reductions over axes: sums, means, products, extrema, variances, and what only counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import native
from jitgrad.core.op import FUNCTIONS, Array, Op
from jitgrad.core.protocol import answers, answers_reduce, discrete, method, plain
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.ops.arithmetic import add, divide, multiply, multiply_no_nan
from jitgrad.ops.axes import NO_VALUE, axes_of, count_of, dtype_of, kept_shape, lift, refuse, sum_over
from jitgrad.ops.casting import asarray
from jitgrad.ops.cumulative import product_of_others_op
from jitgrad.ops.selection import maximum, minimum
from jitgrad.ops.selection import where as select
from jitgrad.ops.shaping import reshape_op

__all__ = [
    "masked",
    "max",
    "max_op",
    "mean",
    "mean_op",
    "min",
    "min_op",
    "number_of",
    "prod",
    "prod_op",
    "spread_op",
    "sum",
    "sum_op",
]

_FAST = (np.dtype(np.float64), np.dtype(np.float32))
_prod_over: Any = np.multiply.reduce


# -- sums and means ------------------------------------------------------------------------------------------


def _sum(x: Array, *, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> Any:
    return sum_over(x, axes, dtype, None, keepdims)


def _reduction_samples(**params: Any) -> Any:
    return lambda rng: [
        ((rng.normal(size=(3, 4, 2)),), {"axes": axes, "keepdims": keepdims, **params})
        for axes, keepdims in (((0, 1, 2), False), ((1,), True), ((0, 2), False))
    ]


def _sum_rows(b: Any, xs: Any, out: Any, *, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> bool:
    return bool(b.copy(b.number(0.0, out), out) and b.reduce("sum", xs[0], out, axes))


sum_op: Op = Op(
    "sum",
    _sum,
    ("x",),
    rows=_sum_rows,
    rules={"x": lambda g, x_t, *, axes: spread_op(g, axes=axes, shape=x_t.shape)},
    linear="each",
    samples=_reduction_samples(),
)


def _spread(x: Array, *, axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Repeat over the axes of ``shape`` that ``axes`` names; ``x`` lacks them, or has length 1 there."""
    if x.ndim and x.ndim != len(shape):
        x = x.reshape(kept_shape(shape, axes))
    size = 1
    for length in shape:
        size *= length
    if size > 4096:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)  # a copy this small costs less than NumPy takes to make the view
    out[...] = x
    return out


def _gather(g: Any, x_t: ArrayType, *, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    total = sum_op(g, axes=axes, keepdims=x_t.ndim == len(shape))
    return total if total.shape == x_t.shape else reshape_op(total, shape=x_t.shape)


def _spread_view(x: Array, *, axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x.reshape(kept_shape(shape, axes)), shape)


spread_op: Op = Op(
    "spread",
    _spread,
    ("x",),
    as_view=_spread_view,
    rules={"x": _gather},
    linear="each",
    node="Expand",
    samples=lambda rng: [
        ((np.array(rng.normal()),), {"axes": (0, 1), "shape": (3, 4)}),
        ((rng.normal(size=3),), {"axes": (1,), "shape": (3, 4)}),
        ((rng.normal(size=(3, 1)),), {"axes": (1,), "shape": (3, 4)}),
    ],
    doc="The transpose of a sum over axes: each element gets what its sum has.",
)


def _mean(x: Array, *, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> Any:
    if not x.size:  # without NumPy's warning, which is the public function's business
        total = sum_over(x, axes, dtype or (None if x.dtype.kind in "fc" else np.float64), None, keepdims)
        return total * np.nan
    if dtype is None and x.dtype in _FAST:
        total = sum_over(x, axes, None, None, keepdims)
        return total / (x.size // total.size)
    return np.mean(x, axis=axes, dtype=dtype, keepdims=keepdims)


def _mean_rows(b: Any, xs: Any, out: Any, *, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> bool:
    if not _sum_rows(b, xs, out, axes=axes, keepdims=keepdims):
        return False
    if not out.array.size:
        return True
    return bool(b.elementwise(divide, (out, b.number(float(xs[0].array.size // out.array.size), out)), out))


mean_op: Op = Op(
    "mean",
    _mean,
    ("x",),
    rows=_mean_rows,
    rules={"x": lambda g, x_t, *, axes: spread_op(g / float(count_of(x_t, axes) or 1), axes=axes, shape=x_t.shape)},
    linear="each",
    samples=_reduction_samples(),
)


def _total(op: Op, mean: bool) -> Callable[[Any], Any]:
    """Make the function that reduces over all axes: natively, in one call, where the operand allows it."""

    def general(a: Any) -> Any:
        return op(a, axes=tuple(range(a.ndim)), keepdims=False)

    return native.operation(op.name, "total", op.index, general, mean=mean)


_sum_total = _total(sum_op, mean=False)
_mean_total = _total(mean_op, mean=True)


def masked(a: Any, mask: Any, fill: Any) -> Any:
    """Put ``fill`` in place of the elements that ``where=`` leaves out."""
    return select(mask, a, fill)


@method("sum")
@answers(np.sum)
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Sum of elements over axes, as `numpy.sum`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda x: jnp.sum(x, where=[True, False]))(np.array([1.0, 2.0]))
    array([1., 0.])
    """
    if axis is None and type(a) is Tensor and dtype is None and not keepdims and where is True:
        total = _sum_total(a)
    else:
        a = asarray(a)
        if where is not True:
            a = masked(a, where, 0)
        total = sum_op(a, axes=axes_of(axis, a.ndim), keepdims=bool(keepdims), dtype=dtype_of(dtype))
    if out is not None:
        refuse("sum", out=out)
    return total if initial is NO_VALUE else add(total, initial)


@method("mean")
@answers(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    """Arithmetic mean over axes, as `numpy.mean`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.mean)(np.array([1.0, 2.0, 3.0, 4.0]))
    array([0.25, 0.25, 0.25, 0.25])
    """
    if out is not None:
        refuse("mean", out=out)
    if axis is None and type(a) is Tensor and dtype is None and not keepdims and where is True and 0 not in a.shape:
        return _mean_total(a)
    a = asarray(a)
    axes = axes_of(axis, a.ndim)
    if 0 in (a.shape[d] for d in axes):
        warnings.warn("Mean of empty slice.", RuntimeWarning, stacklevel=2)
    if where is True:
        return mean_op(a, axes=axes, keepdims=bool(keepdims), dtype=dtype_of(dtype))
    total = sum_op(masked(a, where, 0), axes=axes, keepdims=bool(keepdims), dtype=_mean_dtype(a, dtype))
    return divide(total, number_of(where, a, axes, keepdims).astype(total.dtype))


def _mean_dtype(a: Any, dtype: Any) -> Any:
    if dtype is not None:
        return np.dtype(dtype)
    return None if a.dtype.kind in "fc" else np.dtype(np.float64)


def number_of(mask: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Count the elements that ``where=`` lets in."""
    return sum_over(np.broadcast_to(plain(mask), a.shape), axes, np.intp, None, bool(keepdims))


# -- products ------------------------------------------------------------------------------------------------


def _prod(x: Array, *, axis: int, keepdims: bool, dtype: Any = None) -> Any:
    return _prod_over(x, axis, dtype, None, keepdims)


# The derivative by each factor is the product of the others, never out / x: that is NaN at 0, where with one
# zero among the factors the derivative by it is all that is left, and with two the second derivative by both.
prod_op: Op = Op(
    "prod",
    _prod,
    ("x",),
    rules={
        "x": lambda g, x, x_t, *, axis: multiply(lift(g, x_t, (axis,)), product_of_others_op(x, axis=axis)),
    },
    samples=lambda rng: [
        ((rng.uniform(0.5, 2, size=(3, 4)),), {"axis": 1, "keepdims": False}),
        ((rng.uniform(0.5, 2, size=(3, 4)),), {"axis": 0, "keepdims": True}),
        ((np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),), {"axis": 1, "keepdims": False}),
    ],
)


@method("prod")
@answers(np.prod)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Product of elements over axes, as `numpy.prod`. Its derivatives are right where elements are zero.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.prod)(np.array([2.0, 0.0, 3.0]))
    array([0., 6., 0.])
    """
    refuse("prod", out=out)
    a = asarray(a)
    if where is not True:
        a = masked(a, where, 1)
    axes = axes_of(axis, a.ndim)
    dtype = dtype_of(dtype)
    shape = kept_shape(a.shape, axes) if keepdims else tuple(a.shape[d] for d in range(a.ndim) if d not in axes)
    if len(axes) == a.ndim:
        product = prod_op(reshape_op(a, shape=(-1,)), axis=0, keepdims=False, dtype=dtype)
    else:
        # no axis at all is as one of length 1
        product = a if axes else reshape_op(a, shape=(*a.shape, 1))
        for d in axes[::-1] or (a.ndim,):
            product = prod_op(product, axis=d, keepdims=False, dtype=dtype)
    if product.shape != shape:
        product = reshape_op(product, shape=shape)
    return product if initial is NO_VALUE else multiply(product, initial)


# -- extrema -------------------------------------------------------------------------------------------------


def _shares(x: Array, extremum: Array, *, axes: tuple[int, ...]) -> Array:
    ties = np.equal(x, extremum)
    if ties.size and np.isnan(extremum).any():
        ties |= np.isnan(x)
    if len(axes) == x.ndim:
        number: Any = np.count_nonzero(ties)
    else:
        number = sum_over(ties, axes, np.intp, None, True)
    return np.asarray(np.divide(ties, number, dtype=x.dtype, casting="same_kind"))


# How the derivative by an extremum is shared among the elements that attain it: evenly. It does not vary.
shares_op: Op = Op(
    "shares",
    _shares,
    ("x", "extremum"),
    rules={},
    discrete=("x", "extremum"),
    samples=lambda rng: [((np.array([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]]), np.array([[3.0], [2.0]])), {"axes": (1,)})],
    doc="One over the number of elements that attain the extremum of their group; 0 for all others.",
)


def _extremum_rule(g: Any, x: Any, out: Any, x_t: ArrayType, *, axes: tuple[int, ...]) -> Any:
    # the share comes first: where it is 0, an infinite cotangent is not looked at
    return multiply_no_nan(shares_op(x, lift(out, x_t, axes), axes=axes), lift(g, x_t, axes))


def _extremum(ufunc: Any) -> Callable[..., Any]:
    def forward(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        return ufunc.reduce(x, axes, None, None, keepdims)

    return forward


def _extremum_rows(kind: str, start: float) -> Callable[..., bool]:
    def rows(b: Any, xs: Any, out: Any, *, axes: tuple[int, ...], keepdims: bool) -> bool:
        return bool(b.copy(b.number(start, out), out) and b.reduce(kind, xs[0], out, axes))

    return rows


max_op: Op = Op(
    "max",
    _extremum(np.maximum),
    ("x",),
    rows=_extremum_rows("max", -np.inf),
    rules={"x": _extremum_rule},
    node="Amax",
    samples=_reduction_samples(),
)

min_op: Op = Op(
    "min",
    _extremum(np.minimum),
    ("x",),
    rows=_extremum_rows("min", np.inf),
    rules={"x": _extremum_rule},
    node="Amin",
    samples=_reduction_samples(),
)


def _reduce_to_extremum(
    op: Op, elementwise: Any, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    if out is not None:
        refuse(op.name, out=out)
    a = asarray(a)
    if where is not True:
        if initial is NO_VALUE:
            raise ValueError(f"{op.name}() has no identity, so where= needs an initial= value beside it.")
        a = masked(a, where, initial)
    axes = axes_of(axis, a.ndim)
    if initial is not NO_VALUE and 0 in (a.shape[d] for d in axes):
        shape = kept_shape(a.shape, axes) if keepdims else tuple(a.shape[d] for d in range(a.ndim) if d not in axes)
        return np.full(shape, initial, dtype=a.dtype)
    found = op(a, axes=axes, keepdims=bool(keepdims))
    return found if initial is NO_VALUE else elementwise(found, initial)


@method("max")
@answers(np.max, np.amax)
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Maximum over axes, as `numpy.max`. Elements that attain it together share its derivative evenly.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.max)(np.array([1.0, 3.0, 3.0]))
    array([0. , 0.5, 0.5])
    """
    return _reduce_to_extremum(max_op, maximum, a, axis, out, keepdims, initial, where)


@method("min")
@answers(np.min, np.amin)
def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Minimum over axes, as `numpy.min`. Elements that attain it together share its derivative evenly.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.min)(np.array([1.0, 3.0, 3.0]))
    array([1., 0., 0.])
    """
    return _reduce_to_extremum(min_op, minimum, a, axis, out, keepdims, initial, where)


# -- counts, positions and truth -----------------------------------------------------------------------------

discrete(np.any, np.all, np.count_nonzero, np.argmax, np.argmin, np.nanargmax, np.nanargmin)
discrete(np.argsort, np.lexsort)
discrete(np.argpartition, rest=(2,))
discrete(np.searchsorted, np.digitize, operands=2)
for _name in ("any", "all", "argmax", "argmin", "argsort", "argpartition", "searchsorted"):
    method(_name)(FUNCTIONS[getattr(np, _name)])


# -- NumPy's ufunc methods -----------------------------------------------------------------------------------


def _answer_reduce(ufunc: np.ufunc, function: Callable[..., Any]) -> None:
    """Let ``function`` answer for ``ufunc.reduce``, whose axis is 0 where none is given."""

    def reduce(
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = NO_VALUE,
        where: Any = True,
    ) -> Any:
        refuse(f"{ufunc.__name__}.reduce", out=out)
        keywords = {"dtype": (dtype, None), "initial": (initial, NO_VALUE), "where": (where, True)}
        given = {key: value for key, (value, default) in keywords.items() if value is not default}
        return function(array, axis=axis, keepdims=keepdims, **given)

    answers_reduce(ufunc)(reduce)


_answer_reduce(np.add, sum)
_answer_reduce(np.multiply, prod)
_answer_reduce(np.maximum, max)
_answer_reduce(np.minimum, min)
_answer_reduce(np.logical_and, FUNCTIONS[np.all])
_answer_reduce(np.logical_or, FUNCTIONS[np.any])
