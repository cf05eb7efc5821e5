"""Elementwise ops: run the kernel and record the row, with broadcasting, in one native call."""

from __future__ import annotations

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    ARRAY_NDIM,
    ARRAY_SHAPE,
    ARRAY_STRIDES,
    OBJECT_TYPE,
    as_double,
    as_int,
    error_occurred,
    extent_of,
    float_of,
    from_int,
    header_of,
    hold,
    inline,
    is_contiguous,
    is_mask,
    itemsize_of,
    kind_of,
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
def enter_constant(process, header, array, dtype):
    """Enter a copy of an array that a rule will need as a value: the user may write to it before the replay.

    It is contiguous; ``dtype`` is -1 for booleans. Returns its id, or -1 after an error.
    """
    copy = new_like(process, array, dtype)
    if copy == 0:
        return -1
    extent = extent_of(array)
    memcpy(load(copy + ARRAY_DATA), load(array + ARRAY_DATA), extent * itemsize_of(dtype))
    kind = kind_of(process, copy)
    if kind == 0:
        return -1
    value = load(header + 8 * L.H_N_VALUES)
    failed = list_append(load(header + 8 * L.H_TYPES), kind)
    let_go(kind)
    key = from_int(value)
    failed |= set_item(load(header + 8 * L.H_KEPT), key, copy)
    let_go(key)
    let_go(copy)  # the residuals hold it now
    if failed != 0:
        return -1
    write_value(header, value, copy, dtype, extent, -1)
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
def _broadcast_shape(arrays, n_arrays, shape):
    """Write the common shape of arrays (0 for none); returns the number of axes, or -1: none in common, or too many."""
    ndim = 0
    for k in range(n_arrays):
        array = load(arrays + 8 * k)
        if array != 0:
            ndim = max(ndim, pointer_i4(array + ARRAY_NDIM)[0])
    if ndim > MAX_AXES:
        return -1
    for d in range(ndim):
        length = 1
        for k in range(n_arrays):
            array = load(arrays + 8 * k)
            at = d - ndim + (pointer_i4(array + ARRAY_NDIM)[0] if array != 0 else 0)
            own = load(load(array + ARRAY_SHAPE) + 8 * at) if at >= 0 else 1
            if own != 1 and own != length:
                if length != 1:
                    return -1
                length = own
        store(shape + 8 * d, length)
    return ndim


@inline
def _broadcast_strides(array, ndim, strides):
    """Write the strides with which an array (0 for a number) is read at each axis of a result of ``ndim`` axes.

    A stride is 0 just where the array is broadcast. Returns False for an array that has a stride of 0 itself.
    """
    own = pointer_i4(array + ARRAY_NDIM)[0] if array != 0 else 0
    for d in range(ndim):
        at = d - (ndim - own)
        stride = 0
        length = load(load(array + ARRAY_SHAPE) + 8 * at) if at >= 0 else 1
        if length != 1:
            stride = load(load(array + ARRAY_STRIDES) + 8 * at)
            if stride == 0 and length != 0:
                return False
        store(strides + 8 * d, stride)
    return True


@inline
def dense_strides(strides, shape, ndim, itemsize):
    """Write the strides of a contiguous array."""
    step = itemsize
    for d in range(ndim - 1, -1, -1):
        store(strides + 8 * d, step)
        step *= load(shape + 8 * d)


