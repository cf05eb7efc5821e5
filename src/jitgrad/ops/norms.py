"""Norms of vectors and matrices, and the logarithm of a sum of exponentials, for entries of any scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.elementwise import elementwise
from jitgrad.core.op import FUNCTIONS, Array, Op, requires_grad
from jitgrad.core.protocol import answers, plain
from jitgrad.core.samples import uniform
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.errors import DtypeError, NoGradientError
from jitgrad.ops.arithmetic import absolute, conjugate, multiply, multiply_no_nan, sign, subtract
from jitgrad.ops.axes import axes_of, kept_shape, lift, max_over, refuse, sum_over
from jitgrad.ops.casting import asarray, astype
from jitgrad.ops.exponential import exp
from jitgrad.ops.reductions import max, min, sum_op
from jitgrad.ops.selection import where as select
from jitgrad.ops.shaping import broadcast_to_op, reshape_op
from jitgrad.ops.statistics import divide_no_nan

__all__ = ["logsumexp", "logsumexp_op", "norm", "norm2_op", "norm_p_op", "softmax_op"]


def _squeezed(out: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    return out if keepdims else out.reshape(tuple(n for d, n in enumerate(out.shape) if d not in axes))[()]


# -- norms ---------------------------------------------------------------------------------------------------


def _rescaled(x: Array, axes: tuple[int, ...], measure: Callable[[Array], Array], keepdims: bool) -> Any:
    """Measure ``x`` in units of its largest entry, where powers of the entries overflow or underflow."""
    size = np.absolute(x)
    largest = max_over(size, axes, None, None, True)
    unit = np.where((largest > 0) & (largest < np.inf), largest, 1)
    out = measure(size / unit) * unit
    return _squeezed(out, axes, keepdims)


def _exact(out: Any, dtype: np.dtype[Any], power: float) -> bool:
    """Tell whether the powers that a norm was summed from have neither overflowed nor lost digits."""
    info = np.finfo(dtype)
    low = float(info.tiny / info.eps) ** (1 / power)
    return bool(np.logical_and.reduce((out > low) & (out < np.inf), axis=None))


def _norm2(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if x.ndim == len(axes) and x.dtype.char in "df" and not keepdims:
            flat = x.ravel(order="K")
            out = np.sqrt(flat.dot(flat))
        else:
            squares = x * x if x.dtype.kind == "f" else (x.conj() * x).real
            out = np.sqrt(sum_over(squares, axes, None, None, keepdims))
        if not x.size or _exact(out, out.dtype, 2):
            return out
        return _rescaled(x, axes, lambda part: np.sqrt(sum_over(part * part, axes, None, None, True)), keepdims)


def _norm2_rule(g: Any, x: Any, out: Any, x_t: ArrayType, *, axes: tuple[int, ...]) -> Any:
    # x / out first: it is at most 1, where g / out overflows at out = 1e-309
    direction = divide_no_nan(conjugate(x) if x_t.dtype.kind == "c" else x, lift(out, x_t, axes))
    return multiply(direction, lift(g, x_t, axes))


norm2_op: Op = Op(
    "norm2",
    _norm2,
    ("x",),
    rules={"x": _norm2_rule},
    node="LinalgVectorNorm",
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)),), {"axes": axes, "keepdims": keepdims})
        for axes, keepdims in (((0, 1), False), ((1,), True), ((0,), False))
    ],
    doc="Square root of the sum of squares over axes; at 0 its derivative is taken to be 0.",
)


def _magnitude(x: Any) -> Any:
    """Absolute values; of complex numbers as norms of one, whose derivatives are conjugated."""
    return absolute(x) if x.dtype.kind != "c" else norm2_op(x, axes=(), keepdims=False)


def _norm_p(x: Array, *, axes: tuple[int, ...], keepdims: bool, p: float) -> Any:
    def measure(size: Array, keepdims: bool = True) -> Any:
        return sum_over(size**p, axes, None, None, keepdims) ** (1 / p)

    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        out = measure(np.absolute(x), keepdims)
        if not x.size or p < 0 or _exact(out, out.dtype, p):
            return out
        return _rescaled(x, axes, measure, keepdims)


def _norm_p_rule(g: Any, x: Any, out: Any, x_t: ArrayType, *, axes: tuple[int, ...], p: float) -> Any:
    # (|x| / out)**(p - 1) has entries of at most 1, where |x|**(p - 1) overflows at x = 1e200, p = 3
    scale = lift(out, x_t, axes)
    if x_t.dtype.kind == "f" and p > 0 and p % 2 == 0:
        slope = divide_no_nan(x, scale) ** (p - 1.0)
    else:
        size = _magnitude(x)
        share = divide_no_nan(size, scale)
        zero = np.equal(share, 0)  # there the sign, 0, decides, also for p < 1 where the power is infinite
        power = select(zero, 0.0, select(zero, 1.0, share) ** (p - 1.0))
        slope = multiply(power, sign(x) if x_t.dtype.kind == "f" else divide_no_nan(conjugate(x), size))
    return multiply(slope, lift(g, x_t, axes))


norm_p_op: Op = Op(
    "norm_p",
    _norm_p,
    ("x",),
    rules={"x": _norm_p_rule},
    node="LinalgVectorNorm",
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)),), {"axes": (1,), "keepdims": keepdims, "p": p})
        for p, keepdims in ((3.0, False), (4.0, True), (1.5, False), (-2.0, False))
    ],
    doc="The p-norm of vectors along axes, for p other than 0, 1, 2 and the infinities.",
)


def _matrix_norm(x: Any, ord: Any, axis: tuple[int, int]) -> Any:  # noqa: A002
    """Norms of matrices in two axes, which are kept."""
    rows, columns = axis
    if ord in (1, -1, np.inf, -np.inf):
        inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = sum_op(_magnitude(x), axes=(inner,), keepdims=True)
        if ord < 0:
            return min(sums, outer, keepdims=True)
        return max(sums, outer, keepdims=True, **({} if x.shape[outer] else {"initial": 0}))
    if ord not in (2, -2, "nuc"):
        raise ValueError(f"Invalid norm order for matrices: {ord!r}.")
    if type(x) is Tensor and requires_grad(x):
        raise NoGradientError.op(f"norm(ord={ord!r}) of a matrix")
    return np.linalg.norm(plain(x), ord, axis, keepdims=True)


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:  # noqa: A002
    """Norms of vectors along axes, taken together as one."""
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord is None or ord == 2:
        return norm2_op(x, axes=axes, keepdims=keepdims)
    if ord == np.inf:
        empty = 0 in (x.shape[d] for d in axes)
        return max(_magnitude(x), axes, keepdims=keepdims, **({"initial": 0} if empty else {}))
    if ord == -np.inf:
        return min(_magnitude(x), axes, keepdims=keepdims)
    if ord == 0:
        return sum_op(np.not_equal(x, 0), axes=axes, keepdims=keepdims, dtype=np.finfo(x.dtype).dtype)
    if ord == 1:
        return sum_op(_magnitude(x), axes=axes, keepdims=keepdims)
    return norm_p_op(x, axes=axes, keepdims=keepdims, p=float(ord))


def _inexact(x: Any) -> Any:
    x = asarray(x)
    return x if x.dtype.kind in "fc" else astype(x, np.float64)


@answers(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Norm of vectors or matrices, as `numpy.linalg.norm`.

    At 0 the derivative of the 2-norm, and of every other, is taken to be 0. The 2-norm and the other p-norms
    neither overflow nor underflow before their value does.

    Raises
    ------
    NoGradientError
        For ``ord`` 2, -2 and "nuc" of a matrix that requires a gradient.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(np.linalg.norm)(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    >>> jg.grad(np.linalg.norm)(np.zeros(2))
    array([0., 0.])
    """
    x = _inexact(x)
    if axis is None:
        axis = tuple(range(x.ndim))
        if ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1):
            return norm2_op(x, axes=axis, keepdims=bool(keepdims))
    elif not isinstance(axis, tuple):
        try:
            axis = (int(axis),)
        except (TypeError, ValueError) as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    if not 1 <= len(axis) <= 2:
        raise ValueError(f"Improper number of dimensions to norm: it takes one axis or two, not {len(axis)}.")
    named = tuple(int(d) for d in np.lib.array_utils.normalize_axis_tuple(axis, x.ndim))
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, bool(keepdims))
    if ord is None or ord in ("f", "fro"):
        return norm2_op(x, axes=axes, keepdims=bool(keepdims))
    out = _matrix_norm(x, ord, (named[0], named[1]))
    if keepdims:
        return out
    return reshape_op(out, shape=tuple(length for d, length in enumerate(x.shape) if d not in axes))


