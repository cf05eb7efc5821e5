"""Shape: reshape and its kin, order and number of axes, broadcasting, reversing and rolling."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from jitgrad.core.op import Array, Op
from jitgrad.core.protocol import answers, attribute, method, plain
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.ops.casting import asarray
from jitgrad.ops.views import view

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "broadcast_to_op",
    "clone",
    "copy",
    "expand_dims",
    "expand_dims_op",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ravel",
    "reshape",
    "reshape_op",
    "roll",
    "roll_op",
    "rollaxis",
    "rot90",
    "squeeze",
    "squeeze_op",
    "sum_to",
    "swapaxes",
    "swapaxes_op",
    "transpose",
    "transpose_op",
]

Shape = tuple[int, ...]

# -- the same elements in another shape ----------------------------------------------------------------------


def _reshape_rule(g: Any, x_t: ArrayType) -> Any:
    return reshape_op(g, shape=x_t.shape)


def _reshape_rows(b: Any, xs: Any, out: Any, *, shape: Shape) -> bool:
    """Copy, where the operand is so laid out that the result cannot be a view of it."""
    return bool(b.copy(xs[0], out.view(out.array.reshape(xs[0].array.shape))))


def _reshaping(name: str, node: str, before: Shape, after: Shape) -> Op:
    return Op(
        name,
        lambda x, *, shape: x.reshape(shape),
        ("x",),
        rows=_reshape_rows,
        rules={"x": _reshape_rule},
        linear="each",
        view=True,
        node=node,
        samples=lambda rng: [((rng.normal(size=before),), {"shape": after})],
    )


reshape_op = _reshaping("reshape", "View", (3, 4), (2, 6))
squeeze_op = _reshaping("squeeze", "Squeeze", (3, 1, 2), (3, 2))
expand_dims_op = _reshaping("expand_dims", "Unsqueeze", (3, 2), (3, 1, 2))


def _reshaped(op: Op, a: Tensor, out: Array) -> Tensor:
    return view(op, a, out, {"shape": out.shape})


@answers(np.reshape)
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Give an array a new shape, as `numpy.reshape`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.reshape(a, shape, order=order, copy=copy)  # type: ignore[call-overload]
    if type(shape) is Tensor:
        shape = plain(shape).tolist()
    if order not in ("C", "F", "A"):
        np.reshape(a._value, shape, order=order)  # type: ignore[call-overload]  # raises
    if copy is not None:
        a = _copied(a, shape, order, copy)
    if order != "C" and _is_fortran(a, order):
        if isinstance(shape, Sequence):
            shape = tuple(shape)[::-1]
        return transpose(reshape(transpose(a), shape))
    return _reshaped(reshape_op, a, np.reshape(a._value, shape))


def _is_fortran(a: Tensor, order: str) -> bool:
    flags = a._value.flags
    return order == "F" or (flags.f_contiguous and not flags.c_contiguous)


def _copied(a: Tensor, shape: Any, order: Any, copy: bool) -> Any:
    """The tensor to reshape where the caller insists on a copy, or on none."""
    if copy:
        return clone(a)
    np.reshape(a._value, shape, order=order, copy=False)  # raises where there would be a copy
    return a


@method("reshape")
def _reshape_method(self: Tensor, /, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """Give the tensor a new shape, as `numpy.ndarray.reshape`: one tuple, or a number of lengths."""
    return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@method("ravel")
@answers(np.ravel)
def ravel(a: Any, order: str = "C") -> Any:
    """Lay an array out in one axis, as `numpy.ravel`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.ravel(a, order)  # type: ignore[call-overload]
    if order == "K":
        strides = a._value.strides
        a = transpose(a, sorted(range(a.ndim), key=lambda axis: -abs(strides[axis])))
        order = "C"
    return reshape(a, -1, order)


@method("flatten")
def _flatten_method(self: Tensor, order: str = "C") -> Any:
    """Return a copy laid out in one axis, as `numpy.ndarray.flatten`."""
    return ravel(clone(self), order)


