"""Making arrays in ``jitgrad.numpy``.

Inside a transform's trace, new arrays are tensors, so that recorded values can be written to them; outside
they are plain arrays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import trace
from jitgrad.core.op import FUNCTIONS
from jitgrad.core.protocol import answers, plain
from jitgrad.core.tensor import Tensor, constant
from jitgrad.ops.casting import asarray, astype
from jitgrad.ops.shaping import broadcast_to, clone, moveaxis, reshape

__all__ = ["array", "full", "full_like", "linspace"]


def _fresh(array: Any, like: Any = None) -> Any:
    """A new array as it is, or in a trace, or for a tensor, as a tensor."""
    return constant(array) if type(like) is Tensor or trace.current_trace() is not None else array


def _maker(numpy_function: Callable[..., Any]) -> None:
    def function(*args: Any, **kwargs: Any) -> Any:
        return _fresh(numpy_function(*plain(args), **plain(kwargs)))

    _named_after(numpy_function, function)


def _maker_like(numpy_function: Callable[..., Any]) -> None:
    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        return _fresh(numpy_function(a._value if type(a) is Tensor else a, *args, **kwargs), a)

    _named_after(numpy_function, function)


def _named_after(numpy_function: Callable[..., Any], function: Callable[..., Any]) -> None:
    function.__name__ = numpy_function.__name__
    function.__doc__ = numpy_function.__doc__
    answers(numpy_function)(function)


for _function in (np.zeros, np.ones, np.empty, np.eye, np.identity, np.arange, np.tri, np.indices):
    _maker(_function)
for _like in (np.zeros_like, np.ones_like, np.empty_like):
    _maker_like(_like)


@answers(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **kwargs: Any) -> Any:
    """Return a new array filled with a value, as `numpy.full`; the value may be a tensor."""
    if type(fill_value) is not Tensor:
        return _fresh(np.full(shape, fill_value, dtype, order, **kwargs))
    value = fill_value if dtype is None else astype(fill_value, dtype)
    return clone(broadcast_to(value, shape))


@answers(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    **kwargs: Any,
) -> Any:
    """Return a new array filled with a value, of the shape and dtype of another, as `numpy.full_like`."""
    if type(fill_value) is not Tensor:
        return _fresh(
            np.full_like(a._value if type(a) is Tensor else a, fill_value, dtype, order, subok, shape, **kwargs), a
        )
    model = asarray(a)
    value = astype(fill_value, model.dtype if dtype is None else dtype, copy=False)
    return clone(broadcast_to(value, model.shape if shape is None else shape))


@answers(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: Any = 0,
    **kwargs: Any,
) -> Any:
    """Return numbers evenly spaced between two ends, which may be tensors, as `numpy.linspace`."""
    if type(start) is not Tensor and type(stop) is not Tensor:
        out: Any = np.linspace(start, stop, num, endpoint, retstep, dtype, axis, **kwargs)  # type: ignore[call-overload]
        return (_fresh(out[0]), out[1]) if retstep else _fresh(out)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    add, subtract, multiply = FUNCTIONS[np.add], FUNCTIONS[np.subtract], FUNCTIONS[np.multiply]
    start, stop = asarray(start), asarray(stop)
    n_steps = num - 1 if endpoint else num
    span = subtract(stop, start)
    kind = np.result_type(span.dtype, np.float64 if span.dtype.kind in "biu" else span.dtype)
    share = (np.arange(num) / n_steps if n_steps > 0 else np.zeros(num)).astype(kind)
    share = share.reshape(-1, *(1,) * span.ndim)
    # both ends are met exactly, as NumPy's are
    out = add(multiply(start, 1 - share), multiply(stop, share))
    if dtype is not None:
        out = astype(out, dtype)
    if axis != 0:
        out = moveaxis(out, 0, axis)
    if retstep:
        return out, multiply(span, 1 / n_steps if n_steps > 0 else math.nan)
    return out


@answers(name="array")
def array(object: Any, dtype: Any = None, *, copy: Any = True, ndmin: int = 0) -> Any:  # noqa: A002
    """Return a new array, or of tensors a tensor, as `numpy.array`."""
    out = asarray(object, dtype)
    if type(out) is not Tensor:
        return _fresh(np.array(out, copy=copy, ndmin=ndmin))
    if out is object and copy:
        out = clone(out)
    return reshape(out, (1,) * (ndmin - out.ndim) + out.shape) if out.ndim < ndmin else out
