"""Writing in place: ``x[index] = value``, ``x += y`` and NumPy's functions that write to an argument.

A tensor is a handle: a write records a new value and rebinds the handle to it, and so the values that
derivatives need stay as they were. A write to a view goes through to the tensor that it is a view of, and all
other views of that are taken anew.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from jitgrad.core import native, trace
from jitgrad.core.op import FUNCTIONS, REGISTRY, Array, Op, recording_tape, requires_grad
from jitgrad.core.protocol import answers, method, plain
from jitgrad.core.tensor import Tensor, constant
from jitgrad.core.writes import written as note_write
from jitgrad.errors import DtypeError, InplaceError, ShapeError
from jitgrad.ops.casting import asarray, astype_op
from jitgrad.ops.indexing import (
    Layout,
    advanced,
    along_axis,
    getitem_op,
    index_op,
    is_basic,
    simplified,
    unpacked,
    view_at,
)
from jitgrad.ops.shaping import broadcast_to_op, clone, inverse, ravel, reshape_op, swapaxes_op, transpose_op
from jitgrad.ops.views import live_views, origin, root

__all__ = ["assign", "index_put_op", "last_writes_op", "put_op", "replace"]

# -- the ops -------------------------------------------------------------------------------------------------


def _put(x: Array, value: Any, *, index: Any) -> Array:
    out = np.array(x)
    out[index] = value
    return out


def _put_rows(b: Any, xs: Any, out: Any, *, index: Any) -> bool:
    return bool(b.copy(xs[0], out) and b.copy(xs[1], out.view(view_at(out.array, index))))


put_op: Op = Op(
    "put",
    _put,
    ("x", "value"),
    rows=_put_rows,
    rules={
        "x": lambda g, *, index: put_op(g, np.zeros((), g.dtype), index=index),
        "value": lambda g, *, index: getitem_op(g, index=index),
    },
    linear="jointly",
    node="CopySlices",
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)), rng.normal(size=4)), {"index": 1}),
        ((rng.normal(size=(3, 4)), rng.normal(size=())), {"index": (slice(None), slice(None, None, -2))}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(2, 1))), {"index": slice(0, 2)}),
    ],
    doc="A copy of ``x`` with ``value`` at a basic index.",
)


def _index_put(x: Array, value: Any, index: Array, *, layout: Layout, unique: bool) -> Array:
    out = np.array(x)
    out[unpacked(layout, index)] = value
    return out


def _value_rule(g: Any, index: Any, *, layout: Layout, unique: bool) -> Any:
    bar = index_op(g, index, layout=layout, unique=unique)
    if unique:
        return bar
    # of x[[0, 0]] = [a, b] only b is left, so nothing flows back to a
    last = last_writes_op(index, layout=layout, shape=tuple(g.shape), dtype=g.dtype)
    return REGISTRY["multiply_no_nan"](last, bar)


def _index_put_samples(rng: np.random.Generator) -> Any:
    x = rng.normal(size=(3, 4))
    yield (x, rng.normal(size=(3, 4)), np.array([2, 0, 2])), {"layout": ((3,),), "unique": False}
    yield (x, rng.normal(size=()), np.array([1, 3])), {"layout": (slice(None), (2,)), "unique": True}


index_put_op: Op = Op(
    "index_put",
    _index_put,
    ("x", "value", "index"),
    rules={
        "x": lambda g, index, *, layout, unique: index_put_op(
            g, np.zeros((), g.dtype), index, layout=layout, unique=unique
        ),
        "value": _value_rule,
    },
    discrete=("index",),
    samples=_index_put_samples,
    doc="A copy of ``x`` with ``value`` at an index with integer arrays.",
)


def _last_writes(index: Array, *, layout: Layout, shape: tuple[int, ...], dtype: Any) -> Any:
    where = unpacked(layout, index)
    writer = np.zeros(shape, np.intp)
    numbers = np.arange(writer[where].size).reshape(writer[where].shape)
    writer[where] = numbers
    return (writer[where] == numbers).astype(dtype)


last_writes_op = Op(
    "last_writes",
    _last_writes,
    ("index",),
    rules={},
    discrete=("index",),
    samples=lambda rng: [((np.array([2, 0, 2]),), {"layout": ((3,),), "shape": (3,), "dtype": np.dtype(np.float64)})],
    doc="1 for every element that is still there after a write at an index, 0 for one that was replaced.",
)

# -- rebinding -----------------------------------------------------------------------------------------------


def assign(x: Tensor, new: Tensor) -> None:
    """Make a tensor stand for a new value of its shape and dtype, as do all that share its memory."""
    found = origin(x)
    if found is not None:
        base, op, params = found
        assign(base, _through(base, op, params, new))
        return
    _rebind(x, new)
    _renew(x)


def _through(base: Tensor, op: Op, params: dict[str, Any], new: Tensor) -> Tensor:
    """The value of a base after one of its views has been written to."""
    if op is getitem_op:
        out = put_op(base, new, index=params["index"])
    elif op is transpose_op:
        out = transpose_op(new, axes=inverse(params["axes"]))
    elif op is swapaxes_op:
        out = swapaxes_op(new, **params)
    elif op is broadcast_to_op:
        raise ValueError("assignment destination is read-only")
    else:
        out = reshape_op(new, shape=base.shape)
    return out  # type: ignore[no-any-return]


def _rebind(x: Tensor, new: Tensor) -> None:
    x._value, x._type, x._tape, x._vid = new._value, new._type, new._tape, new._vid
    if x._tape is not None and x._tape.handles is not None:
        x._tape.handles[x._vid] = weakref.ref(x)


def _renew(x: Tensor) -> None:
    """Take the views of a tensor anew."""
    for handle in live_views(x):
        _, op, params = origin(handle)  # type: ignore[misc]
        _rebind(handle, op(x, **params))
        _renew(handle)


def _is_leaf(x: Tensor) -> bool:
    return x._leaf is not None and (x._leaf.requires_grad or x._vid < 0)


def _write(x: Tensor, index: Any, value: Any, new: Tensor | None = None) -> None:
    """Write to a tensor; ``new`` is its new value where that is there already."""
    owner = root(x)
    if recording_tape((x, owner, value)) is not None:
        if any(t._leaf is not None and t._leaf.requires_grad for t in (owner, x)):
            raise InplaceError.leaf() if owner is x else InplaceError.leaf_view()
        assign(x, _replaced(x, index, value) if new is None else new)
        return
    array = plain(value)
    if owner._leaf is not None and (owner._leaf.requires_grad or owner._vid < 0):
        x._value[plain(index)] = array
        note_write(owner)
        return
    written = np.array(x._value)
    written[plain(index)] = array
    if x._tape is not None and x._vid >= 0:
        # recording is off: as in PyTorch, gradients pass as if nothing had been written
        with trace.recording(True):
            assign(x, REGISTRY["alias"].record(x._tape, (x,), [x._value], written, {}))
    else:
        assign(x, constant(written))


def _replaced(x: Tensor, index: Any, value: Any) -> Any:
    """Record the write of a value to a part of a tensor, and return all of it."""
    if value.ndim and value.shape[0] == 1:
        target = x._value[index]
        if type(target) is np.ndarray and value.ndim > target.ndim:  # NumPy ignores leading axes of length 1
            value = reshape_op(value, shape=value.shape[value.ndim - target.ndim :])
    if is_basic(index):
        return put_op(x, value, index=index)
    x._value[index]  # NumPy's own errors
    layout, packed, unique = advanced(index)
    if any(type(item) is tuple for item in layout):
        return index_put_op(x, value, packed, layout=layout, unique=unique)
    return put_op(x, value, index=layout)


def replace(x: Tensor, result: Tensor, function: str = "an in-place operation") -> Tensor:
    """Make a result that nobody else holds the value of a tensor of the same shape, and return the tensor."""
    if result.shape != x.shape:
        raise ShapeError.inplace(function, x.shape, result.shape)
    if result.dtype != x.dtype:
        if not np.can_cast(result.dtype, x.dtype, "same_kind"):
            raise DtypeError.cast(function, result.dtype, x.dtype)
        result = astype_op(result, dtype=x.dtype)
    _write(x, ..., result, result)
    return x


# -- what users write ----------------------------------------------------------------------------------------


def _setitem(x: Tensor, index: Any, value: Any) -> None:
    """Write to a part of a tensor: what native code does not do by itself."""
    index = simplified(index)
    if type(value) is Tensor:
        found = origin(value)
        if found is not None and found[0] is x and found[1] is getitem_op and found[2] == {"index": index}:
            return  # the second half of x[index] += y: the first has written through
        if requires_grad(value) and not np.can_cast(value.dtype, x.dtype, "same_kind"):
            raise DtypeError.cast("an assignment", value.dtype, x.dtype)
    else:
        value = asarray(value)
    _write(x, index, value)


setitem = native.operation(
    "setitem", "put", put_op.index, _setitem, "Write to a part of a tensor, as to a NumPy array.", key="index"
)
method("__setitem__")(setitem)


def _in_place(name: str) -> Callable[[Tensor, Any], Any]:
    operation = getattr(operator, name)

    def function(self: Tensor, other: Any) -> Any:
        result = operation(self, other)
        if self._leaf is None and not hasattr(self, "_base") and trace.current_trace() is not None:
            if self._type.ndim == 0:
                return result  # as of the NumPy scalar that it stands for
            if result._type is self._type and not hasattr(self, "_views") and (result._vid >= 0 or self._vid < 0):
                _rebind(self, result)
                return self
        return replace(self, result, name)

    return function


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _function = _in_place(_name)
    _function.__name__ = f"__i{_name}__"
    method(f"__i{_name}__")(_function)


@method("fill")
def fill(self: Tensor, value: Any) -> None:
    """Write one value to all elements, as `numpy.ndarray.fill`."""
    setitem(self, ..., value)


def _refuse_array(function: str, target: Any) -> None:
    if type(target) is not Tensor:
        raise TypeError(
            f"{function}() cannot write a Tensor to an array, which would lose its gradient: make the target "
            "with jitgrad.numpy.zeros, or collect the values in a list and stack them."
        )


@answers(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Write one array over another, as `numpy.copyto`."""
    _refuse_array("copyto", dst)
    src = asarray(src)
    if not np.can_cast(src.dtype, dst.dtype, casting):
        raise TypeError(f"Cannot cast array data from {src.dtype!r} to {dst.dtype!r} according to the rule {casting!r}")
    setitem(dst, ..., src if where is True else FUNCTIONS[np.where](plain(where), src, dst))


