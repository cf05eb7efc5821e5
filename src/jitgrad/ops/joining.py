"""Joining, splitting, repeating and padding."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from jitgrad.core import native
from jitgrad.core.op import FUNCTIONS, REGISTRY, Array, Op, recorded, recording_tape
from jitgrad.core.protocol import answers, method, plain
from jitgrad.core.tensor import Tensor, constant
from jitgrad.ops.casting import asarray, astype
from jitgrad.ops.indexing import pick
from jitgrad.ops.shaping import atleast_1d, atleast_2d, atleast_3d, broadcast_to, moveaxis, ravel, reshape

__all__ = [
    "append",
    "array_split",
    "block",
    "column_stack",
    "concatenate",
    "concatenate_op",
    "delete",
    "diff",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "insert",
    "meshgrid",
    "pad",
    "pad_op",
    "repeat",
    "resize",
    "split",
    "stack",
    "stack_op",
    "tile",
    "unstack",
    "vsplit",
    "vstack",
]

_ALL = slice(None)
_MISSING: Any = np._NoValue


def _along(axis: int, item: Any) -> tuple[Any, ...]:
    return (*(_ALL,) * axis, item)


# -- joining -------------------------------------------------------------------------------------------------


def _concatenate(*xs: Array, axis: int, bounds: tuple[int, ...]) -> Array:
    out = np.concatenate(xs, axis)
    if out.shape[axis] != bounds[-1]:
        raise ValueError(f"the parts end at {bounds}, but their lengths add up to {out.shape[axis]}")
    return out


def _concatenate_rule(g: Any, k: int, *, axis: int, bounds: tuple[int, ...]) -> Any:
    return g[_along(axis, slice(bounds[k], bounds[k + 1]))]


def _concatenate_rows(b: Any, xs: Any, out: Any, *, axis: int, bounds: tuple[int, ...]) -> bool:
    places = [out.view(out.array[_along(axis, slice(start, stop))]) for start, stop in pairwise(bounds)]
    return all(b.copy(x, place) for x, place in zip(xs, places, strict=True))


concatenate_op = Op(
    "concatenate",
    _concatenate,
    None,
    rows=_concatenate_rows,
    rules={"xs": _concatenate_rule},
    linear="jointly",
    node="Cat",
    samples=lambda rng: [
        (
            (rng.normal(size=(3, 2)), rng.normal(size=(3, 1)), rng.normal(size=(3, 4))),
            {"axis": 1, "bounds": (0, 2, 3, 7)},
        )
    ],
)


def _stack(*xs: Array, axis: int) -> Array:
    shape = xs[0].shape
    if axis == 0 and len(shape) < 2 and all(x.shape == shape for x in xs):
        return np.array(xs)  # ten times as fast for scalars
    return np.stack(xs, axis)


def _stack_rule(g: Any, k: int, *, axis: int) -> Any:
    return g[(*_along(axis, k), ...)]


def _stack_rows(b: Any, xs: Any, out: Any, *, axis: int) -> bool:
    return all(b.copy(x, out.view(out.array[(*_along(axis, k), ...)])) for k, x in enumerate(xs))


stack_op = Op(
    "stack",
    _stack,
    None,
    rows=_stack_rows,
    rules={"xs": _stack_rule},
    linear="jointly",
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)), rng.normal(size=(3, 4))), {"axis": 1}),
        ((rng.normal(size=()), rng.normal(size=()), rng.normal(size=())), {"axis": 0}),
    ],
)


def _parts(function: str, arrays: Any, out: Any = None, dtype: Any = None, casting: Any = "same_kind") -> list[Any]:
    """The operands of a joining function, as arrays or tensors of the dtype that was asked for."""
    if out is not None:
        raise TypeError(f"{function}() takes no out= in jitgrad: a recorded operation makes a new tensor.")
    parts = [a if type(a) is Tensor else asarray(a) for a in arrays]
    if dtype is not None:
        dtype = np.dtype(dtype)
        for part in parts:
            if not np.can_cast(part.dtype, dtype, casting):
                raise TypeError(f"Cannot cast array data from {part.dtype!r} to {dtype!r} according to {casting!r}")
        parts = [astype(part, dtype, copy=False) for part in parts]
    return parts


def _join(parts: list[Any], axis: Any) -> Any:
    if not any(type(part) is Tensor for part in parts):
        return np.concatenate(parts, axis)
    if not parts[0].ndim:
        np.concatenate(plain(parts), axis)  # raises
    axis = normalize_axis_index(axis, parts[0].ndim)
    bounds = [0]
    for part in parts:
        if part.ndim <= axis:
            np.concatenate(plain(parts), axis)  # raises
        bounds.append(bounds[-1] + part.shape[axis])
    params = {"axis": axis, "bounds": tuple(bounds)}
    return concatenate_op(*parts, **params) if axis else _laid_out(concatenate_op, parts, params)


@answers(np.concatenate, name="concat")
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Join arrays along an axis that they have, as `numpy.concatenate`."""
    parts = _parts("concatenate", arrays, out, dtype, casting)
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        return _join([ravel(part) for part in parts], 0)
    return _join(parts, axis)


