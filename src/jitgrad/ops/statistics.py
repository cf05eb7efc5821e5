"""Variances, weighted averages, ranges, and the reductions that pass over NaN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.op import Array, Op
from jitgrad.core.protocol import answers, method
from jitgrad.core.samples import uniform
from jitgrad.core.types import ArrayType
from jitgrad.ops.arithmetic import conjugate, divide, multiply, subtract
from jitgrad.ops.axes import NO_VALUE, axes_of, count_of, dtype_of, lift, refuse, sum_over
from jitgrad.ops.casting import asarray, astype, real
from jitgrad.ops.cumulative import cumprod, cumsum
from jitgrad.ops.reductions import masked, max, mean_op, min, number_of, prod, sum, sum_op
from jitgrad.ops.reductions import mean as mean_over
from jitgrad.ops.selection import where as select
from jitgrad.ops.shaping import broadcast_to_op, reshape_op, transpose

__all__ = [
    "average",
    "divide_no_nan",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "ptp",
    "sqrt_no_inf",
    "std",
    "var",
    "var_op",
]


def _quotient(x: Any, y: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(y, 0), 0, np.divide(x, y))


divide_no_nan: Elementwise = elementwise(
    "divide_no_nan",
    lambda x, y: 0.0 if y == 0 else x / y,
    x=lambda y: divide_no_nan(1.0, y),
    y=lambda out, y: -divide_no_nan(out, y),
    fallback=_quotient,
    node="Div",
    samples=uniform((-3, 3), (0.5, 3)),
    doc="Quotient that is 0 where the divisor is: ``x / norm(x)`` becomes the subgradient 0 at 0, not NaN.",
)

sqrt_no_inf = elementwise(
    "sqrt_no_inf",
    "sqrt",
    x=lambda out: divide_no_nan(0.5, out),
    fallback=np.sqrt,
    node="Std",
    samples=uniform((0.5, 3)),
    doc="Square root whose derivative at 0, which is infinite, is taken to be 0.",
)


# -- variance ------------------------------------------------------------------------------------------------


def _var(x: Array, *, axes: tuple[int, ...], keepdims: bool, ddof: float) -> Any:
    number = count_of(x, axes)
    freedom = number - ddof
    if freedom <= 0:  # without NumPy's warnings, which are the public function's business
        squares = np.var(x, axis=axes, keepdims=keepdims) if number else mean_op(x, axes=axes, keepdims=keepdims).real
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(squares, 0, dtype=squares.dtype)
    if x.ndim and x.dtype.char in "df":
        deviation = x - sum_over(x, axes, None, None, True) / number
        np.multiply(deviation, deviation, out=deviation)
        return sum_over(deviation, axes, None, None, keepdims) / freedom
    return np.var(x, axis=axes, ddof=ddof, keepdims=keepdims)


def _var_rule(g: Any, x: Any, x_t: ArrayType, *, axes: tuple[int, ...], ddof: float) -> Any:
    # deviations from the mean, as the op: mean(x**2) - mean(x)**2 has lost all digits at x = 1e8 + [0, 1]
    deviation = subtract(x, mean_op(x, axes=axes, keepdims=True))
    if x_t.dtype.kind == "c":
        deviation = conjugate(deviation)
    freedom = count_of(x_t, axes) - ddof
    return multiply(deviation, lift(multiply(g, 2.0 / freedom if freedom > 0 else np.nan), x_t, axes))


def _var_rows(b: Any, xs: Any, out: Any, *, axes: tuple[int, ...], keepdims: bool, ddof: float) -> bool:
    x = xs[0]
    number = count_of(x.array, axes)
    if number - ddof <= 0 or not out.array.size:
        return False
    kept = [1 if d in axes else length for d, length in enumerate(x.array.shape)]
    mean, deviation = b.buffer(kept, out), b.buffer(x.array.shape, out)
    return bool(
        b.copy(b.number(0.0, out), mean)
        and b.reduce("sum", x, mean, axes)
        and b.elementwise(divide, (mean, b.number(float(number), out)), mean)
        and b.elementwise(subtract, (x, mean), deviation)
        and b.elementwise(multiply, (deviation, deviation), deviation)
        and b.copy(b.number(0.0, out), out)
        and b.reduce("sum", deviation, out, axes)
        and b.elementwise(divide, (out, b.number(float(number - ddof), out)), out)
    )


var_op: Op = Op(
    "var",
    _var,
    ("x",),
    rows=_var_rows,
    rules={"x": _var_rule},
    samples=lambda rng: [
        ((rng.normal(size=(3, 4, 2)),), {"axes": axes, "keepdims": keepdims, "ddof": ddof})
        for axes, keepdims, ddof in (((0, 1, 2), False, 0), ((1,), True, 1), ((0, 2), False, 0.5))
    ],
)


@method("var")
@answers(np.var)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Variance over axes, as `numpy.var`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda x: jnp.var(x, ddof=1))(np.array([1.0, 2.0, 3.0]))
    array([-1.,  0.,  1.])
    """
    refuse("var", out=out)
    if correction is not NO_VALUE:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    a = asarray(a, dtype=dtype_of(dtype))
    axes = axes_of(axis, a.ndim)
    if where is True and count_of(a, axes) <= ddof:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
    if where is True and mean is NO_VALUE:
        return var_op(a, axes=axes, keepdims=bool(keepdims), ddof=ddof)
    if a.dtype.kind not in "fc":
        a = astype(a, np.float64)
    if mean is NO_VALUE:
        mean = mean_over(a, axes, keepdims=True, where=where)
    deviation = subtract(a, mean)
    if a.dtype.kind == "c":
        square = real(multiply(deviation, conjugate(deviation)))
    else:
        square = multiply(deviation, deviation)
    if where is not True:
        square = masked(square, where, 0)
    total = sum_op(square, axes=axes, keepdims=bool(keepdims))
    freedom = np.maximum(number_of(where, a, axes, keepdims) - ddof, 0)
    return divide(total, freedom.astype(total.dtype))