clone = Op(
    "clone",
    lambda x: np.array(x, order="K"),
    ("x",),
    rows=lambda b, xs, out: b.copy(xs[0], out),
    rules={"x": lambda g: g},
    linear="each",
    samples=lambda rng: [((rng.normal(size=(3, 4)),), {})],
    doc="A copy, which does not change when the original is written to.",
)


@answers(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Return a copy, as `numpy.copy`."""
    return clone(asarray(a))


@method("copy")
def _copy_method(self: Tensor, order: str = "C") -> Any:
    """Return a copy, as `numpy.ndarray.copy`."""
    return clone(self)


@method("squeeze")
@answers(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Drop axes of length 1, as `numpy.squeeze`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.squeeze(a, axis)
    return _reshaped(squeeze_op, a, np.squeeze(a._value, axis))


@answers(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """Insert axes of length 1, as `numpy.expand_dims`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.expand_dims(a, axis)
    return _reshaped(expand_dims_op, a, np.expand_dims(a._value, axis))


def _atleast(arys: Sequence[Any], ndim: int) -> Any:
    results = []
    for a in map(asarray, arys):
        if type(a) is Tensor and a.ndim < ndim:
            out = (np.atleast_1d, np.atleast_2d, np.atleast_3d)[ndim - 1](a._value)
            a = _reshaped(expand_dims_op, a, out)
        elif type(a) is not Tensor:
            a = (np.atleast_1d, np.atleast_2d, np.atleast_3d)[ndim - 1](a)
        results.append(a)
    return results[0] if len(results) == 1 else tuple(results)


@answers(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """Make arrays of no axis such of one, as `numpy.atleast_1d`."""
    return _atleast(arys, 1)


@answers(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Give arrays at least two axes, as `numpy.atleast_2d`."""
    return _atleast(arys, 2)


@answers(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Give arrays at least three axes, as `numpy.atleast_3d`."""
    return _atleast(arys, 3)


# -- the same axes in another order --------------------------------------------------------------------------


def inverse(axes: Shape) -> Shape:
    """Return the permutation that undoes ``axes``."""
    back = [0] * len(axes)
    for at, axis in enumerate(axes):
        back[axis] = at
    return tuple(back)


transpose_op: Op = Op(
    "transpose",
    lambda x, *, axes: np.transpose(x, axes),
    ("x",),
    rules={"x": lambda g, *, axes: transpose_op(g, axes=inverse(axes))},
    linear="each",
    view=True,
    node="Permute",
    samples=lambda rng: [
        ((rng.normal(size=(2, 3, 4)),), {"axes": (2, 0, 1)}),
        ((rng.normal(size=(3, 4)),), {"axes": (1, 0)}),
    ],
)

swapaxes_op: Op = Op(
    "swapaxes",
    lambda x, *, axis1, axis2: np.swapaxes(x, axis1, axis2),
    ("x",),
    rules={"x": lambda g, *, axis1, axis2: swapaxes_op(g, axis1=axis1, axis2=axis2)},
    linear="each",
    view=True,
    node="Transpose",
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"axis1": 0, "axis2": 2})],
)


@answers(np.transpose, name="permute_dims")
def transpose(a: Any, axes: Any = None) -> Any:
    """Permute axes, as `numpy.transpose`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.transpose(a, axes)
    out = np.transpose(a._value, axes)
    ndim = a.ndim
    order = tuple(range(ndim - 1, -1, -1)) if axes is None else tuple([operator.index(axis) % ndim for axis in axes])
    return view(transpose_op, a, out, {"axes": order})


@method("transpose")
def _transpose_method(self: Tensor, /, *axes: Any) -> Any:
    """Permute axes, as `numpy.ndarray.transpose`: no axes to reverse them, a tuple, or a number of them."""
    if not axes or axes == (None,):
        return transpose(self)
    return transpose(self, axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes)


@method("swapaxes")
@answers(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """Exchange two axes, as `numpy.swapaxes`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.swapaxes(a, axis1, axis2)
    out = np.swapaxes(a._value, axis1, axis2)
    axis1, axis2 = (operator.index(axis) % a.ndim for axis in (axis1, axis2))
    return view(swapaxes_op, a, out, {"axis1": axis1, "axis2": axis2})