@answers(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Join arrays of one shape along a new axis, as `numpy.stack`."""
    parts = _parts("stack", arrays, out, dtype, casting)
    if not any(type(part) is Tensor for part in parts):
        return np.stack(parts, axis)
    axis = normalize_axis_index(axis, parts[0].ndim + 1)
    return stack_op(*parts, axis=axis) if axis else _laid_out(stack_op, parts, {"axis": 0})


def _laid_out(op: Op, parts: list[Any], params: dict[str, Any]) -> Any:
    """Join along the first axis: natively, where the operands allow it."""
    arrays = [part._value if type(part) is Tensor else part for part in parts]
    out = op.forward(*arrays, **params)
    handle = native.join(op.index, tuple(parts), out, params)
    if handle is None:
        tape = recording_tape(parts)
        if tape is None or not recorded(tape, out):
            return constant(out)
        handle = op.record(tape, parts, arrays, out, params)
    return handle


def _all_at_least(promote: Callable[..., Any], function: str, tup: Any, **keywords: Any) -> list[Any]:
    return [promote(part) for part in _parts(function, tup, **keywords)]


@answers(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Join arrays along the second axis, or the only one, as `numpy.hstack`."""
    parts = _all_at_least(atleast_1d, "hstack", tup, dtype=dtype, casting=casting)
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1)


@answers(np.vstack, name="row_stack")
def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Join arrays along the first axis, vectors as rows, as `numpy.vstack`."""
    return concatenate(_all_at_least(atleast_2d, "vstack", tup, dtype=dtype, casting=casting), 0)


@answers(np.dstack)
def dstack(tup: Any) -> Any:
    """Join arrays along the third axis, as `numpy.dstack`."""
    return concatenate(_all_at_least(atleast_3d, "dstack", tup), 2)


@answers(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Join arrays along the second axis, vectors as columns, as `numpy.column_stack`."""
    return concatenate([atleast_2d(part).T if part.ndim < 2 else part for part in _parts("column_stack", tup)], 1)


@answers(np.block)
def block(arrays: Any) -> Any:
    """Assemble an array from nested lists of blocks, as `numpy.block`."""
    depth = _depth(arrays)
    ndim = max(depth, _most_axes(arrays))

    def assemble(blocks: Any, level: int) -> Any:
        if level == depth:
            part = asarray(blocks)
            return reshape(part, (1,) * (ndim - part.ndim) + part.shape)
        return concatenate([assemble(inner, level + 1) for inner in blocks], ndim - depth + level)

    return assemble(arrays, 0)


def _depth(arrays: Any) -> int:
    if isinstance(arrays, tuple):
        raise TypeError(
            "arrays is a tuple. Only lists can be used to arrange blocks, and np.block does not allow tuples."
        )
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError("List at arrays cannot be empty")
    depths = {_depth(inner) for inner in arrays}
    if len(depths) > 1:
        raise ValueError(f"List depths are mismatched: there are blocks at depths {sorted(depths)} of one list.")
    return 1 + depths.pop()


def _most_axes(arrays: Any) -> int:
    return max(map(_most_axes, arrays)) if isinstance(arrays, list) else asarray(arrays).ndim