@inline
def call_over(address, pointers, strides, n_pointers, shape, ndim, data):
    """Call a kernel for every line along the last axis. ``strides`` holds ``ndim`` of them for each pointer."""
    steps = scratch(40)  # MAX_POINTERS, as a literal
    here = scratch(40)
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
def _operands_of(process, args, n_inputs, masks, tape, dtype, ids, arrays, number):
    """Write what each operand is, its id and its array (0 for a number), to ``ids`` and ``arrays``.

    Tensors are on ``tape``, or on none; if it is 0, there may be none.

    Returns 1; 0 after an error; -1 unless they are arrays of one dtype, masks of booleans, and at most one number,
    which is written to ``number``.
    """
    none = load(process + 8 * L.P_NONE)
    n_numbers = 0
    for k in range(n_inputs):
        operand = load(args + 8 * k)
        kind = load(operand + OBJECT_TYPE)
        array = 0
        vid = L.IMMEDIATE
        if kind == load(process + 8 * L.P_TENSOR):
            if tape == 0:
                return -1
            array = slot(operand, process, L.P_TENSOR_VALUE)
            own = slot(operand, process, L.P_TENSOR_TAPE)
            if own == tape:
                vid = as_int(slot(operand, process, L.P_TENSOR_VID))
                if vid < 0:
                    return -1
            elif own == none and slot(operand, process, L.P_TENSOR_LEAF) == none:
                vid = L.CONSTANT
            else:
                return -1
        elif kind == load(process + 8 * L.P_NDARRAY):
            array = operand
            vid = L.CONSTANT
        elif (
            kind == load(process + 8 * L.P_FLOAT)
            or kind == load(process + 8 * L.P_INT)
            or (kind == load(process + 8 * L.P_NUMPY_FLOAT) and dtype == 0)
        ):
            n_numbers += 1
            value = as_double(operand)
            if value == -1.0 and error_occurred() != 0:
                return 0
            write_scalar(number, value, dtype)
        else:
            return -1
        if (masks >> k) & 1:
            if array == 0 or not is_mask(process, array):
                return -1
        elif (array != 0 and float_of(process, array) != dtype) or n_numbers > 1:
            return -1
        store(ids + 8 * k, vid)
        store(arrays + 8 * k, array)
    return 1


@inline
def _alike(arrays, n_inputs, model):
    """Whether all arrays are contiguous and of the shape of ``model``."""
    for k in range(n_inputs):
        array = load(arrays + 8 * k)
        if array != 0 and not (is_contiguous(array) and (array == model or same_shape(array, model))):
            return False
    return True


@inline
def _keep(process, header, args, n_inputs, masks, dtype, keeps, ids, arrays):
    """Keep the operands that the rules will need; those that are on no tape get an id. Returns -1 after an error."""
    for k in range(n_inputs):
        array = load(arrays + 8 * k)
        if (keeps >> k) & 1 == 0 or array == 0:
            continue
        if load(ids + 8 * k) >= 0:
            vid = slot(load(args + 8 * k), process, L.P_TENSOR_VID)
            if set_item(load(header + 8 * L.H_KEPT), vid, array) != 0:
                return -1
        else:
            entered = enter_constant(process, header, array, -1 if (masks >> k) & 1 else dtype)
            if entered < 0:
                return -1
            store(ids + 8 * k, entered)
    return 0


@inline
def _layout_of(arrays, n_inputs, model, shape, strides):
    """How the operands are gone through: -1, as contiguous arrays of the model's shape and a number.

    Or over this many axes, with their ``shape``, and ``strides`` for each operand; -2 where neither is possible.
    """
    if _alike(arrays, n_inputs, model):
        return -1
    ndim = _broadcast_shape(arrays, n_inputs, shape)
    if ndim < 0:
        return -2
    for k in range(n_inputs):
        if not _broadcast_strides(load(arrays + 8 * k), ndim, strides + 8 * ndim * k):
            return -2
    return ndim


@inline
def _extent(model, shape, ndim):
    """Number of elements of a result."""
    if ndim < 0:
        return extent_of(model)
    extent = 1
    for d in range(ndim):
        extent *= load(shape + 8 * d)
    return extent


@inline
def _new_result(process, model, dtype, shape, ndim):
    """A new array for a result, or 0 with MemoryError set."""
    if ndim < 0:
        return new_like(process, model, dtype)
    new_array = load(process + 8 * L.P_NEW_ARRAY)
    return call_new_array(new_array, load(process + 8 * L.P_NDARRAY), ndim, shape, 12 - dtype, 0, 0, 0, 0, 0)