def _write_flat(x: Tensor, index: Any, value: Any) -> None:
    """``x.flat[index] = value``."""
    if x._value.flags.c_contiguous:
        setitem(ravel(x), index, value)
    else:
        flat = clone(ravel(x))
        setitem(flat, index, value)
        setitem(x, ..., reshape_op(flat, shape=x.shape))


def _cycled(values: Any, n: int) -> Any:
    """The first ``n`` of values that are repeated as often as needed."""
    values = ravel(values)
    return values[np.arange(n) % values.size]


@answers(np.put)
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    """Write to elements by their positions in the flattened array, as `numpy.put`."""
    _refuse_array("put", a)
    positions = np.ravel(np.array(plain(ind)))
    np.empty(a.size, np.bool_).put(positions, False, mode)  # raises, if anything is wrong
    if mode == "wrap":
        positions = positions % a.size
    elif mode == "clip":
        positions = positions.clip(0, a.size - 1)
    if np.size(v):
        _write_flat(a, positions, _cycled(v, positions.size))


@answers(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Write to the elements where a mask holds, as `numpy.putmask`."""
    _refuse_array("putmask", a)
    positions = np.flatnonzero(np.reshape(plain(mask), a.shape))
    values = ravel(values)
    if values.size:
        _write_flat(a, positions, values[positions % values.size])


@answers(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write values, one after another, to the elements where a mask holds, as `numpy.place`."""
    _refuse_array("place", arr)
    positions = np.flatnonzero(np.reshape(plain(mask), arr.shape))
    if not positions.size:
        return
    if not np.size(vals):
        raise ValueError("Cannot insert from an empty array!")
    _write_flat(arr, positions, _cycled(vals, positions.size))


@answers(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Write along an axis by an index array of the same number of axes, as `numpy.put_along_axis`."""
    _refuse_array("put_along_axis", arr)
    indices = np.asarray(plain(indices))
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        _write_flat(arr, indices, values)
    else:
        setitem(arr, along_axis(arr.shape, indices, normalize_axis_index(axis, arr.ndim)), values)


@answers(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write to the main diagonal, as `numpy.fill_diagonal`."""
    _refuse_array("fill_diagonal", a)
    mark = np.zeros(a.shape, np.bool_)
    np.fill_diagonal(mark, True, wrap)
    positions = np.flatnonzero(mark)
    _write_flat(a, positions, _cycled(val, positions.size))