@answers(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Join two arrays, as `numpy.append`."""
    arr, values = asarray(arr), asarray(values)
    if axis is None:
        return concatenate((ravel(arr), ravel(values)), 0)
    return concatenate((arr, values), axis)


# -- splitting -----------------------------------------------------------------------------------------------


@answers(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """Split into parts that need not be equal, as `numpy.array_split`."""
    ary = asarray(ary)
    if not ary.ndim:
        raise IndexError("tuple index out of range")  # NumPy's words
    axis = normalize_axis_index(axis, ary.ndim)
    length = ary.shape[axis]
    sections = plain(indices_or_sections)
    if np.ndim(sections):
        cuts = [operator.index(cut) for cut in sections]
        bounds = [0, *cuts, length]
    else:
        n = int(sections)
        if n <= 0:
            raise ValueError("number sections must be larger than 0.")
        size, extra = divmod(length, n)
        bounds = [part * size + min(part, extra) for part in range(n + 1)]
    return [ary[_along(axis, slice(start, stop))] for start, stop in pairwise(bounds)]


@answers(np.split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """Split into equal parts, or at given places, as `numpy.split`."""
    ary = asarray(ary)
    sections = plain(indices_or_sections)
    if not np.ndim(sections):
        axis = normalize_axis_index(axis, ary.ndim)
        if ary.shape[axis] % sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, sections, axis)


@answers(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the second axis, or the only one, as `numpy.hsplit`."""
    ary = asarray(ary)
    if ary.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@answers(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the first axis, as `numpy.vsplit`."""
    ary = asarray(ary)
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@answers(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the third axis, as `numpy.dsplit`."""
    ary = asarray(ary)
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: Any = 0) -> tuple[Any, ...]:
    """Return the parts along an axis, as `numpy.unstack`."""
    x = asarray(x)
    if x.ndim == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(moveaxis(x, axis, 0))


if hasattr(np, "unstack"):  # since NumPy 2.1
    answers(np.unstack)(unstack)
else:
    answers(name="unstack")(unstack)


# -- repeating -----------------------------------------------------------------------------------------------


@answers(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """Repeat an array as a whole, as `numpy.tile`."""
    a = asarray(A)
    counts = tuple(operator.index(n) for n in plain(reps)) if np.ndim(reps) else (operator.index(reps),)
    if type(a) is not Tensor:
        return np.tile(a, counts)
    ndim = max(a.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - a.ndim) + a.shape
    if all(n == 1 for n in counts):
        return FUNCTIONS[np.copy](reshape(a, shape))
    inserted = reshape(a, [length for pair in zip((1,) * ndim, shape, strict=True) for length in pair])
    spread = broadcast_to(inserted, [length for pair in zip(counts, shape, strict=True) for length in pair])
    return reshape(spread, [n * length for n, length in zip(counts, shape, strict=True)])


@method("repeat")
@answers(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Repeat each element, as `numpy.repeat`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.repeat(a, plain(repeats), axis)
    if axis is None:
        a, axis = ravel(a), 0
    axis = normalize_axis_index(axis, a.ndim)
    counts = np.asarray(plain(repeats))
    length = a.shape[axis]
    if counts.size == 1 and counts.dtype.kind in "iu" and counts.item() >= 0:
        before, after, n = a.shape[:axis], a.shape[axis + 1 :], counts.item()
        spread = broadcast_to(reshape(a, (*before, length, 1, *after)), (*before, length, n, *after))
        return reshape(spread, (*before, length * n, *after))
    return pick(a, axis, np.repeat(np.arange(length), plain(repeats)))


@answers(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """Return an array of a new shape, its elements repeated as often as needed, as `numpy.resize`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.resize(a, new_shape)
    positions = np.resize(np.arange(a._type.size), new_shape)
    if not a._type.size:
        return FUNCTIONS[np.zeros_like](a, shape=positions.shape)
    return pick(ravel(a), 0, positions)


@answers(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """Return coordinate arrays from coordinate vectors, as `numpy.meshgrid`."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    places = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        places[:2] = 1, 0
    grids = [reshape(x, (1,) * place + (-1,) + (1,) * (ndim - place - 1)) for x, place in zip(xi, places, strict=True)]
    if not sparse:
        shape = np.broadcast_shapes(*(grid.shape for grid in grids))
        grids = [broadcast_to(grid, shape) for grid in grids]
        if copy:
            grids = [FUNCTIONS[np.copy](grid) for grid in grids]
    return tuple(grids)


# -- removing, inserting, differences ------------------------------------------------------------------------


@answers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """Return an array without some slices along an axis, as `numpy.delete`."""
    arr, obj = asarray(arr), plain(obj)
    if type(arr) is not Tensor:
        return np.delete(arr, obj, axis)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = normalize_axis_index(axis, arr.ndim)
    return pick(arr, axis, np.delete(np.arange(arr.shape[axis]), obj), unique=True)


@answers(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Return an array with further slices along an axis, as `numpy.insert`."""
    arr, obj, values = asarray(arr), plain(obj), asarray(values)
    if type(arr) is not Tensor and type(values) is not Tensor:
        return np.insert(arr, obj, values, axis)
    if axis is None:
        arr = ravel(arr)
        axis = 0
    axis = normalize_axis_index(axis, arr.ndim)
    values = astype(values, arr.dtype, copy=False)
    values = reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
    length = arr.shape[axis]
    n = np.arange(length)[obj].size if isinstance(obj, slice) else _count(obj)
    if n == 1:
        if np.ndim(obj) == 0 and not isinstance(obj, slice):
            values = moveaxis(values, 0, axis)
        n = values.shape[axis]
    values = broadcast_to(values, (*arr.shape[:axis], n, *arr.shape[axis + 1 :]))
    order = np.insert(np.arange(length), obj, np.arange(length, length + n))
    return pick(concatenate((arr, values), axis), axis, order, unique=True)


def _count(obj: Any) -> int:
    array = np.asarray(obj)
    return int(np.count_nonzero(array)) if array.dtype == np.bool_ else array.size


@answers(np.diff)
def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = _MISSING, append: Any = _MISSING) -> Any:
    """Differences of neighbours along an axis, as `numpy.diff`."""
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = asarray(a)
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, a.ndim)
    parts = []
    for part in (prepend, a, append):
        if part is not _MISSING:
            part = asarray(part)
            parts.append(part if part.ndim else broadcast_to(part, (*a.shape[:axis], 1, *a.shape[axis + 1 :])))
    if len(parts) > 1:
        a = concatenate(parts, axis)
    if type(a) is not Tensor:
        return np.diff(a, n, axis)
    later, earlier = _along(axis, slice(1, None)), _along(axis, slice(None, -1))
    subtract = FUNCTIONS[np.not_equal if a.dtype == np.bool_ else np.subtract]
    result: Any = a
    for _ in range(n):
        result = subtract(result[later], result[earlier])
    return result


# -- padding -------------------------------------------------------------------------------------------------

Widths = tuple[tuple[int, int], ...]


def _pad_rule(g: Any, *, widths: Widths) -> Any:
    return g[tuple([slice(before, g.shape[d] - after) for d, (before, after) in enumerate(widths)])]


def _pad_rows(b: Any, xs: Any, out: Any, *, widths: Widths) -> bool:
    inside = tuple(
        [slice(before, length - after) for length, (before, after) in zip(out.array.shape, widths, strict=True)]
    )
    return bool(b.copy(b.number(0.0, out), out) and b.copy(xs[0], out.view(out.array[(*inside, ...)])))


pad_op = Op(
    "pad",
    lambda x, *, widths: _padded(x, widths),
    ("x",),
    rows=_pad_rows,
    rules={"x": _pad_rule},
    linear="each",
    node="ConstantPadNd",
    samples=lambda rng: [((rng.normal(size=(3, 4)),), {"widths": ((1, 0), (2, 3))})],
    doc="Zeros around an array.",
)


def _padded(x: Array, widths: Widths) -> Array:
    z = np.zeros([before + length + after for length, (before, after) in zip(x.shape, widths, strict=True)], x.dtype)
    z[tuple([slice(before, before + length) for length, (before, _) in zip(x.shape, widths, strict=True)])] = x
    return z


def _pairs(value: Any, ndim: int, what: str) -> list[tuple[Any, Any]]:
    """What `numpy.pad` lets be given as one value, one pair, or a pair for each axis."""
    if isinstance(value, dict):
        every: list[Any] = [(0, 0)] * ndim
        for axis, pair in value.items():
            every[axis] = pair if np.ndim(pair) else (pair, pair)
        value = every
    if _holds_tensor(value):
        raise TypeError(f"pad() takes no tensors as {what}, but one number as constant_values: use concatenate")
    array = np.asarray(value, dtype=object)
    try:
        pairs = np.broadcast_to(array, (ndim, 2)).tolist()
    except ValueError:
        raise ValueError(
            f"{what} of shape {array.shape} does not fit {ndim} axes: give a number, a pair or {ndim} pairs"
        ) from None
    return [(before, after) for before, after in pairs]


def _holds_tensor(value: Any) -> bool:
    return type(value) is Tensor or (isinstance(value, (list, tuple)) and any(map(_holds_tensor, value)))


def _pad_widths(pad_width: Any, ndim: int) -> Widths:
    widths = _pairs(pad_width, ndim, "pad_width")
    for width in (width for pair in widths for width in pair):
        if not isinstance(width, (int, np.integer)):
            raise TypeError("`pad_width` must be of integral type.")
        if width < 0:
            raise ValueError("index can't contain negative values")
    return tuple([(int(before), int(after)) for before, after in widths])


def _frame(a: Any, axis: int, before: Any, after: Any) -> Any:
    """Put what was computed for both sides of an axis around an array."""
    parts = [part for part in (before, a, after) if part.shape[axis]]
    return concatenate(parts, axis) if len(parts) > 1 else a


def _pad_constant(a: Any, widths: Widths, constant_values: Any = 0) -> Any:
    if type(constant_values) is Tensor and constant_values.ndim == 0:
        frame = np.pad(np.zeros(a.shape, a.dtype), widths, constant_values=1)
        return FUNCTIONS[np.add](pad_op(a, widths=widths), REGISTRY["multiply_no_nan"](frame, constant_values))
    values = _pairs(constant_values, a.ndim, "constant_values")
    padded = pad_op(a, widths=widths)
    if any(value != 0 for pair in values for value in pair):
        zeros = np.zeros(a.shape, a.dtype)
        padded = FUNCTIONS[np.add](padded, np.pad(zeros, widths, "constant", constant_values=values))
    return padded


def _pad_by_position(mode: str) -> Callable[..., Any]:
    """The modes that repeat elements of the array itself."""

    def function(a: Any, widths: Widths, reflect_type: str = "even") -> Any:
        if reflect_type != "even":
            raise NotImplementedError(
                "pad() of a Tensor supports reflect_type='even' alone: 'odd' is twice the edge minus that."
            )
        for axis, width in enumerate(widths):
            if width != (0, 0):
                a = pick(a, axis, np.pad(np.arange(a.shape[axis]), width, mode))  # type: ignore[call-overload]
        return a

    return function


def _pad_linear_ramp(a: Any, widths: Widths, end_values: Any = 0) -> Any:
    multiply, add = FUNCTIONS[np.multiply], FUNCTIONS[np.add]
    for axis, ((before, after), ends) in enumerate(zip(widths, _pairs(end_values, a.ndim, "end_values"), strict=True)):
        column = (-1, *(1,) * (a.ndim - axis - 1))
        sides = []
        for width, end, edge, backwards in (
            (before, ends[0], slice(0, 1), 1),
            (after, ends[1], slice(-1, None), -1),
        ):
            share = (np.arange(width) / max(width, 1))[::backwards].reshape(column).astype(a.dtype)
            constant = ((1 - share) * end).astype(a.dtype)
            sides.append(add(multiply(a[_along(axis, edge)], share), constant))
        a = _frame(a, axis, *sides)
    return a


def _pad_statistic(statistic: Callable[..., Any]) -> Callable[..., Any]:
    """The modes that pad with a statistic of the elements next to each edge."""

    def function(a: Any, widths: Widths, stat_length: Any = None) -> Any:
        lengths = _pairs(stat_length, a.ndim, "stat_length")
        for axis, (width, length) in enumerate(zip(widths, lengths, strict=True)):
            size = a.shape[axis]
            counts = [size if n is None else min(operator.index(n), size) for n in length]
            if 0 in counts and width != (0, 0):
                raise ValueError("stat_length of 0 yields no value for padding")
            sides = []
            for n, part in zip(width, (slice(0, counts[0]), slice(size - counts[1], None)), strict=True):
                value = FUNCTIONS[statistic](a[_along(axis, part)], axis=axis, keepdims=True)
                sides.append(broadcast_to(value, (*a.shape[:axis], n, *a.shape[axis + 1 :])))
            a = _frame(a, axis, *sides)
        return a

    return function


_PAD_MODES: dict[str, Callable[..., Any]] = {
    "constant": _pad_constant,
    "edge": _pad_by_position("edge"),
    "reflect": _pad_by_position("reflect"),
    "symmetric": _pad_by_position("symmetric"),
    "wrap": _pad_by_position("wrap"),
    "linear_ramp": _pad_linear_ramp,
    "mean": _pad_statistic(np.mean),
    "median": _pad_statistic(np.median),
    "maximum": _pad_statistic(np.max),
    "minimum": _pad_statistic(np.min),
}


@answers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Put elements around an array, as `numpy.pad`: all its modes but "empty" and functions."""
    a = asarray(array)
    if type(a) is not Tensor or not a._type.inexact:
        return np.pad(plain(a), plain(pad_width), mode, **plain(kwargs))
    if mode not in _PAD_MODES:
        raise NotImplementedError(f"pad() of a Tensor has the modes {', '.join(_PAD_MODES)}, not {mode!r}")
    return _PAD_MODES[mode](a, _pad_widths(plain(pad_width), a.ndim), **kwargs)