@method("std")
@answers(np.std)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Return the standard deviation over axes, as `numpy.std`. Where it is 0, so is its derivative.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.std)(np.array([1.0, 3.0]))
    array([-0.5,  0.5])
    >>> jg.grad(jnp.std)(np.array([2.0, 2.0]))
    array([0., 0.])
    """
    refuse("std", out=out)
    variance = var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean, correction=correction)
    return sqrt_no_inf(variance)


@method("ptp")
@answers(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Range of values, maximum less minimum, over axes, as `numpy.ptp`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.ptp)(np.array([1.0, 2.0, 4.0]))
    array([-1.,  0.,  1.])
    """
    refuse("ptp", out=out)
    keepdims = keepdims is not NO_VALUE and bool(keepdims)
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# -- weighted averages ---------------------------------------------------------------------------------------


def _aligned_weights(weights: Any, a: Any, axis: Any) -> Any:
    """Give weights along some axes a shape that broadcasts against ``a``."""
    if weights.shape == a.shape:
        return weights
    if axis is None:
        raise TypeError(
            "Axis must be specified when shapes of a and weights differ: average() got an array of shape "
            f"{a.shape} and weights of shape {weights.shape}."
        )
    axes = np.lib.array_utils.normalize_axis_tuple(axis, a.ndim)
    if weights.shape != tuple(a.shape[d] for d in axes):
        raise ValueError(
            f"Shape of weights must be consistent with shape of a along specified axis: weights of shape "
            f"{weights.shape} do not fit an array of shape {a.shape} along {axes}."
        )
    if list(axes) != sorted(axes):
        weights = transpose(weights, tuple(int(k) for k in np.argsort(axes)))
    return reshape_op(weights, shape=tuple(length if d in axes else 1 for d, length in enumerate(a.shape)))