def _linalg_vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    """Norm of vectors along one or more axes, or of all elements, as `numpy.linalg.vector_norm`."""
    x = _inexact(x)
    return _vector_norm(x, ord, axes_of(axis, x.ndim), bool(keepdims))


def _linalg_matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # noqa: A002
    """Norm of matrices in the last two axes, as `numpy.linalg.matrix_norm`."""
    return norm(x, ord, (-2, -1), keepdims)


FUNCTIONS[np.linalg.vector_norm] = _linalg_vector_norm
FUNCTIONS[np.linalg.matrix_norm] = _linalg_matrix_norm


# -- the logarithm of a sum of exponentials ------------------------------------------------------------------


def _softmax(x: Array, *, axes: tuple[int, ...]) -> Array:
    if not x.size:
        return x.copy()
    peak = max_over(x, axes, None, None, True)
    if np.isfinite(peak).all():
        weights: Array = exp(np.subtract(x, peak))
        weights /= sum_over(weights, axes, None, None, True)
        return weights
    # infinite entries share everything; with nothing but -inf there is nothing to share
    with np.errstate(invalid="ignore"):
        weights = exp(np.subtract(x, peak))
    weights = np.where(np.isinf(peak), np.equal(x, peak) & (peak > 0), weights).astype(x.dtype)
    total = sum_over(weights, axes, None, None, True)
    weights /= np.where(total == 0, 1, total)
    return weights


