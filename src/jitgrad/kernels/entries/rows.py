"""Appending to a tape: rows, values, where the user's code stands, and the handle of a result."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    _passes,
    as_int,
    current_frame,
    extent_of,
    float_of,
    frame_back,
    frame_code,
    frame_lasti,
    from_int,
    hold,
    inline,
    let_go,
    new_object,
    new_reference,
    nothing,
    set_item,
    set_slot,
    thread_ident,
    tuple_item,
    tuple_size,
)
from jitgrad.kernels.intrinsics import load, pointer_f4, pointer_f8, store


@inline
def has_room(header, n_operands, n_values):
    return (
        load(header + 8 * L.H_N_ROWS) < load(header + 8 * L.H_ROW_CAPACITY)
        and load(header + 8 * L.H_N_OPERANDS) + n_operands <= load(header + 8 * L.H_OPERAND_CAPACITY)
        and load(header + 8 * L.H_N_VALUES) + n_values <= load(header + 8 * L.H_VALUE_CAPACITY)
        and load(header + 8 * L.H_BYTES) <= load(header + 8 * L.H_BYTE_LIMIT)
    )


@inline
def is_ours(header):
    """Whether this thread's operations are recorded on a tape; a result of another thread's may be on that one's."""
    return load(header + 8 * L.H_THREAD) == thread_ident()


@inline
def append_row(header, kernel, kind, n_operands, result, n_results, data, keeps, code, lasti):
    """Write an instruction; the caller writes its operands at the address that comes back."""
    index = load(header + 8 * L.H_N_ROWS)
    first = load(header + 8 * L.H_N_OPERANDS)
    row = load(header + 8 * L.H_ROWS) + 8 * L.ROW_WIDTH * index
    store(row + 8 * L.ROW_KERNEL, kernel)
    store(row + 8 * L.ROW_KIND, kind)
    store(row + 8 * L.ROW_OPERANDS, first)
    store(row + 8 * L.ROW_N_OPERANDS, n_operands)
    store(row + 8 * L.ROW_RESULT, result)
    store(row + 8 * L.ROW_N_RESULTS, n_results)
    store(row + 8 * L.ROW_DATA, data)
    store(row + 8 * L.ROW_CODE, code)
    store(row + 8 * L.ROW_LASTI, lasti)
    store(row + 8 * L.ROW_KEEPS, keeps)
    store(row + 8 * L.ROW_FREED, 0)
    store(header + 8 * L.H_N_ROWS, index + 1)
    store(header + 8 * L.H_N_OPERANDS, first + n_operands)
    return load(header + 8 * L.H_OPERANDS) + 8 * first