@answers(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Weighted average over axes, as `numpy.average`: differentiable in the weights too.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda w: jnp.average(np.array([1.0, 4.0]), weights=w))(np.array([1.0, 2.0]))
    array([-0.66666667,  0.33333333])
    """
    a = asarray(a)
    keepdims = keepdims is not NO_VALUE and bool(keepdims)
    axes = axes_of(axis, a.ndim)
    if weights is None:
        mean = mean_op(a, axes=axes, keepdims=keepdims)
        if not returned:
            return mean
        number = np.prod([a.shape[d] for d in axes], dtype=mean.dtype)
        return mean, np.full(mean.shape, number)[()]
    weights = asarray(weights)
    wide = np.float64 if a.dtype.kind in "iub" else a.dtype
    dtype = np.result_type(a.dtype, weights.dtype, wide)
    aligned = _aligned_weights(weights, a, axis)
    total = sum_op(broadcast_to_op(aligned, shape=a.shape), axes=axes, keepdims=keepdims, dtype=dtype)
    if np.any(total == 0.0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    product = multiply(astype(a, dtype, copy=False), astype(aligned, dtype, copy=False))
    mean = divide(sum_op(product, axes=axes, keepdims=keepdims), total)
    return (mean, total) if returned else mean


# -- passing over NaN ----------------------------------------------------------------------------------------


def _present(a: Any, where: Any) -> Any:
    there = ~np.isnan(a)
    return there if where is True or where is NO_VALUE else there & where


@answers(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Sum over axes in which NaN counts as 0, as `numpy.nansum`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(lambda x: jnp.nansum(x**2))(np.array([1.0, np.nan]))
    array([2., 0.])
    """
    a = asarray(a)
    return sum(a, axis, dtype, out, keepdims, initial, _present(a, where))


@answers(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Product over axes in which NaN counts as 1, as `numpy.nanprod`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> print(jnp.nanprod([2.0, float("nan"), 3.0]))
    6.0
    """
    a = asarray(a)
    return prod(a, axis, dtype, out, keepdims, initial, _present(a, where))


@answers(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    """Mean over axes of what is not NaN, as `numpy.nanmean`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> print(jnp.nanmean([2.0, float("nan"), 3.0]))
    2.5
    """
    a = asarray(a)
    return mean_over(a, axis, dtype, out, keepdims, where=_present(a, where))


@answers(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Variance over axes of what is not NaN, as `numpy.nanvar`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> print(jnp.nanvar([2.0, float("nan"), 4.0]))
    1.0
    """
    a = asarray(a)
    there = _present(a, where)
    return var(a, axis, dtype, out, ddof, keepdims, where=there, mean=mean, correction=correction)


@answers(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Return the standard deviation over axes of what is not NaN, as `numpy.nanstd`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> print(jnp.nanstd([2.0, float("nan"), 4.0]))
    1.0
    """
    a = asarray(a)
    there = _present(a, where)
    return std(a, axis, dtype, out, ddof, keepdims, where=there, mean=mean, correction=correction)


@answers(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative sum in which NaN counts as 0, as `numpy.nancumsum`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> jnp.nancumsum([2.0, float("nan"), 3.0])
    array([2., 2., 5.])
    """
    a = asarray(a)
    return cumsum(select(_present(a, True), a, 0), axis, dtype, out)


@answers(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Cumulative product in which NaN counts as 1, as `numpy.nancumprod`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> jnp.nancumprod([2.0, float("nan"), 3.0])
    array([2., 2., 6.])
    """
    a = asarray(a)
    return cumprod(select(_present(a, True), a, 1), axis, dtype, out)


def _nan_extremum(
    extremum: Any, least: float, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    a = asarray(a)
    if a.dtype.kind not in "fc":
        return extremum(a, axis, out, keepdims, initial, where)
    there = _present(a, where)
    found = extremum(a, axis, out, keepdims, least if initial is NO_VALUE else initial, there)
    if initial is not NO_VALUE:
        return found
    none = number_of(there, a, axes_of(axis, a.ndim), keepdims) == 0
    return select(none, np.asarray(np.nan, a.dtype), found)


@answers(np.nanmax)
def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Maximum over axes of what is not NaN, as `numpy.nanmax`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> print(jnp.nanmax([2.0, float("nan"), 3.0]))
    3.0
    """
    return _nan_extremum(max, -np.inf, a, axis, out, keepdims, initial, where)


@answers(np.nanmin)
def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Minimum over axes of what is not NaN, as `numpy.nanmin`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> print(jnp.nanmin([2.0, float("nan"), 3.0]))
    2.0
    """
    return _nan_extremum(min, np.inf, a, axis, out, keepdims, initial, where)
