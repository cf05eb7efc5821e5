"""Views: rows whose result is a strided part of their operand, and indexing that makes them."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    ARRAY_DTYPE,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    OBJECT_TYPE,
    as_int,
    dtype_of,
    extent_of,
    float_of,
    from_int,
    get_item,
    header_of,
    hold,
    inline,
    kind_of,
    let_go,
    list_append,
    list_size,
    memcpy,
    new_dict,
    new_list,
    new_reference,
    nothing,
    set_item,
    set_slot,
    slot,
    tuple_item,
    tuple_size,
    vectorcall,
)
from jitgrad.kernels.entries.rows import append_row, has_room, is_ours, locate, new_tensor, write_value
from jitgrad.kernels.intrinsics import call_new_array, load, pointer_i4, scratch, store


@inline
def _append_view(process, header, kernel, place, x, x_id, out, offset, data):
    """Append a row whose result is a view of contiguous ``x``, and its value. Room for it must be there."""
    ndim = pointer_i4(out + ARRAY_NDIM)[0]
    row = load(header + 8 * L.H_N_ROWS)
    result = load(header + 8 * L.H_N_VALUES)
    operands = append_row(header, kernel, L.KIND_VIEW, 3 + 2 * ndim, result, 1, data, 0, load(place), load(place + 8))
    store(operands, x_id)
    store(operands + 8, offset)
    store(operands + 16, ndim)
    for d in range(ndim):
        store(operands + 24 + 8 * d, load(load(out + ARRAY_SHAPE) + 8 * d))
        store(operands + 24 + 8 * (ndim + d), load(load(out + ARRAY_STRIDES) + 8 * d))
    write_value(header, result, out, float_of(process, out), extent_of(out), row)
    return row


@inline
def is_view(process, x, out, dtype):
    """Whether ``out`` lies inside contiguous ``x``, and is small: its cotangent is worth no trip through Python."""
    if load(out + OBJECT_TYPE) != load(process + 8 * L.P_NDARRAY) or load(out + ARRAY_DTYPE) != load(x + ARRAY_DTYPE):
        return False
    extent = extent_of(x)
    size = extent_of(out)
    offset = load(out + ARRAY_DATA) - load(x + ARRAY_DATA)
    return 0 < size <= L.SMALL and 0 <= offset < extent * (8 >> dtype)


def view(self, args, n_args):
    """``(header, opcode, code, lasti, x, x_id, out, data)``: append a row whose result is a strided view of x.

    Its operands are x's id, then the view's offset in bytes, number of dimensions, shape and strides: what the
    reverse replay needs to scatter into a cotangent laid out as x. Returns None, with nothing done, unless ``out``,
    of at most ``SMALL`` elements, lies inside a contiguous float64 or float32 ``x``.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    x = load(args + 32)
    out = load(args + 48)
    dtype = dtype_of(process, x)
    if dtype < 0 or not is_view(process, x, out, dtype):
        return nothing(process)
    if not has_room(header, 3 + 2 * pointer_i4(out + ARRAY_NDIM)[0], 1):
        return nothing(process)
    place = scratch(2)
    store(place, load(args + 16))
    store(place + 8, as_int(load(args + 24)))
    offset = load(out + ARRAY_DATA) - load(x + ARRAY_DATA)
    kernel = 2 * as_int(load(args + 8)) + dtype
    data = as_int(load(args + 56))
    return from_int(_append_view(process, header, kernel, place, x, as_int(load(args + 40)), out, offset, data))


@inline
def position(process, x, index):
    """The offset in bytes of one element, for an int, or a tuple of as many ints as x has axes; else -1."""
    ndim = pointer_i4(x + ARRAY_NDIM)[0]
    kind = load(index + OBJECT_TYPE)
    if kind == load(process + 8 * L.P_INT):
        if ndim != 1:
            return -1
    elif kind != load(process + 8 * L.P_TUPLE) or tuple_size(index) != ndim:
        return -1
    offset = 0
    for d in range(ndim):
        item = index if kind == load(process + 8 * L.P_INT) else tuple_item(index, d)
        if load(item + OBJECT_TYPE) != load(process + 8 * L.P_INT):
            return -1
        length = load(load(x + ARRAY_SHAPE) + 8 * d)
        at = as_int(item)
        if at < 0:
            at += length
        if at < 0 or at >= length:
            return -1  # the general path says what is wrong
        offset += at * load(load(x + ARRAY_STRIDES) + 8 * d)
    return offset


@inline
def is_basic(process, index):
    """Whether an index is made of ints, slices, None and an ellipsis, so that NumPy answers with a view."""
    kind = load(index + OBJECT_TYPE)
    n = tuple_size(index) if kind == load(process + 8 * L.P_TUPLE) else 1
    for k in range(n):
        item = tuple_item(index, k) if kind == load(process + 8 * L.P_TUPLE) else index
        item_kind = load(item + OBJECT_TYPE)
        if (
            item_kind != load(process + 8 * L.P_SLICE)
            and item_kind != load(process + 8 * L.P_INT)
            and item != load(process + 8 * L.P_NONE)
            and item != load(process + 8 * L.P_ELLIPSIS)
        ):
            return False
    return True


