"""Writing to a part of a tensor: rows whose result is their operand but for a strided part."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.elementwise import same_shape
from jitgrad.kernels.entries.objects import (
    ARRAY_BASE,
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    OBJECT_TYPE,
    as_double,
    as_int,
    dtype_of,
    error_occurred,
    extent_of,
    from_int,
    get_item,
    hold,
    inline,
    let_go,
    list_append,
    list_size,
    memcpy,
    new_dict,
    new_like,
    new_reference,
    nothing,
    set_item,
    set_slot,
    slot,
    vectorcall,
)
from jitgrad.kernels.entries.rows import append_row, has_room, locate, write_scalar, write_value
from jitgrad.kernels.entries.views import is_basic, is_view, most_axes, position, recording
from jitgrad.kernels.intrinsics import load, pointer_f4, pointer_f8, pointer_i4, scratch, store

# what to do with a strided part of an array and a contiguous one: write to the part, read it, add it to the other
WRITE = 0
READ = 1
ADD = 2


@inline
def move(dtype, part, shape, strides, ndim, flat, step, what):
    """Go through a strided part of an array, and a contiguous one, or with a ``step`` of 0 a scalar, beside it."""
    itemsize = 8 >> dtype
    outer = 1
    for d in range(ndim - 1):
        outer *= load(shape + 8 * d)
    inner = load(shape + 8 * (ndim - 1)) if ndim > 0 else 1
    stride = load(strides + 8 * (ndim - 1)) if ndim > 0 else 0
    for block in range(outer):
        place = part
        rest = block
        for d in range(ndim - 2, -1, -1):
            length = load(shape + 8 * d)
            place += (rest % length) * load(strides + 8 * d)
            rest //= length
        for _ in range(inner):
            if what == WRITE:
                memcpy(place, flat, itemsize)
            elif what == READ:
                memcpy(flat, place, itemsize)
            elif dtype == 0:
                pointer_f8(flat)[0] += pointer_f8(place)[0]
            else:
                pointer_f4(flat)[0] += pointer_f4(place)[0]
            place += stride
            flat += step


@inline
def _is_viewed(process, x):
    """Whether a tensor has views that somebody holds: 1 or 0, -1 after an error."""
    views = slot(x, process, L.P_TENSOR_VIEWS)
    if views == 0 or list_size(views) == 0:
        return 0
    argument = scratch(1)
    store(argument, views)
    done = vectorcall(load(process + 8 * L.P_SWEEP), argument, 1, 0)
    if done == 0:
        return -1
    let_go(done)
    return 1 if list_size(views) != 0 else 0


@inline
def _source_of(process, x, value, dtype, number, found):
    """What is written: write its address, the id of its value and its array (0 for a number) to ``found``.

    It may be a number, or a contiguous array of the same dtype, which may be a tensor's. Returns 1 for such, -1 for
    anything else, 0 after an error.
    """
    none = load(process + 8 * L.P_NONE)
    kind = load(value + OBJECT_TYPE)
    value_id = L.CONSTANT
    array = 0
    if kind == load(process + 8 * L.P_TENSOR):
        if slot(value, process, L.P_TENSOR_LEAF) != none or slot(value, process, L.P_TENSOR_BASE) == x:
            return -1
        value_id = as_int(slot(value, process, L.P_TENSOR_VID))
        if value_id < 0:
            value_id = L.CONSTANT
        elif slot(value, process, L.P_TENSOR_TAPE) != slot(x, process, L.P_TENSOR_TAPE):
            return -1
        array = slot(value, process, L.P_TENSOR_VALUE)
    elif kind == load(process + 8 * L.P_NDARRAY):
        array = value
    elif (
        kind == load(process + 8 * L.P_FLOAT)
        or kind == load(process + 8 * L.P_INT)
        or kind == load(process + 8 * L.P_NUMPY_FLOAT)
    ):
        converted = as_double(value)
        if converted == -1.0 and error_occurred() != 0:
            return 0
        write_scalar(number, converted, dtype)
    else:
        return -1
    if array != 0 and dtype_of(process, array) != dtype:
        return -1
    store(found, number if array == 0 else load(array + ARRAY_DATA))
    store(found + 8, value_id)
    store(found + 16, array)
    return 1


@inline
def _write_part(process, out, index, dtype, source, source_array, place):
    """Write to the part of an array that NumPy finds at an index.

    Writes its offset, number of dimensions, shape and strides to ``place``, and what holds those: a new reference, or
    0. Returns 1; -1 where it cannot do so; 0 after an error.
    """
    start = load(out + ARRAY_DATA)
    one = source_array == 0 or pointer_i4(source_array + ARRAY_NDIM)[0] == 0
    offset = position(process, out, index)
    part = 0
    ndim = 0
    shape = 0
    strides = 0
    if offset >= 0:
        if not one:
            return -1
    else:
        if not is_basic(process, index):
            return -1
        part = get_item(out, index)
        if part == 0:
            return 0
        if not is_view(process, out, part, dtype) or not (one or same_shape(part, source_array)):
            let_go(part)
            return -1
        offset = load(part + ARRAY_DATA) - start
        ndim = pointer_i4(part + ARRAY_NDIM)[0]
        shape = load(part + ARRAY_SHAPE)
        strides = load(part + ARRAY_STRIDES)
    move(dtype, start + offset, shape, strides, ndim, source, 0 if one else 8 >> dtype, WRITE)
    store(place, offset)
    store(place + 8, ndim)
    store(place + 16, shape)
    store(place + 24, strides)
    store(place + 32, part)
    return 1


@inline
def _put(context, x, index, value):
    """``x[index] = value`` of a recorded tensor that shares no memory. Returns as `_run` does, but a new None."""
    process = load(context + 8 * L.C_PROCESS)
    none = load(process + 8 * L.P_NONE)
    header = recording(process, x)
    if header == 0 or slot(x, process, L.P_TENSOR_LEAF) != none or slot(x, process, L.P_TENSOR_BASE) != 0:
        return -1
    array = slot(x, process, L.P_TENSOR_VALUE)
    dtype = dtype_of(process, array)
    extent = extent_of(array)
    if dtype < 0 or not has_room(header, 4 + 2 * most_axes(process, array, index), 1):
        return -1
    viewed = _is_viewed(process, x)
    if viewed != 0:
        return 0 if viewed < 0 else -1
    number = scratch(1)
    source = scratch(3)
    found = _source_of(process, x, value, dtype, number, source)
    if found != 1:
        return found
    # Memory that nobody else has, be it as a residual or as a view's base, is written to as it is.
    out = array
    if pointer_i4(array)[0] == 1 and load(array + ARRAY_BASE) == 0 and load(source + 16) != array:
        hold(out)
    else:
        out = new_like(process, array, dtype)
        if out == 0:
            return 0
        memcpy(load(out + ARRAY_DATA), load(array + ARRAY_DATA), extent * (8 >> dtype))
        store(header + 8 * L.H_BYTES, load(header + 8 * L.H_BYTES) + extent * (8 >> dtype))
    part = scratch(5)
    done = _write_part(process, out, index, dtype, load(source), load(source + 16), part)
    if done != 1:
        let_go(out)
        return done

    place = scratch(2)
    params = new_dict()
    if params == 0 or set_item(params, load(context + 8 * L.C_KEY), index) != 0:
        return 0
    data = list_size(load(header + 8 * L.H_PARAMS))
    if list_append(load(header + 8 * L.H_PARAMS), params) != 0 or locate(process, header, place) != 0:
        return 0
    let_go(params)
    if list_append(load(header + 8 * L.H_TYPES), slot(x, process, L.P_TENSOR_TYPE)) != 0:
        return 0
    row = load(header + 8 * L.H_N_ROWS)
    result = load(header + 8 * L.H_N_VALUES)
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    ndim = load(part + 8)
    operands = append_row(header, kernel, L.KIND_PUT, 4 + 2 * ndim, result, 1, data, 0, load(place), load(place + 8))
    store(operands, as_int(slot(x, process, L.P_TENSOR_VID)))
    store(operands + 8, load(source + 8))
    store(operands + 16, load(part))
    store(operands + 24, ndim)
    for d in range(ndim):
        store(operands + 32 + 8 * d, load(load(part + 16) + 8 * d))
        store(operands + 32 + 8 * (ndim + d), load(load(part + 24) + 8 * d))
    write_value(header, result, out, dtype, extent, row)
    if load(part + 32) != 0:
        let_go(load(part + 32))
    return _rebind(process, header, x, out, from_int(result))


@inline
def _rebind(process, header, x, array, vid):
    """Let a tensor stand for a new value on its tape. Takes over the references to both; returns None, or 0."""
    handles = load(header + 8 * L.H_HANDLES)
    if handles != 0:
        reference = new_reference(x, 0)
        if reference == 0 or set_item(handles, vid, reference) != 0:
            return 0
        let_go(reference)
    old_array = slot(x, process, L.P_TENSOR_VALUE)
    old_vid = slot(x, process, L.P_TENSOR_VID)
    set_slot(x, process, L.P_TENSOR_VALUE, array)
    set_slot(x, process, L.P_TENSOR_VID, vid)
    let_go(old_array)
    let_go(old_vid)
    return nothing(process)


def put(self, args, n_args):
    """``(x, index, value)``: the built-in function of assignment to a part; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 3:
        result = _put(context, load(args), load(args + 8), load(args + 16))
        if result != -1:
            return result
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)