@inline
def _call(address, arrays, n_inputs, masks, number, dtype, shape, strides, ndim, data):
    """Call a kernel on operands laid out as `_layout_of` has found, and the result, which stands behind them."""
    pointers = scratch(4)
    for k in range(n_inputs + 1):
        array = load(arrays + 8 * k)
        store(pointers + 8 * k, number if array == 0 else load(array + ARRAY_DATA))
    if ndim >= 0:
        dense_strides(strides + 8 * ndim * n_inputs, shape, ndim, 8 >> dtype)
        call_over(address, pointers, strides, n_inputs + 1, shape, ndim, data)
        return
    steps = scratch(4)
    dims = scratch(1)
    store(dims, extent_of(load(arrays + 8 * n_inputs)))
    for k in range(n_inputs + 1):
        step = 1 if (masks >> k) & 1 else 8 >> dtype
        store(steps + 8 * k, 0 if load(arrays + 8 * k) == 0 else step)
    call_kernel(address, pointers, dims, steps, data)


@inline
def _compute(context, args, n_inputs):
    """Run an elementwise op on arrays that are on no tape, as rules do, and a number.

    Returns a new array; 0 after an error; -1, with nothing done, unless they are small, of one dtype, and not all
    without axes, where NumPy's results are scalars.
    """
    process = load(context + 8 * L.C_PROCESS)
    masks = load(context + 8 * L.C_MASKS)
    model = 0
    for k in range(n_inputs):
        operand = load(args + 8 * k)
        if load(operand + OBJECT_TYPE) == load(process + 8 * L.P_NDARRAY) and (masks >> k) & 1 == 0:
            if pointer_i4(operand + ARRAY_NDIM)[0] != 0:
                model = operand
    if model == 0:
        return -1
    dtype = float_of(process, model)
    if dtype < 0:
        return -1
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    address = load(load(process + 8 * L.P_KERNELS) + 8 * (L.KERNEL_WIDTH * kernel + L.KERNEL_FORWARD))
    if address == 0:
        return -1
    ids = scratch(3)
    arrays = scratch(4)
    number = scratch(1)
    found = _operands_of(process, args, n_inputs, masks, 0, dtype, ids, arrays, number)
    if found != 1:
        return found
    shape = scratch(8)
    strides = scratch(32)
    ndim = _layout_of(arrays, n_inputs, model, shape, strides)
    if ndim == -2 or _extent(model, shape, ndim) > L.SMALL:
        return -1
    out = _new_result(process, model, dtype, shape, ndim)
    if out != 0:
        store(arrays + 8 * n_inputs, out)
        _call(address, arrays, n_inputs, masks, number, dtype, shape, strides, ndim, L.CALLED_BY_NUMPY)
    return out