@answers(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Exchange the last two axes, as `numpy.matrix_transpose`."""
    x = asarray(x)
    if type(x) is not Tensor or x.ndim < 2:
        return np.matrix_transpose(x._value if type(x) is Tensor else x)  # raises below two axes
    return swapaxes(x, -2, -1)


@answers(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Move axes to other places, as `numpy.moveaxis`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.moveaxis(a, source, destination)
    sources = normalize_axis_tuple(source, a.ndim, "source")
    places = normalize_axis_tuple(destination, a.ndim, "destination")
    if len(sources) != len(places):
        np.moveaxis(a._value, source, destination)  # raises
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(a, order)


@answers(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    """Roll one axis backwards, as `numpy.rollaxis`."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.rollaxis(a, axis, start)
    places = np.rollaxis(np.empty(range(1, a.ndim + 1), dtype=np.bool_), axis, start).shape  # lengths name axes
    return transpose(a, [length - 1 for length in places])


def _transposed(self: Tensor) -> Any:
    """The tensor with its axes in reverse order."""
    return transpose(self)


def _matrix_transposed(self: Tensor) -> Any:
    """The tensor with its last two axes exchanged."""
    return matrix_transpose(self)


attribute("T", _transposed)
attribute("mT", _matrix_transposed)


# -- broadcasting --------------------------------------------------------------------------------------------

broadcast_to_op = Op(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    ("x",),
    rules={"x": lambda g, x_t: sum_to(g, shape=x_t.shape)},
    linear="each",
    view=True,
    node="Expand",
    samples=lambda rng: [((rng.normal(size=(3, 1)),), {"shape": (2, 3, 4)})],
)


def _sum_to(x: Array, *, shape: Shape) -> Array:
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        extra + d for d, length in enumerate(shape) if length == 1 and x.shape[extra + d] != 1
    )
    return np.asarray(np.sum(x, axis=axes)).reshape(shape)


def _sum_to_rows(b: Any, xs: Any, out: Any, *, shape: Shape) -> bool:
    x = xs[0]
    extra = x.array.ndim - len(shape)
    axes = tuple(d for d in range(x.array.ndim) if d < extra or (shape[d - extra] == 1 and x.array.shape[d] != 1))
    return bool(b.copy(b.number(0.0, out), out) and b.reduce("sum", x, out, axes))


sum_to: Op = Op(
    "sum_to",
    _sum_to,
    ("x",),
    rows=_sum_to_rows,
    rules={"x": lambda g, x_t: broadcast_to_op(reshape_op(g, shape=_aligned(g.shape, x_t)), shape=x_t.shape)},
    linear="each",
    node="SumToSize",
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"shape": (3, 1)})],
    doc="The transpose of `broadcast_to`: sums over the axes that broadcasting would stretch.",
)


def _aligned(shape: Shape, kind: ArrayType) -> Shape:
    return (1,) * (kind.ndim - len(shape)) + shape


