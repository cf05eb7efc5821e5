"""Sums and means of all elements: computed and recorded in one native call."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    OBJECT_TYPE,
    as_int,
    extent_of,
    float_of,
    free,
    from_int,
    header_of,
    inline,
    is_contiguous,
    list_append,
    malloc,
    slot,
    vectorcall,
)
from jitgrad.kernels.entries.rows import append_row, has_room, is_ours, locate, new_tensor, write_scalar, write_value
from jitgrad.kernels.entries.writes import READ, move
from jitgrad.kernels.intrinsics import call_new_array, load, pointer_f4, pointer_f8, pointer_i4, scratch, store


@inline
def _sum_f8(address, n):
    """Sum in eight interleaved partial sums: vectorised, and of smaller error than one running sum."""
    x = pointer_f8(address)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = n - n % 8
    for i in range(0, whole, 8):
        s0 += x[i]
        s1 += x[i + 1]
        s2 += x[i + 2]
        s3 += x[i + 3]
        s4 += x[i + 4]
        s5 += x[i + 5]
        s6 += x[i + 6]
        s7 += x[i + 7]
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for i in range(whole, n):
        total += x[i]
    return total


@inline
def _sum_f4(address, n):
    """Sum in double precision."""
    x = pointer_f4(address)
    total = 0.0
    for i in range(n):
        total += x[i]
    return total


@inline
def _total(context, x, scalar_type):
    """Sum or mean of all elements of a tensor, recorded. Returns as `_run` does."""
    process = load(context + 8 * L.C_PROCESS)
    if load(x + OBJECT_TYPE) != load(process + 8 * L.P_TENSOR) or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return -1
    tape = slot(x, process, L.P_TENSOR_TAPE)
    x_id = as_int(slot(x, process, L.P_TENSOR_VID))
    if tape == load(process + 8 * L.P_NONE) or x_id < 0:
        return -1
    header = header_of(process, tape)
    array = slot(x, process, L.P_TENSOR_VALUE)
    dtype = float_of(process, array)
    extent = extent_of(array)
    if dtype < 0 or extent == 0 or extent > L.SMALL or not is_ours(header) or not has_room(header, 1, 1):
        return -1
    place = scratch(2)
    out = call_new_array(
        load(process + 8 * L.P_NEW_ARRAY), load(process + 8 * L.P_NDARRAY), 0, place, 12 - dtype, 0, 0, 0, 0, 0
    )
    if out == 0 or locate(process, header, place) != 0:
        return 0
    scale = 1.0 / extent if load(context + 8 * L.C_MEAN) != 0 else 1.0
    address = load(array + ARRAY_DATA)
    packed = 0
    if not is_contiguous(array):
        packed = malloc(extent * (8 >> dtype))
        ndim = pointer_i4(array + ARRAY_NDIM)[0]
        shape = load(array + ARRAY_SHAPE)
        move(dtype, address, shape, load(array + ARRAY_STRIDES), ndim, packed, 8 >> dtype, READ)
        address = packed
    if dtype == 0:
        total = _sum_f8(address, extent)
    else:
        total = _sum_f4(address, extent)
    free(packed)
    write_scalar(load(out + ARRAY_DATA), total / extent if load(context + 8 * L.C_MEAN) != 0 else total, dtype)
    result = load(header + 8 * L.H_N_VALUES)
    row = load(header + 8 * L.H_N_ROWS)
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    operands = append_row(header, kernel, L.KIND_TOTAL, 1, result, 1, 0, 0, load(place), load(place + 8))
    store(operands, x_id)
    write_scalar(load(header + 8 * L.H_ROWS) + 8 * (L.ROW_WIDTH * row + L.ROW_DATA), scale, 0)
    write_value(header, result, out, dtype, 1, row)
    kind = load(scalar_type + 8 * dtype)
    vid = from_int(result)
    if list_append(load(header + 8 * L.H_TYPES), kind) != 0:
        return 0
    return new_tensor(process, header, tape, out, kind, vid)


def total(self, args, n_args):
    """``(x)``: the built-in function of a sum or mean over all elements; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 1:
        process = load(context + 8 * L.C_PROCESS)
        result = _total(context, load(args), process + 8 * L.P_SCALAR_FLOAT64)
        if result != -1:
            return result
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)