@inline
def _link(process, base, view):
    """Tie a view to its base, so that a write to either can be carried to the other. Returns -1 after an error."""
    hold(base)
    set_slot(view, process, L.P_TENSOR_BASE, base)
    views = slot(base, process, L.P_TENSOR_VIEWS)
    if views == 0:
        views = new_list(0)
        set_slot(base, process, L.P_TENSOR_VIEWS, views)
    reference = new_reference(view, 0)
    if views == 0 or reference == 0 or list_append(views, reference) != 0:
        return -1
    let_go(reference)
    n = list_size(views)
    if n >= 16 and n & (n - 1) == 0:  # at powers of two: dropping dead references costs O(1) a view
        argument = scratch(1)
        store(argument, views)
        done = vectorcall(load(process + 8 * L.P_SWEEP), argument, 1, 0)
        if done == 0:
            return -1
        let_go(done)
    return 0


@inline
def _record_view(process, header, kernel, x, x_id, out, offset, kind, params):
    """Append a view of a tensor, and return its tensor, or 0 after an error. Takes over the reference to ``out``."""
    place = scratch(2)
    data = list_size(load(header + 8 * L.H_PARAMS))
    if list_append(load(header + 8 * L.H_PARAMS), params) != 0 or locate(process, header, place) != 0:
        return 0
    if list_append(load(header + 8 * L.H_TYPES), kind) != 0:
        return 0
    array = slot(x, process, L.P_TENSOR_VALUE)
    result = load(header + 8 * L.H_N_VALUES)
    _append_view(process, header, kernel, place, array, x_id, out, offset, data)
    return new_tensor(process, header, slot(x, process, L.P_TENSOR_TAPE), out, kind, from_int(result))


@inline
def recording(process, x):
    """The header of the tape on which operations on a tensor are recorded natively, or 0."""
    if load(x + OBJECT_TYPE) != load(process + 8 * L.P_TENSOR) or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return 0
    tape = slot(x, process, L.P_TENSOR_TAPE)
    if tape == load(process + 8 * L.P_NONE) or as_int(slot(x, process, L.P_TENSOR_VID)) < 0:
        return 0
    header = header_of(process, tape)
    return header if is_ours(header) else 0


def derive(self, args, n_args):
    """``(opcode, x, out, params)``: record that an op has made the view ``out`` of a tensor.

    Returns the view's tensor, linked with ``x``; None, with nothing done, where `view` would do nothing either, or
    operations on ``x`` are not recorded natively.
    """
    process = load(self + ARRAY_DATA)
    x = load(args + 8)
    out = load(args + 16)
    header = recording(process, x)
    if header == 0:
        return nothing(process)
    array = slot(x, process, L.P_TENSOR_VALUE)
    dtype = dtype_of(process, array)
    if dtype < 0 or not is_view(process, array, out, dtype):
        return nothing(process)
    if not has_room(header, 3 + 2 * pointer_i4(out + ARRAY_NDIM)[0], 1):
        return nothing(process)
    kind = kind_of(process, out)
    if kind == 0:
        return 0
    hold(out)
    offset = load(out + ARRAY_DATA) - load(array + ARRAY_DATA)
    kernel = 2 * as_int(load(args)) + dtype
    x_id = as_int(slot(x, process, L.P_TENSOR_VID))
    tensor = _record_view(process, header, kernel, x, x_id, out, offset, kind, load(args + 24))
    let_go(kind)
    if tensor == 0 or _link(process, x, tensor) != 0:
        return 0
    return tensor


@inline
def most_axes(process, array, index):
    """As many axes as a part of an array can have at most."""
    n = tuple_size(index) if load(index + OBJECT_TYPE) == load(process + 8 * L.P_TUPLE) else 1
    return pointer_i4(array + ARRAY_NDIM)[0] + n


@inline
def _item(context, x, index):
    """``x[index]`` of a recorded tensor and a basic index. Returns as `_run` does."""
    process = load(context + 8 * L.C_PROCESS)
    header = recording(process, x)
    if header == 0:
        return -1
    x_id = as_int(slot(x, process, L.P_TENSOR_VID))
    array = slot(x, process, L.P_TENSOR_VALUE)
    dtype = dtype_of(process, array)
    if dtype < 0 or not has_room(header, 3 + 2 * most_axes(process, array, index), 1):
        return -1
    offset = position(process, array, index)
    scalar = offset >= 0
    if scalar:
        new_array = load(process + 8 * L.P_NEW_ARRAY)
        no_shape = scratch(1)
        out = call_new_array(new_array, load(process + 8 * L.P_NDARRAY), 0, no_shape, 12 - dtype, 0, 0, 0, 0, 0)
        if out == 0:
            return 0
        memcpy(load(out + ARRAY_DATA), load(array + ARRAY_DATA) + offset, 8 >> dtype)
        kind = load(process + 8 * (L.P_SCALAR_FLOAT64 + dtype))
        hold(kind)
    else:
        if not is_basic(process, index):
            return -1
        out = get_item(array, index)
        if out == 0:
            return 0
        if not is_view(process, array, out, dtype):
            let_go(out)
            return -1
        offset = load(out + ARRAY_DATA) - load(array + ARRAY_DATA)
        kind = kind_of(process, out)
    params = new_dict()
    if kind == 0 or params == 0 or set_item(params, load(context + 8 * L.C_KEY), index) != 0:
        return 0
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    tensor = _record_view(process, header, kernel, x, x_id, out, offset, kind, params)
    let_go(params)
    let_go(kind)
    if tensor != 0 and not scalar and _link(process, x, tensor) != 0:
        return 0
    return tensor


def item(self, args, n_args):
    """``(x, index)``: the built-in function of indexing; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 2:
        result = _item(context, load(args), load(args + 8))
        if result != -1:
            return result
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)
