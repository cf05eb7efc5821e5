"""Elementwise ops: run the kernel and record the row, with broadcasting, in one native call."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    OBJECT_TYPE,
    as_double,
    as_int,
    dtype_of,
    error_occurred,
    extent_of,
    from_int,
    header_of,
    hold,
    inline,
    let_go,
    list_append,
    memcpy,
    new_like,
    set_item,
    slot,
    vectorcall,
)
from jitgrad.kernels.entries.rows import append_row, has_room, is_ours, locate, new_tensor, write_scalar, write_value
from jitgrad.kernels.intrinsics import call_kernel, call_new_array, load, pointer_i4, scratch, store

MAX_AXES = 8  # of results that are broadcast natively


@inline
def _enter_constant(process, header, array, dtype):
    """Enter a copy of an array that a rule will need as a value: the user may write to it before the replay.

    Returns its id, or -1 after an error.
    """
    copy = new_like(process, array, dtype)
    if copy == 0:
        return -1
    memcpy(load(copy + ARRAY_DATA), load(array + ARRAY_DATA), extent_of(array) * (8 >> dtype))
    array = copy
    argument = scratch(1)
    store(argument, array)
    kind = vectorcall(load(process + 8 * L.P_TYPE_OF), argument, 1, 0)
    if kind == 0:
        return -1
    value = load(header + 8 * L.H_N_VALUES)
    failed = list_append(load(header + 8 * L.H_TYPES), kind)
    let_go(kind)
    key = from_int(value)
    failed |= set_item(load(header + 8 * L.H_KEPT), key, array)
    let_go(key)
    let_go(array)  # the residuals hold it now
    if failed != 0:
        return -1
    write_value(header, value, array, dtype, extent_of(array), -1)
    return value


@inline
def same_shape(x, y):
    ndim = pointer_i4(x + ARRAY_NDIM)[0]
    if ndim != pointer_i4(y + ARRAY_NDIM)[0]:
        return False
    for d in range(ndim):
        if load(load(x + ARRAY_SHAPE) + 8 * d) != load(load(y + ARRAY_SHAPE) + 8 * d):
            return False
    return True


@inline
def _broadcast_shape(x, y, shape):
    """Write the common shape of two arrays; returns the number of axes, or -1 where there is none or too many."""
    ndim_x = pointer_i4(x + ARRAY_NDIM)[0]
    ndim_y = pointer_i4(y + ARRAY_NDIM)[0]
    ndim = max(ndim_x, ndim_y)
    if ndim > MAX_AXES:
        return -1
    for d in range(ndim):
        dx = d - (ndim - ndim_x)
        dy = d - (ndim - ndim_y)
        a = load(load(x + ARRAY_SHAPE) + 8 * dx) if dx >= 0 else 1
        b = load(load(y + ARRAY_SHAPE) + 8 * dy) if dy >= 0 else 1
        if a != b and a != 1 and b != 1:
            return -1
        store(shape + 8 * d, b if a == 1 else a)
    return ndim


@inline
def _broadcast_strides(array, ndim, itemsize, strides):
    """Write the strides with which a contiguous array is read at each axis of a result of ``ndim`` axes."""
    own = pointer_i4(array + ARRAY_NDIM)[0]
    step = itemsize
    for d in range(ndim - 1, -1, -1):
        at = d - (ndim - own)
        length = load(load(array + ARRAY_SHAPE) + 8 * at) if at >= 0 else 1
        store(strides + 8 * d, 0 if length == 1 else step)
        step *= length


@inline
def call_over(address, pointers, strides, n_pointers, shape, ndim, data):
    """Call a kernel for every line along the last axis. ``strides`` holds ``ndim`` of them for each pointer."""
    steps = scratch(6)
    here = scratch(6)
    dims = scratch(1)
    store(dims, load(shape + 8 * (ndim - 1)))
    for p in range(n_pointers):
        store(steps + 8 * p, load(strides + 8 * (ndim * p + ndim - 1)))
    lines = 1
    for d in range(ndim - 1):
        lines *= load(shape + 8 * d)
    for line in range(lines):
        rest = line
        for p in range(n_pointers):
            store(here + 8 * p, load(pointers + 8 * p))
        for d in range(ndim - 2, -1, -1):
            length = load(shape + 8 * d)
            at = rest % length
            rest //= length
            for p in range(n_pointers):
                store(here + 8 * p, load(here + 8 * p) + at * load(strides + 8 * (ndim * p + d)))
        call_kernel(address, here, dims, steps, data)


@inline
def _run(context, x, y, n_inputs):
    """Run an elementwise op on tensors, or a tensor and a number or an array, and record it.

    Returns the result's tensor; 0 after an error; -1, with nothing done, where the general path must take over: unless
    the operands are contiguous arrays of one dtype, float64 or float32, on one tape that is recording and has room.
    """
    process = load(context + 8 * L.C_PROCESS)
    tensor_type = load(process + 8 * L.P_TENSOR)
    x_is_tensor = load(x + OBJECT_TYPE) == tensor_type
    y_is_tensor = n_inputs == 2 and load(y + OBJECT_TYPE) == tensor_type
    model = x if x_is_tensor else y
    if not (x_is_tensor or y_is_tensor) or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return -1
    tape = slot(model, process, L.P_TENSOR_TAPE)
    kind = slot(model, process, L.P_TENSOR_TYPE)
    if tape == load(process + 8 * L.P_NONE):
        return -1
    header = header_of(process, tape)
    array = slot(model, process, L.P_TENSOR_VALUE)
    dtype = dtype_of(process, array)
    if dtype < 0 or not is_ours(header) or not has_room(header, n_inputs + 1 + 3 * MAX_AXES, 3):
        return -1
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    line = load(process + 8 * L.P_KERNELS) + 8 * L.KERNEL_WIDTH * kernel
    address = load(line + 8 * L.KERNEL_FORWARD)
    if address == 0:
        return -1

    # What each operand is: its id, and its array, or 0 for a number
    x_id = L.IMMEDIATE
    y_id = L.IMMEDIATE
    x_array = 0
    y_array = 0
    number = 0.0
    for k in range(n_inputs):
        operand = x if k == 0 else y
        operand_type = load(operand + OBJECT_TYPE)
        operand_array = 0
        operand_id = L.IMMEDIATE
        if operand_type == tensor_type:
            operand_array = slot(operand, process, L.P_TENSOR_VALUE)
            operand_id = as_int(slot(operand, process, L.P_TENSOR_VID))
            if operand_id < 0 or slot(operand, process, L.P_TENSOR_TAPE) != tape:
                return -1
            if dtype_of(process, operand_array) != dtype:
                return -1
        elif operand_type == load(process + 8 * L.P_NDARRAY):
            operand_array = operand
            operand_id = L.CONSTANT
            if dtype_of(process, operand_array) != dtype:
                return -1
        elif (
            operand_type == load(process + 8 * L.P_FLOAT)
            or operand_type == load(process + 8 * L.P_INT)
            or (operand_type == load(process + 8 * L.P_NUMPY_FLOAT) and dtype == 0)
        ):
            number = as_double(operand)
            if number == -1.0 and error_occurred() != 0:
                return 0
        else:
            return -1
        if k == 0:
            x_id = operand_id
            x_array = operand_array
        else:
            y_id = operand_id
            y_array = operand_array

    # The result: of the model's shape, or broadcast
    place = scratch(2)
    shape = scratch(8)
    itemsize = 8 >> dtype
    extent = extent_of(array)
    ndim = -1  # of a broadcast result
    if x_array != 0 and y_array != 0 and not same_shape(x_array, y_array):
        ndim = _broadcast_shape(x_array, y_array, shape)
        if ndim < 0:
            return -1
        extent = 1
        for d in range(ndim):
            extent *= load(shape + 8 * d)
    if extent > L.SMALL:
        return -1
    if ndim < 0:
        out = new_like(process, array, dtype)
    else:
        out = call_new_array(
            load(process + 8 * L.P_NEW_ARRAY),
            load(process + 8 * L.P_NDARRAY),
            ndim,
            shape,
            12 - dtype,
            0,
            0,
            0,
            0,
            0,
        )
    if out == 0 or locate(process, header, place) != 0:
        return 0
    if ndim >= 0 and not same_shape(out, array):
        argument = scratch(1)
        store(argument, out)
        kind = vectorcall(load(process + 8 * L.P_TYPE_OF), argument, 1, 0)
        if kind == 0:
            return 0
    else:
        hold(kind)

    keeps = load(line + 8 * (L.KERNEL_KEEPS + (1 if x_id >= 0 else 0) + (2 if y_id >= 0 else 0)))
    kept = load(header + 8 * L.H_KEPT)
    failed = 0
    for k in range(n_inputs):
        operand_id = x_id if k == 0 else y_id
        operand_array = x_array if k == 0 else y_array
        if (keeps >> k) & 1 and operand_array != 0:
            if operand_id >= 0:
                failed |= set_item(kept, slot(x if k == 0 else y, process, L.P_TENSOR_VID), operand_array)
            else:
                operand_id = _enter_constant(process, header, operand_array, dtype)
                failed |= 1 if operand_id < 0 else 0
                if k == 0:
                    x_id = operand_id
                else:
                    y_id = operand_id
    result = load(header + 8 * L.H_N_VALUES)
    row = load(header + 8 * L.H_N_ROWS)
    row_kind = L.KIND_ELEMENTWISE if ndim < 0 else L.KIND_BROADCAST
    n_operands = n_inputs if ndim < 0 else 3 + 3 * ndim
    operands = append_row(header, kernel, row_kind, n_operands, result, 1, 0, keeps, load(place), load(place + 8))
    immediate = load(header + 8 * L.H_ROWS) + 8 * (L.ROW_WIDTH * row + L.ROW_DATA)
    write_scalar(immediate, number, dtype)
    write_value(header, result, out, dtype, extent, row)
    store(header + 8 * L.H_BYTES, load(header + 8 * L.H_BYTES) + extent * itemsize)

    pointers = scratch(4)
    store(operands, x_id)
    store(pointers, immediate if x_array == 0 else load(x_array + ARRAY_DATA))
    if n_inputs == 2:
        store(operands + 8, y_id)
        store(pointers + 8, immediate if y_array == 0 else load(y_array + ARRAY_DATA))
    store(pointers + 8 * n_inputs, load(out + ARRAY_DATA))
    if ndim < 0:
        steps = scratch(4)
        dims = scratch(1)
        store(dims, extent)
        store(steps, 0 if x_array == 0 else itemsize)
        if n_inputs == 2:
            store(steps + 8, 0 if y_array == 0 else itemsize)
        store(steps + 8 * n_inputs, itemsize)
        call_kernel(address, pointers, dims, steps, L.STORE)
    else:
        # behind the ids: number of axes, shape, and the strides of x and y; the result's are needed only here
        store(operands + 16, ndim)
        strides = scratch(24)
        _broadcast_strides(x_array, ndim, itemsize, strides)
        _broadcast_strides(y_array, ndim, itemsize, strides + 8 * ndim)
        _broadcast_strides(out, ndim, itemsize, strides + 16 * ndim)
        for d in range(ndim):
            store(operands + 24 + 8 * d, load(shape + 8 * d))
        for d in range(2 * ndim):
            store(operands + 24 + 8 * (ndim + d), load(strides + 8 * d))
        call_over(address, pointers, strides, 3, shape, ndim, L.STORE)

    vid = from_int(result)
    if keeps & L.KEEPS_RESULT:
        failed |= set_item(kept, vid, out)
    failed |= list_append(load(header + 8 * L.H_TYPES), kind)
    if failed != 0:
        return 0
    tensor = new_tensor(process, header, tape, out, kind, vid)
    let_go(kind)
    return tensor


def unary(self, args, n_args):
    """``(x)``: the built-in function of a unary op; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 1:
        result = _run(context, load(args), load(args), 1)
        if result != -1:
            return result
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


def binary(self, args, n_args):
    """``(x, y)``: the built-in function of a binary op; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 2:
        result = _run(context, load(args), load(args + 8), 2)
        if result != -1:
            return result
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


def reflected(self, args, n_args):
    """``(y, x)``: a binary op with its operands exchanged, for ``__radd__`` and its like."""
    context = load(self + ARRAY_DATA)
    exchanged = scratch(2)
    if n_args == 2:
        store(exchanged, load(args + 8))
        store(exchanged + 8, load(args))
        result = _run(context, load(exchanged), load(exchanged + 8), 2)
        if result != -1:
            return result
        return vectorcall(load(context + 8 * L.C_GENERAL), exchanged, 2, 0)
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)
