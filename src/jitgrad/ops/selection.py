"""Choosing between values: where, maximum and minimum, clip, and what replaces NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.capture import capture_of
from jitgrad.core.elementwise import Elementwise, elementwise
from jitgrad.core.op import REGISTRY, Array, Op
from jitgrad.core.protocol import answers, method, plain
from jitgrad.core.samples import uniform
from jitgrad.core.shapes import translated
from jitgrad.core.tensor import Tensor
from jitgrad.kernels import layout as L
from jitgrad.ops.arithmetic import positive
from jitgrad.ops.casting import asarray

_MISSING: Any = np._NoValue


class _Where(Elementwise):
    """`where`: its contributions are the cotangent itself or 0, never a product with 0."""

    def contribution(self, k: int, g: Any, residuals: Sequence[Any]) -> Any:
        """Return the cotangent where operand ``k`` was chosen: of tensors as one row more."""
        if type(g) is not Tensor and g.dtype.kind != "c":
            return super().contribution(k, g, residuals)
        (condition,) = residuals
        return self.call(condition, g, 0.0) if k == 1 else self.call(condition, 0.0, g)


def _where_samples(rng: np.random.Generator) -> Any:
    for shapes in (((3, 4),) * 3, ((),) * 3, ((2, 1, 4), (3, 1), ()), ((4,), (), (3, 1))):
        condition = rng.uniform(size=shapes[0]) > 0.5
        yield (condition, rng.uniform(-3, 3, shapes[1]), rng.uniform(-3, 3, shapes[2])), {}


# What partials call; the condition is an array, not a tensor that needs a derivative
where_op: _Where = _Where(
    "where",
    lambda condition, x, y: x if condition else y,
    ("condition", "x", "y"),
    {
        "x": lambda condition: where_op(condition, 1.0, 0.0),
        "y": lambda condition: where_op(condition, 0.0, 1.0),
    },
    fallback=np.where,
    absorbing="both",
    node="Where",
    numpy=(),
    samples=_where_samples,
    linear=None,
    doc=np.where.__doc__,
    masks=("condition",),
)


@answers(np.where)
def where(condition: Any, x: Any = _MISSING, y: Any = _MISSING, /) -> Any:
    """Choose from ``x`` or ``y`` by a condition, as `numpy.where`.

    With the condition alone, the indices of its non-zero elements.
    """
    if capture_of(condition) is not None and x is not _MISSING and y is not _MISSING:
        chosen = condition if condition.dtype == np.bool_ else np.not_equal(condition, 0)
        return where_op.call(chosen, asarray(x) if isinstance(x, (list, tuple)) else x, y)
    condition = plain(condition)
    if x is _MISSING and y is _MISSING:
        return np.where(condition)
    if x is _MISSING or y is _MISSING:
        raise ValueError("either both or neither of x and y should be given")
    if isinstance(x, (list, tuple)):
        x = asarray(x)
    if isinstance(y, (list, tuple)):
        y = asarray(y)
    if type(x) is not Tensor and type(y) is not Tensor:
        try:
            return np.where(condition, x, y)
        except ValueError as error:
            raise translated(error, "where", (condition, x, y)) from None
    return where_op.call(np.asarray(condition, np.bool_), x, y)


def _share_of_arrays(x: Any, y: Any) -> Any:
    kind = np.result_type(x, y)
    out = np.where(np.equal(x, y), 0.5, np.where(np.less(x, y), 0.0, 1.0))
    return out.astype(kind) if kind.kind in "fc" else out


# Of two equal operands each gets half of the derivative. A NaN, being the result, gets all of it.
share = elementwise(
    "share",
    lambda x, y: 0.5 if x == y else (0.0 if x < y else 1.0),
    x=lambda: 0.0,
    y=lambda: 0.0,
    fallback=_share_of_arrays,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
    doc="How much of the derivative of ``maximum(x, y)`` goes to ``x``.",
)

maximum = elementwise(
    "maximum",
    # NaN in either operand is the result; of equal zeros it is y, as in the processor's instruction
    lambda x, y: x if (x > y) | (x != x) else y,
    x=lambda x, y: share(x, y),
    y=lambda x, y: share(y, x),
    numpy=np.maximum,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
)

minimum = elementwise(
    "minimum",
    lambda x, y: x if (x < y) | (x != x) else y,
    x=lambda x, y: share(y, x),
    y=lambda x, y: share(x, y),
    numpy=np.minimum,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
)

# fmax and fmin pass over NaN: the other operand gets the derivative.
fmax = elementwise(
    "fmax",
    lambda x, y: x if (x > y) | (y != y) else y,
    x=lambda x, y: where_op((x != x) & (y == y), 0.0, share(x, y)),
    y=lambda x, y: where_op((x != x) & (y == y), 1.0, 1.0 - share(x, y)),
    numpy=np.fmax,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
)

fmin = elementwise(
    "fmin",
    lambda x, y: x if (x < y) | (y != y) else y,
    x=lambda x, y: where_op((x != x) & (y == y), 0.0, share(y, x)),
    y=lambda x, y: where_op((x != x) & (y == y), 1.0, 1.0 - share(y, x)),
    numpy=np.fmin,
    absorbing="both",
    samples=uniform((-3, 3), (-3, 3)),
)

clip_op = elementwise(
    "clip",
    lambda x, low, high: minimum(maximum(x, low), high),
    x=lambda x, low, high: share(x, low) * share(high, maximum(x, low)),
    low=lambda x, low, high: share(low, x) * share(high, maximum(x, low)),
    high=lambda x, low, high: share(maximum(x, low), high),
    fallback=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    absorbing="both",
    node="Clamp",
    samples=uniform((-3, 3), (-2, -0.5), (0.5, 2)),
    doc="Values limited to an interval: ``minimum(maximum(x, low), high)``, with its derivatives.",
)


def _clip(a: Any, low: Any, high: Any) -> Any:
    a, low, high = (asarray(v) if isinstance(v, (list, tuple)) else v for v in (a, low, high))
    if not (type(a) is Tensor or type(low) is Tensor or type(high) is Tensor):
        try:
            return np.clip(a, low, high)
        except ValueError as error:
            raise translated(error, "clip", (a, low, high)) from None
    a = asarray(a)
    if low is None and high is None:
        return positive.call(a) if a.dtype.kind in "fc" else REGISTRY["clone"](a)
    if high is None:
        return maximum.call(a, low)
    if low is None:
        return minimum.call(a, high)
    if a.dtype.kind == "f":
        scalar = (float, int)
        if type(low) in scalar and type(high) in scalar and a._type.size <= L.SMALL:
            return minimum.call(maximum.call(a, low), high)  # a native row holds one number
    return clip_op.call(a, low, high)


@answers(np.clip)
def clip(
    a: Any,
    a_min: Any = _MISSING,
    a_max: Any = _MISSING,
    *,
    min: Any = _MISSING,
    max: Any = _MISSING,
) -> Any:
    """Limit values to an interval, as `numpy.clip`.

    The derivative is that of ``minimum(maximum(a, a_min), a_max)``, in the bounds too: an element that equals
    a bound shares it evenly with the bound.
    """
    if (a_min is not _MISSING and min is not _MISSING) or (a_max is not _MISSING and max is not _MISSING):
        raise ValueError("clip() takes its bounds as a_min and a_max or as min and max, not both")
    low = min if a_min is _MISSING else a_min
    high = max if a_max is _MISSING else a_max
    return _clip(a, None if low is _MISSING else low, None if high is _MISSING else high)


@method("clip")
def _clip_method(self: Any, min: Any = None, max: Any = None) -> Any:
    """Limit values to an interval, as `numpy.ndarray.clip`."""
    return _clip(self, min, max)


def _replace(x: Array, *, nan: float, posinf: float | None, neginf: float | None) -> Array:
    return np.asarray(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf))


nan_to_num_op = Op(
    "nan_to_num",
    _replace,
    ("x",),
    rules={"x": lambda g, x: where_op.call(np.isfinite(x), g, 0.0)},
    samples=lambda rng: [((rng.uniform(-3, 3, (3, 4)),), {"nan": 0.5, "posinf": 2.0, "neginf": None})],
)


@answers(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN and infinities by numbers, as `numpy.nan_to_num`; what is replaced has derivative 0."""
    x = asarray(x)
    if type(x) is not Tensor:
        return np.nan_to_num(x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)
    if not copy:
        raise TypeError("nan_to_num of a Tensor takes no copy=False: its results are new tensors")
    if x.dtype.kind not in "fc":
        return REGISTRY["clone"](x)
    return nan_to_num_op(x, nan=nan, posinf=posinf, neginf=neginf)