@inline
def write_value(header, value, array, dtype, extent, row):
    entry = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * value
    store(entry + 8 * L.VALUE_ADDRESS, load(array + ARRAY_DATA))
    store(entry + 8 * L.VALUE_SIZE, extent)
    store(entry + 8 * L.VALUE_DTYPE, dtype)
    store(entry + 8 * L.VALUE_BAR, 0)
    store(entry + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    store(entry + 8 * L.VALUE_ACTIVE, 0)
    store(entry + 8 * L.VALUE_ROW, row)
    store(header + 8 * L.H_N_VALUES, value + 1)


@inline
def write_scalar(address, value, dtype):
    if dtype == 0:
        pointer_f8(address)[0] = value
    else:
        pointer_f4(address)[0] = value


@inline
def locate(process, header, place):
    """Write the running Python code object and the offset in it to ``place``. Returns -1 after an error."""
    frame = current_frame()
    code = frame_code(frame)
    lasti = frame_lasti(frame)
    hold(frame)
    last = load(header + 8 * L.H_LAST_CODE)
    while code != last:
        passes = _passes(process, code)
        if passes < 0:
            return -1
        if passes == 0:
            break
        back = frame_back(frame)
        if back == 0:
            break
        let_go(frame)
        let_go(code)
        frame = back
        code = frame_code(frame)
        lasti = frame_lasti(frame)
    let_go(frame)
    failed = 0
    if code != load(header + 8 * L.H_LAST_CODE):
        key = from_int(code)
        failed = set_item(load(header + 8 * L.H_CODES), key, code)
        let_go(key)
        store(header + 8 * L.H_LAST_CODE, code)
    let_go(code)  # the tape holds it now
    store(place, code)
    store(place + 8, lasti)
    return failed


@inline
def new_tensor(process, header, tape, value, kind, vid):
    """A handle of a value that is on the tape already; takes over the references to ``value`` and ``vid``."""
    tensor = new_object(load(process + 8 * L.P_TENSOR), 0)
    if tensor == 0:
        return 0
    none = load(process + 8 * L.P_NONE)
    hold(kind)
    hold(tape)
    hold(none)
    set_slot(tensor, process, L.P_TENSOR_VALUE, value)
    set_slot(tensor, process, L.P_TENSOR_TYPE, kind)
    set_slot(tensor, process, L.P_TENSOR_TAPE, tape)
    set_slot(tensor, process, L.P_TENSOR_VID, vid)
    set_slot(tensor, process, L.P_TENSOR_LEAF, none)
    handles = load(header + 8 * L.H_HANDLES)
    if handles != 0:
        reference = new_reference(tensor, 0)
        if reference == 0 or set_item(handles, vid, reference) != 0:
            return 0
        let_go(reference)
    return tensor


@inline
def operand_count(row):
    """Number of ids among a row's operands."""
    kind = load(row + 8 * L.ROW_KIND)
    if kind == L.KIND_VIEW or kind == L.KIND_BROADCAST_1:
        return 1
    if kind == L.KIND_BROADCAST_2 or kind == L.KIND_PUT or kind == L.KIND_GATHER:
        return 2
    if kind == L.KIND_BROADCAST_3:
        return 3
    return load(row + 8 * L.ROW_N_OPERANDS)


def attach(self, args, n_args):
    """``(header, kept, types, codes, handles, params[, empty])``: tell a tape its Python objects, and empty it."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    store(header + 8 * L.H_KEPT, load(args + 8))
    store(header + 8 * L.H_TYPES, load(args + 16))
    store(header + 8 * L.H_CODES, load(args + 24))
    store(header + 8 * L.H_LAST_CODE, 0)
    handles = load(args + 32)
    store(header + 8 * L.H_HANDLES, 0 if handles == load(process + 8 * L.P_NONE) else handles)
    store(header + 8 * L.H_PARAMS, load(args + 40))
    if n_args == 7:
        store(header + 8 * L.H_N_ROWS, 0)
        store(header + 8 * L.H_N_OPERANDS, 0)
        store(header + 8 * L.H_N_VALUES, 0)
        store(header + 8 * L.H_BYTES, 0)
        store(header + 8 * L.H_THREAD, thread_ident())
    return nothing(process)


def room(self, args, n_args):
    """``(header, n_operands, n_values)``: whether there is room for one row more, with so many."""
    header = load(load(args) + ARRAY_DATA)
    return from_int(1 if has_room(header, as_int(load(args + 8)), as_int(load(args + 16))) else 0)


def append(self, args, n_args):
    """``(header, kernel, kind, data, keeps, code, lasti, results, *ids)``: append a row that ran elsewhere.

    ``results`` is a tuple of arrays, which are entered as values. Returns the id of the first, or None where there is
    no room.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    n_operands = n_args - 8
    results = load(args + 56)
    n_results = tuple_size(results)
    if not has_room(header, n_operands, n_results):
        return nothing(process)
    first = load(header + 8 * L.H_N_VALUES)
    row = load(header + 8 * L.H_N_ROWS)
    operands = append_row(
        header,
        as_int(load(args + 8)),
        as_int(load(args + 16)),
        n_operands,
        first,
        n_results,
        as_int(load(args + 24)),
        as_int(load(args + 32)),
        load(args + 40),
        as_int(load(args + 48)),
    )
    for k in range(n_operands):
        store(operands + 8 * k, as_int(load(args + 8 * (8 + k))))
    for k in range(n_results):
        array = tuple_item(results, k)
        extent = extent_of(array)
        write_value(header, first + k, array, float_of(process, array), extent, row)
        store(header + 8 * L.H_BYTES, load(header + 8 * L.H_BYTES) + 8 * extent)
    return from_int(first)


def define(self, args, n_args):
    """``(header, array)``: enter an input as a value. Returns its id, or None where there is no room."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    value = load(header + 8 * L.H_N_VALUES)
    if value >= load(header + 8 * L.H_VALUE_CAPACITY):
        return nothing(process)
    array = load(args + 8)
    write_value(header, value, array, float_of(process, array), extent_of(array), -1)
    return from_int(value)