@answers(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Broadcast to a shape, as `numpy.broadcast_to`."""
    array = asarray(array)
    if type(array) is not Tensor:
        return np.broadcast_to(array, shape)
    return _reshaped(broadcast_to_op, array, np.broadcast_to(array._value, shape))


@answers(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Broadcast arrays against each other, as `numpy.broadcast_arrays`."""
    arrays = [asarray(a) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return tuple(a if a.shape == shape else broadcast_to(a, shape) for a in arrays)


# -- reversing and rolling -----------------------------------------------------------------------------------

_BACKWARDS = slice(None, None, -1)


@answers(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order of elements along axes, as `numpy.flip`."""
    m = asarray(m)
    axes = range(m.ndim) if axis is None else normalize_axis_tuple(axis, m.ndim)
    return m[tuple([_BACKWARDS if d in axes else slice(None) for d in range(m.ndim)])]


@answers(np.flipud)
def flipud(m: Any) -> Any:
    """Reverse the order along the first axis, as `numpy.flipud`."""
    m = asarray(m)
    if m.ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return m[_BACKWARDS]


@answers(np.fliplr)
def fliplr(m: Any) -> Any:
    """Reverse the order along the second axis, as `numpy.fliplr`."""
    m = asarray(m)
    if m.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return m[:, _BACKWARDS]


@answers(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Rotate by quarter turns in the plane of two axes, as `numpy.rot90`."""
    m = asarray(m)
    if type(m) is not Tensor or len(axes) != 2 or axes[0] == axes[1] or abs(axes[0] - axes[1]) == m.ndim:
        return np.rot90(m._value if type(m) is Tensor else m, k, axes)
    first, second = (normalize_axis_index(axis, m.ndim) for axis in axes)
    k %= 4
    if k in (2, 3):
        m = flip(m, first)
    if k in (1, 2):
        m = flip(m, second)
    return swapaxes(m, first, second) if k % 2 else m[...]


def _roll(x: Array, *, shift: Shape, axis: Shape | None) -> Array:
    if axis is None:
        return _roll(x.reshape(-1), shift=shift, axis=(0,) * len(shift)).reshape(x.shape)
    for by, along in zip(shift, axis, strict=True):
        by = by % x.shape[along] if x.shape[along] else 0
        if by:
            before = (slice(None),) * along
            x = np.concatenate((x[(*before, slice(-by, None))], x[(*before, slice(None, -by))]), along)
    return x


def _roll_rows(b: Any, xs: Any, out: Any, *, shift: tuple[int, ...], axis: tuple[int, ...] | None) -> bool:
    x, target = xs[0].array, out.array
    if axis is None:
        x, target = x.reshape(-1), target.reshape(-1)
        if not np.may_share_memory(x, xs[0].array):
            return False
    by = [0] * x.ndim
    for amount, along in zip(shift, (0,) * len(shift) if axis is None else axis, strict=True):
        by[along] += amount
    halves = []  # of each axis: where its two parts come from, and go to
    for amount, length in zip(by, x.shape, strict=True):
        cut = amount % length if length else 0
        parts = [(slice(0, length - cut), slice(cut, length)), (slice(length - cut, length), slice(0, cut))]
        halves.append(parts if cut else parts[:1])
    for half in itertools.product(*halves):
        source, place = tuple([part[0] for part in half]), tuple([part[1] for part in half])
        if not b.copy(xs[0].view(x[(*source, ...)]), out.view(target[(*place, ...)])):
            return False
    return True


roll_op: Op = Op(
    "roll",
    _roll,
    ("x",),
    rows=_roll_rows,
    rules={"x": lambda g, *, shift, axis: roll_op(g, shift=tuple([-by for by in shift]), axis=axis)},
    linear="each",
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)),), {"shift": (1,), "axis": None}),
        ((rng.normal(size=(3, 4)),), {"shift": (2, -1), "axis": (0, 1)}),
    ],
)


@answers(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift elements along axes, as `numpy.roll`; those pushed out at one end come back in at the other."""
    a = asarray(a)
    if type(a) is not Tensor:
        return np.roll(a, shift, axis)
    if axis is None:
        shifts = tuple([int(by) for by in np.atleast_1d(shift)])
        return roll_op(a, shift=shifts, axis=None)
    pairs = np.broadcast(shift, normalize_axis_tuple(axis, a.ndim, allow_duplicate=True))
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    by, along = zip(*[(int(by), int(along)) for by, along in pairs], strict=True)
    return roll_op(a, shift=by, axis=along)