def _softmax_rule(g: Any, out: Any, *, axes: tuple[int, ...]) -> Any:
    weighted = multiply(out, g)
    return subtract(weighted, multiply(out, sum_op(weighted, axes=axes, keepdims=True)))


softmax_op: Op = Op(
    "softmax",
    _softmax,
    ("x",),
    rules={"x": _softmax_rule},
    samples=lambda rng: [((rng.normal(size=(3, 4)),), {"axes": axes}) for axes in ((0, 1), (1,))],
    doc="Exponentials over their sum along axes. Zeros where all entries are -inf.",
)


def _logsumexp(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not x.size:
        return _squeezed(np.full(kept_shape(x.shape, axes), -np.inf, x.dtype), axes, keepdims)
    peak = max_over(x, axes, None, None, True)
    attained = np.equal(x, peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = exp(np.subtract(x, peak))
        np.putmask(terms, attained, 0)
        number = sum_over(attained, axes, x.dtype, None, True)
        # the largest terms apart from the rest: log(1 + 1e-20) is 0
        out = np.log1p(sum_over(terms, axes, None, None, True) / number) + np.log(number) + peak
    return _squeezed(out, axes, keepdims)


logsumexp_op: Op = Op(
    "logsumexp",
    _logsumexp,
    ("x",),
    rules={"x": lambda g, x, x_t, *, axes: multiply(softmax_op(x, axes=axes), lift(g, x_t, axes))},
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)),), {"axes": axes, "keepdims": keepdims})
        for axes, keepdims in (((0, 1), False), ((1,), True), ((0,), False))
    ],
)


def _exp_of_difference(x: float, y: float) -> float:
    if y == -np.inf:
        return 0.0
    if x == y:
        return 1.0
    d = x - y
    e: float = exp(d)
    # what rounding took from the difference (Knuth's two-sum): at x = 40, y = 1e-8 it is 6 units in e's last place
    b = d - x
    lost = (x - (d - b)) - (y + b)
    return e + e * lost if 0 < e < np.inf else e