@inline
def _run(context, args, n_inputs):
    """Run an elementwise op on tensors, numbers and arrays, and record it.

    Returns the result's tensor; 0 after an error; -1, with nothing done, where the general path must take over: unless
    the operands are arrays of one dtype, float64 or float32, on one tape that is recording and has room.
    """
    process = load(context + 8 * L.C_PROCESS)
    masks = load(context + 8 * L.C_MASKS)
    model = 0
    for k in range(n_inputs):
        if model == 0 and load(load(args + 8 * k) + OBJECT_TYPE) == load(process + 8 * L.P_TENSOR):
            if slot(load(args + 8 * k), process, L.P_TENSOR_TAPE) != load(process + 8 * L.P_NONE):
                model = load(args + 8 * k) if (masks >> k) & 1 == 0 else 0
    if model == 0 or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return -1
    tape = slot(model, process, L.P_TENSOR_TAPE)
    header = header_of(process, tape)
    array = slot(model, process, L.P_TENSOR_VALUE)
    dtype = float_of(process, array)
    if dtype < 0 or not is_ours(header) or not has_room(header, 1 + (1 + MAX_AXES) * (1 + n_inputs), 1 + n_inputs):
        return -1
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    line = load(process + 8 * L.P_KERNELS) + 8 * L.KERNEL_WIDTH * kernel
    address = load(line + 8 * L.KERNEL_FORWARD)
    if address == 0:
        return -1
    ids = scratch(3)
    arrays = scratch(4)
    number = scratch(1)
    store(number, 0)
    found = _operands_of(process, args, n_inputs, masks, tape, dtype, ids, arrays, number)
    if found != 1:
        return found
    pattern = 0
    for k in range(n_inputs):
        pattern |= 1 << k if load(ids + 8 * k) >= 0 else 0
    keeps = load(line + 8 * (L.KERNEL_KEEPS + pattern))

    # The result: of the model's shape, or broadcast
    shape = scratch(8)
    strides = scratch(32)
    ndim = _layout_of(arrays, n_inputs, array, shape, strides)
    extent = _extent(array, shape, ndim)
    if ndim == -2 or extent > L.SMALL:
        return -1
    for k in range(n_inputs):
        operand = load(arrays + 8 * k)
        if (keeps >> k) & 1 and operand != 0 and load(ids + 8 * k) < 0 and not is_contiguous(operand):
            return -1  # it would have to be copied with its strides
    out = _new_result(process, array, dtype, shape, ndim)
    place = scratch(2)
    if out == 0 or locate(process, header, place) != 0:
        return 0
    kind = slot(model, process, L.P_TENSOR_TYPE)
    if ndim >= 0 and not same_shape(out, array):
        kind = kind_of(process, out)
        if kind == 0:
            return 0
    else:
        hold(kind)

    if _keep(process, header, args, n_inputs, masks, dtype, keeps, ids, arrays) != 0:
        return 0
    result = load(header + 8 * L.H_N_VALUES)
    row_kind = L.KIND_ELEMENTWISE
    n_operands = n_inputs
    if ndim >= 0:
        row_kind = L.KIND_BROADCAST_2
        if n_inputs != 2:
            row_kind = L.KIND_BROADCAST_1 if n_inputs == 1 else L.KIND_BROADCAST_3
        n_operands = n_inputs + 1 + ndim * (1 + n_inputs)
    row = load(header + 8 * L.H_N_ROWS)
    data = load(number)
    operands = append_row(header, kernel, row_kind, n_operands, result, 1, data, keeps, load(place), load(place + 8))
    write_value(header, result, out, dtype, extent, row)
    store(header + 8 * L.H_BYTES, load(header + 8 * L.H_BYTES) + extent * (8 >> dtype))

    store(arrays + 8 * n_inputs, out)
    memcpy(operands, ids, 8 * n_inputs)
    if ndim >= 0:  # behind the ids: number of axes, shape, and the operands' strides
        layout = operands + 8 * n_inputs
        store(layout, ndim)
        memcpy(layout + 8, shape, 8 * ndim)
        memcpy(layout + 8 * (1 + ndim), strides, 8 * ndim * n_inputs)
    _call(address, arrays, n_inputs, masks, number, dtype, shape, strides, ndim, L.STORE)

    vid = from_int(result)
    failed = set_item(load(header + 8 * L.H_KEPT), vid, out) if keeps & L.KEEPS_RESULT else 0
    if failed != 0 or list_append(load(header + 8 * L.H_TYPES), kind) != 0:
        return 0
    tensor = new_tensor(process, header, tape, out, kind, vid)
    let_go(kind)
    return tensor


def operate(self, args, n_args):
    """``(*operands)``: the built-in function of an elementwise op; ``self`` is its context.

    How many operands there are is read from it, not compiled in: each arity would take as long to compile again.
    """
    context = load(self + ARRAY_DATA)
    n_inputs = load(context + 8 * L.C_ARITY)
    if n_args == n_inputs:
        exchanged = scratch(2)
        if load(context + 8 * L.C_REFLECTED) != 0:  # of __radd__ and its like
            store(exchanged, load(args + 8))
            store(exchanged + 8, load(args))
            args = exchanged
        result = _run(context, args, n_inputs)
        if result == -1:
            result = _compute(context, args, n_inputs)
        if result != -1:
            return result
    return vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)
