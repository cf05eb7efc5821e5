"""Rows that put elements together: operands one after another, and slices of an operand as an index names them."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    OBJECT_TYPE,
    as_int,
    dtype_of,
    extent_of,
    float_of,
    from_int,
    hold,
    inline,
    kind_of,
    let_go,
    list_append,
    list_size,
    nothing,
    set_item,
    slot,
    tuple_item,
    tuple_size,
)
from jitgrad.kernels.entries.rows import append_row, has_room, locate, new_tensor, write_value
from jitgrad.kernels.entries.views import recording
from jitgrad.kernels.intrinsics import load, scratch, store


@inline
def record(process, header, out, params, place):
    """Enter a row's parameters; write its place in the code and the type of its result, ``out``, to ``place``.

    Returns the index of the parameters, or -1 after an error.
    """
    kind = kind_of(process, out)
    data = list_size(load(header + 8 * L.H_PARAMS))
    if kind == 0 or list_append(load(header + 8 * L.H_PARAMS), params) != 0 or locate(process, header, place) != 0:
        return -1
    store(place + 16, kind)
    return data


@inline
def _is_recorded(process, part):
    return (
        load(part + OBJECT_TYPE) == load(process + 8 * L.P_TENSOR) and as_int(slot(part, process, L.P_TENSOR_VID)) >= 0
    )


@inline
def _tape_of(process, parts, dtype):
    """The tape that all recorded parts are on, or 0 unless they are contiguous, of one dtype and on one tape."""
    none = load(process + 8 * L.P_NONE)
    tape = 0
    for k in range(tuple_size(parts)):
        part = tuple_item(parts, k)
        if _is_recorded(process, part):
            own = slot(part, process, L.P_TENSOR_TAPE)
            if dtype_of(process, slot(part, process, L.P_TENSOR_VALUE)) != dtype or (tape != 0 and own != tape):
                return 0
            if tape == 0 and recording(process, part) == 0:
                return 0
            tape = own
        elif load(part + OBJECT_TYPE) == load(process + 8 * L.P_TENSOR):
            if slot(part, process, L.P_TENSOR_LEAF) != none:
                return 0  # a leaf may have to be entered first
        elif load(part + OBJECT_TYPE) != load(process + 8 * L.P_NDARRAY):
            return 0
    return tape


def join(self, args, n_args):
    """``(opcode, parts, out, params)``: record that an op has laid out its operands' elements one after another.

    Returns the result's tensor. None, with nothing done, unless ``parts``, a tuple, is made of arrays and of tensors
    that are recorded on one tape, contiguous and of the dtype of ``out``, which has at most ``SMALL`` elements.
    """
    process = load(self + ARRAY_DATA)
    parts = load(args + 8)
    out = load(args + 16)
    n = tuple_size(parts)
    dtype = dtype_of(process, out)
    extent = extent_of(out)
    if dtype < 0 or extent > L.SMALL:
        return nothing(process)
    tape = _tape_of(process, parts, dtype)
    if tape == 0:
        return nothing(process)
    header = load(load(tape + load(process + 8 * L.P_TAPE_HEADER)) + ARRAY_DATA)
    if not has_room(header, n, n + 1):
        return nothing(process)
    place = scratch(3)
    data = record(process, header, out, load(args + 24), place)
    if data < 0:
        return 0

    # operands that are not recorded are entered too: the replay has to know how many elements to pass over
    types = load(header + 8 * L.H_TYPES)
    n_recorded = 0
    for k in range(n):
        n_recorded += 1 if _is_recorded(process, tuple_item(parts, k)) else 0
    result = load(header + 8 * L.H_N_VALUES) + n - n_recorded
    row = load(header + 8 * L.H_N_ROWS)
    kernel = 2 * as_int(load(args)) + dtype
    operands = append_row(header, kernel, L.KIND_JOIN, n, result, 1, data, 0, load(place), load(place + 8))
    for k in range(n):
        part = tuple_item(parts, k)
        if _is_recorded(process, part):
            store(operands + 8 * k, as_int(slot(part, process, L.P_TENSOR_VID)))
            continue
        is_tensor = load(part + OBJECT_TYPE) == load(process + 8 * L.P_TENSOR)
        array = slot(part, process, L.P_TENSOR_VALUE) if is_tensor else part
        kind = kind_of(process, array)
        if kind == 0 or list_append(types, kind) != 0:
            return 0
        let_go(kind)
        value = load(header + 8 * L.H_N_VALUES)
        write_value(header, value, array, float_of(process, array), extent_of(array), -1)
        store(operands + 8 * k, value)
    return finish(process, header, tape, out, dtype, extent, row, load(place + 16))


@inline
def finish(process, header, tape, out, dtype, extent, row, kind):
    """Enter a row's result, and return its tensor."""
    if list_append(load(header + 8 * L.H_TYPES), kind) != 0:
        return 0
    result = load(header + 8 * L.H_N_VALUES)
    write_value(header, result, out, dtype, extent, row)
    store(header + 8 * L.H_BYTES, load(header + 8 * L.H_BYTES) + extent * (8 >> dtype))
    hold(out)
    tensor = new_tensor(process, header, tape, out, kind, from_int(result))
    let_go(kind)
    return tensor


def gather(self, args, n_args):
    """``(opcode, x, index, out, params, outer)``: record that ``out`` is what an int64 array picks along an axis of x.

    ``outer`` is how many slices there are along the axes before it, all taken together.
    Returns the result's tensor. None, with nothing done, unless ``x`` is recorded and contiguous, and neither ``out``
    nor ``index`` is empty. The index, contiguous, is kept: nobody may write to it.
    """
    process = load(self + ARRAY_DATA)
    x = load(args + 8)
    index = load(args + 16)
    out = load(args + 24)
    header = recording(process, x)
    if header == 0:
        return nothing(process)
    dtype = dtype_of(process, slot(x, process, L.P_TENSOR_VALUE))
    extent = extent_of(out)
    if dtype < 0 or float_of(process, out) != dtype or extent == 0 or not has_room(header, 3, 2):
        return nothing(process)
    place = scratch(3)
    tape = slot(x, process, L.P_TENSOR_TAPE)
    data = record(process, header, out, load(args + 32), place)
    kind = kind_of(process, index)
    if data < 0 or kind == 0:
        return 0
    index_id = load(header + 8 * L.H_N_VALUES)
    key = from_int(index_id)
    failed = list_append(load(header + 8 * L.H_TYPES), kind)
    failed |= set_item(load(header + 8 * L.H_KEPT), key, index)
    let_go(kind)
    let_go(key)
    if failed != 0:
        return 0
    write_value(header, index_id, index, -1, extent_of(index), -1)
    row = load(header + 8 * L.H_N_ROWS)
    kernel = 2 * as_int(load(args)) + dtype
    operands = append_row(header, kernel, L.KIND_GATHER, 3, index_id + 1, 1, data, 2, load(place), load(place + 8))
    store(operands, as_int(slot(x, process, L.P_TENSOR_VID)))
    store(operands + 8, index_id)
    store(operands + 16, as_int(load(args + 40)))
    return finish(process, header, tape, out, dtype, extent, row, load(place + 16))