exp_of_difference = elementwise(
    "exp_of_difference",
    _exp_of_difference,
    x=lambda out: out,
    y=lambda out: -out,
    fallback=lambda x, y: np.where(np.equal(y, -np.inf), 0, np.where(np.equal(x, y), 1, np.exp(np.subtract(x, y)))),
    samples=uniform((-3, 0), (0, 3)),
    doc="``exp(x - y)``, of equal infinities 1, and 0 where y is -inf: one term's share of a sum.",
)


def _weighted(x: Array, b: Array, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not x.size:
        return _logsumexp(x, axes=axes, keepdims=keepdims)
    x = np.where(np.equal(b, 0), -np.inf, x).astype(x.dtype)
    peak = max_over(x, axes, None, None, True)
    attained = np.equal(x, peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(attained, 0, b * exp(np.subtract(x, peak)))
        rest = sum_over(terms, axes, None, None, True)
        at_peak = sum_over(np.where(attained, b, 0), axes, None, None, True)
        split = np.log1p(rest / at_peak) + np.log(at_peak)
        out = np.where(at_peak > 0, split, np.log(at_peak + rest)) + peak
    return _squeezed(out, axes, keepdims)


weighted_logsumexp_op: Op = Op(
    "weighted_logsumexp",
    _weighted,
    ("x", "b"),
    rules={
        # a term of weight 0 counts for nothing, even where it is infinite
        "x": lambda g, x, b, out, x_t, *, axes: multiply(
            multiply_no_nan(b, exp_of_difference(x, lift(out, x_t, axes))), lift(g, x_t, axes)
        ),
        "b": lambda g, x, out, x_t, *, axes: multiply(exp_of_difference(x, lift(out, x_t, axes)), lift(g, x_t, axes)),
    },
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)), rng.uniform(0.5, 2, size=(3, 4))), {"axes": axes, "keepdims": keepdims})
        for axes, keepdims in (((0, 1), False), ((1,), True))
    ],
)


@answers(name="logsumexp")
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Logarithm of the sum of exponentials over axes, without overflow, as `scipy.special.logsumexp`.

    Parameters
    ----------
    a : array_like
        Exponents, real.
    axis : int or tuple of int, optional
        The axes to sum over; all by default.
    b : array_like, optional
        Factors of the exponentials, which ``a`` broadcasts against. The result of a negative sum is NaN.
    keepdims : bool
        Whether the axes summed over stay, with length 1.
    return_sign : bool
        Not supported.

    Returns
    -------
    array, scalar or Tensor
        ``log(sum(b * exp(a)))``. Its derivative is 0 where all of ``a`` is -inf, and entries of +inf share it
        evenly.

    Raises
    ------
    DtypeError
        For complex arguments.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import jitgrad.numpy as jnp
    >>> import numpy as np
    >>> jg.grad(jnp.logsumexp)(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    refuse("logsumexp", return_sign=return_sign or None)
    a = asarray(a)
    b = None if b is None else asarray(b)
    for value in (a,) if b is None else (a, b):
        if value.dtype.kind == "c":
            raise DtypeError.operand("logsumexp", value.dtype, "real numbers")
    if a.dtype.kind != "f":
        a = astype(a, np.float64)
    shape = a.shape if b is None else np.broadcast_shapes(a.shape, b.shape)
    if a.shape != shape:
        a = broadcast_to_op(a, shape=shape)
    if not shape:
        a = reshape_op(a, shape=(1,))
    axes = axes_of(axis, a.ndim)
    if b is None:
        return logsumexp_op(a, axes=axes, keepdims=bool(keepdims))
    wide = np.result_type(a.dtype, b.dtype)
    a, b = astype(a, wide, copy=False), astype(b, wide, copy=False)
    if b.shape != a.shape:
        b = broadcast_to_op(b, shape=a.shape)
    return weighted_logsumexp_op(a, b, axes=axes, keepdims=bool(keepdims))
