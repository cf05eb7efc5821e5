"""The native entry points of a tape: run an op and append its instruction, and replay instructions in reverse.

Written in Numba over plain addresses. Each function here is compiled once, kept in the kernel cache, and called
as a built-in function: its arguments are the Python objects themselves (``args`` points at them), its result is
a new reference, or 0 after a Python exception has been set. ``self`` is an array: an op's context for `unary`,
`binary` and `reflected`, what is known of the process for all others.
"""

from __future__ import annotations

from numba import njit, types

from jitgrad.kernels import layout as L
from jitgrad.kernels.intrinsics import (
    call_kernel,
    call_new_array,
    load,
    pointer_f4,
    pointer_f8,
    pointer_i4,
    scratch,
    store,
)

_i8 = types.int64


def _external(name, n_arguments):
    """A function of CPython's C API, all of whose arguments and results are pointers or integers."""
    return types.ExternalFunction(name, _i8(*[_i8] * n_arguments))


_as_int = _external("PyLong_AsLongLong", 1)
_from_int = _external("PyLong_FromLongLong", 1)
_as_double = types.ExternalFunction("PyFloat_AsDouble", types.float64(_i8))
_error = _external("PyErr_Occurred", 0)
_hold = types.ExternalFunction("Py_IncRef", types.void(_i8))
_release = types.ExternalFunction("Py_DecRef", types.void(_i8))
_new_object = _external("PyType_GenericAlloc", 2)
_set_item = types.ExternalFunction("PyDict_SetItem", types.int32(_i8, _i8, _i8))
_new_dict = _external("PyDict_New", 0)
_get_item = _external("PyObject_GetItem", 2)
_tuple_size = _external("PyTuple_Size", 1)
_tuple_item = _external("PyTuple_GetItem", 2)
_list_size = _external("PyList_Size", 1)
_new_list = _external("PyList_New", 1)
_list_append = types.ExternalFunction("PyList_Append", types.int32(_i8, _i8))
_new_reference = _external("PyWeakref_NewRef", 2)
_vectorcall = _external("PyObject_Vectorcall", 4)
_thread = _external("PyThread_get_thread_ident", 0)
_frame = _external("PyEval_GetFrame", 0)
_frame_back = _external("PyFrame_GetBack", 1)
_frame_code = _external("PyFrame_GetCode", 1)
_frame_lasti = types.ExternalFunction("PyFrame_GetLasti", types.int32(_i8))
_malloc = _external("malloc", 1)
_free = types.ExternalFunction("free", types.void(_i8))
_memset = types.ExternalFunction("memset", _i8(_i8, types.int32, _i8))
_memcpy = _external("memcpy", 3)

# The public layout of CPython's objects and of NumPy's arrays (PyArrayObject_fields, part of NumPy's stable ABI),
# in bytes. jitgrad.core.native checks both against a real array at import.
_HEAD = object.__basicsize__
_TYPE = _HEAD - 8
ARRAY_DATA = _HEAD
ARRAY_NDIM = _HEAD + 8
ARRAY_SHAPE = _HEAD + 16
ARRAY_STRIDES = _HEAD + 24
ARRAY_DTYPE = _HEAD + 40
ARRAY_FLAGS = _HEAD + 48
_C_CONTIGUOUS = 0x1
_ALIGNED = 0x100
_TYPE_NUMBER = (12, 11)  # NPY_DOUBLE, NPY_FLOAT

_inline = njit(error_model="numpy", inline="never")


@_inline
def _extent(array):
    """Number of elements."""
    n = 1
    shape = load(array + ARRAY_SHAPE)
    for d in range(pointer_i4(array + ARRAY_NDIM)[0]):
        n *= load(shape + 8 * d)
    return n


@_inline
def _dtype(process, array):
    """0 or 1 for a contiguous float64 or float32 array, else -1."""
    if load(array + _TYPE) != load(process + 8 * L.P_NDARRAY):
        return -1
    flags = pointer_i4(array + ARRAY_FLAGS)[0]
    if flags & _C_CONTIGUOUS == 0 or flags & _ALIGNED == 0:
        return -1
    descriptor = load(array + ARRAY_DTYPE)
    if descriptor == load(process + 8 * L.P_FLOAT64):
        return 0
    if descriptor == load(process + 8 * L.P_FLOAT32):
        return 1
    return -1


@_inline
def _has_room(header, n_operands, n_values):
    return (
        load(header + 8 * L.H_N_ROWS) < load(header + 8 * L.H_ROW_CAPACITY)
        and load(header + 8 * L.H_N_OPERANDS) + n_operands <= load(header + 8 * L.H_OPERAND_CAPACITY)
        and load(header + 8 * L.H_N_VALUES) + n_values <= load(header + 8 * L.H_VALUE_CAPACITY)
        and load(header + 8 * L.H_BYTES) <= load(header + 8 * L.H_BYTE_LIMIT)
    )


@_inline
def _is_ours(header):
    """Whether this thread's operations are recorded on a tape; a result of another thread's may be on that one's."""
    return load(header + 8 * L.H_THREAD) == _thread()


@_inline
def _new_like(process, array, dtype):
    """A new array of the shape of another, or 0 with MemoryError set."""
    return call_new_array(
        load(process + 8 * L.P_NEW_ARRAY),
        load(process + 8 * L.P_NDARRAY),
        pointer_i4(array + ARRAY_NDIM)[0],
        load(array + ARRAY_SHAPE),
        12 - dtype,
        0,
        0,
        0,
        0,
        0,
    )


@_inline
def _append_row(header, kernel, kind, n_operands, result, n_results, data, keeps, code, lasti):
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


@_inline
def _write_value(header, value, array, dtype, extent, row):
    entry = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * value
    store(entry + 8 * L.VALUE_ADDRESS, load(array + ARRAY_DATA))
    store(entry + 8 * L.VALUE_SIZE, extent)
    store(entry + 8 * L.VALUE_DTYPE, dtype)
    store(entry + 8 * L.VALUE_BAR, 0)
    store(entry + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    store(entry + 8 * L.VALUE_ACTIVE, 0)
    store(entry + 8 * L.VALUE_ROW, row)
    store(header + 8 * L.H_N_VALUES, value + 1)


@_inline
def _write_scalar(address, value, dtype):
    if dtype == 0:
        pointer_f8(address)[0] = value
    else:
        pointer_f4(address)[0] = value


@_inline
def _slot(tensor, process, which):
    return load(tensor + load(process + 8 * which))


@_inline
def _set_slot(tensor, process, which, value):
    store(tensor + load(process + 8 * which), value)


@_inline
def _header_of(process, tape):
    return load(load(tape + load(process + 8 * L.P_TAPE_HEADER)) + ARRAY_DATA)


@_inline
def _passes(process, code):
    """Whether frames of a code object stand for their callers'."""
    table = load(process + 8 * L.P_PASSING)
    at = (code >> 4) & (L.PASSING_SIZE - 1)
    while True:
        entry = load(table + 8 * at)
        if entry == code:
            return True
        if entry == 0:
            return False
        at = (at + 1) & (L.PASSING_SIZE - 1)


@_inline
def _locate(process, header, place):
    """Write the running Python code object and the offset in it to ``place``. Returns -1 after an error."""
    frame = _frame()
    code = _frame_code(frame)
    lasti = _frame_lasti(frame)
    _hold(frame)
    while _passes(process, code):
        back = _frame_back(frame)
        if back == 0:
            break
        _release(frame)
        _release(code)
        frame = back
        code = _frame_code(frame)
        lasti = _frame_lasti(frame)
    _release(frame)
    failed = 0
    if code != load(header + 8 * L.H_LAST_CODE):
        key = _from_int(code)
        failed = _set_item(load(header + 8 * L.H_CODES), key, code)
        _release(key)
        store(header + 8 * L.H_LAST_CODE, code)
    _release(code)  # the tape holds it now
    store(place, code)
    store(place + 8, lasti)
    return failed


@_inline
def _new_tensor(process, header, tape, value, kind, vid):
    """A handle of a value that is on the tape already; takes over the references to ``value`` and ``vid``."""
    tensor = _new_object(load(process + 8 * L.P_TENSOR), 0)
    if tensor == 0:
        return 0
    none = load(process + 8 * L.P_NONE)
    _hold(kind)
    _hold(tape)
    _hold(none)
    _set_slot(tensor, process, L.P_TENSOR_VALUE, value)
    _set_slot(tensor, process, L.P_TENSOR_TYPE, kind)
    _set_slot(tensor, process, L.P_TENSOR_TAPE, tape)
    _set_slot(tensor, process, L.P_TENSOR_VID, vid)
    _set_slot(tensor, process, L.P_TENSOR_LEAF, none)
    handles = load(header + 8 * L.H_HANDLES)
    if handles != 0:
        reference = _new_reference(tensor, 0)
        if reference == 0 or _set_item(handles, vid, reference) != 0:
            return 0
        _release(reference)
    return tensor


MAX_AXES = 8  # of results that are broadcast natively


@_inline
def _enter_constant(process, header, array, dtype):
    """Enter an array that a rule will need as a value. Returns its id, or -1 after an error."""
    argument = scratch(1)
    store(argument, array)
    kind = _vectorcall(load(process + 8 * L.P_TYPE_OF), argument, 1, 0)
    if kind == 0:
        return -1
    value = load(header + 8 * L.H_N_VALUES)
    failed = _list_append(load(header + 8 * L.H_TYPES), kind)
    _release(kind)
    key = _from_int(value)
    failed |= _set_item(load(header + 8 * L.H_KEPT), key, array)
    _release(key)
    if failed != 0:
        return -1
    _write_value(header, value, array, dtype, _extent(array), -1)
    return value


@_inline
def _same_shape(x, y):
    ndim = pointer_i4(x + ARRAY_NDIM)[0]
    if ndim != pointer_i4(y + ARRAY_NDIM)[0]:
        return False
    for d in range(ndim):
        if load(load(x + ARRAY_SHAPE) + 8 * d) != load(load(y + ARRAY_SHAPE) + 8 * d):
            return False
    return True


@_inline
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


@_inline
def _broadcast_strides(array, ndim, itemsize, strides):
    """Write the strides with which a contiguous array is read at each axis of a result of ``ndim`` axes."""
    own = pointer_i4(array + ARRAY_NDIM)[0]
    step = itemsize
    for d in range(ndim - 1, -1, -1):
        at = d - (ndim - own)
        length = load(load(array + ARRAY_SHAPE) + 8 * at) if at >= 0 else 1
        store(strides + 8 * d, 0 if length == 1 else step)
        step *= length


@_inline
def _call_over(address, pointers, strides, n_pointers, shape, ndim, data):
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


@_inline
def _run(context, x, y, n_inputs):
    """Run an elementwise op on tensors, or a tensor and a number or an array, and record it.

    Returns the result's tensor; 0 after an error; -1, with nothing done, where the general path must take over: unless
    the operands are contiguous arrays of one dtype, float64 or float32, on one tape that is recording and has room.
    """
    process = load(context + 8 * L.C_PROCESS)
    tensor_type = load(process + 8 * L.P_TENSOR)
    x_is_tensor = load(x + _TYPE) == tensor_type
    y_is_tensor = n_inputs == 2 and load(y + _TYPE) == tensor_type
    model = x if x_is_tensor else y
    if not (x_is_tensor or y_is_tensor) or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return -1
    tape = _slot(model, process, L.P_TENSOR_TAPE)
    kind = _slot(model, process, L.P_TENSOR_TYPE)
    if tape == load(process + 8 * L.P_NONE):
        return -1
    header = _header_of(process, tape)
    array = _slot(model, process, L.P_TENSOR_VALUE)
    dtype = _dtype(process, array)
    if dtype < 0 or not _is_ours(header) or not _has_room(header, n_inputs + 1 + 3 * MAX_AXES, 3):
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
        operand_type = load(operand + _TYPE)
        operand_array = 0
        operand_id = L.IMMEDIATE
        if operand_type == tensor_type:
            operand_array = _slot(operand, process, L.P_TENSOR_VALUE)
            operand_id = _as_int(_slot(operand, process, L.P_TENSOR_VID))
            if operand_id < 0 or _slot(operand, process, L.P_TENSOR_TAPE) != tape:
                return -1
            if _dtype(process, operand_array) != dtype:
                return -1
        elif operand_type == load(process + 8 * L.P_NDARRAY):
            operand_array = operand
            operand_id = L.CONSTANT
            if _dtype(process, operand_array) != dtype:
                return -1
        elif (
            operand_type == load(process + 8 * L.P_FLOAT)
            or operand_type == load(process + 8 * L.P_INT)
            or (operand_type == load(process + 8 * L.P_NUMPY_FLOAT) and dtype == 0)
        ):
            number = _as_double(operand)
            if number == -1.0 and _error() != 0:
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
    extent = _extent(array)
    ndim = -1  # of a broadcast result
    if x_array != 0 and y_array != 0 and not _same_shape(x_array, y_array):
        ndim = _broadcast_shape(x_array, y_array, shape)
        if ndim < 0:
            return -1
        extent = 1
        for d in range(ndim):
            extent *= load(shape + 8 * d)
    if extent > L.SMALL:
        return -1
    if ndim < 0:
        out = _new_like(process, array, dtype)
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
    if out == 0 or _locate(process, header, place) != 0:
        return 0
    if ndim >= 0 and not _same_shape(out, array):
        argument = scratch(1)
        store(argument, out)
        kind = _vectorcall(load(process + 8 * L.P_TYPE_OF), argument, 1, 0)
        if kind == 0:
            return 0
    else:
        _hold(kind)

    keeps = load(line + 8 * (L.KERNEL_KEEPS + (1 if x_id >= 0 else 0) + (2 if y_id >= 0 else 0)))
    kept = load(header + 8 * L.H_KEPT)
    failed = 0
    for k in range(n_inputs):
        operand_id = x_id if k == 0 else y_id
        operand_array = x_array if k == 0 else y_array
        if (keeps >> k) & 1 and operand_array != 0:
            if operand_id >= 0:
                failed |= _set_item(kept, _slot(x if k == 0 else y, process, L.P_TENSOR_VID), operand_array)
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
    operands = _append_row(header, kernel, row_kind, n_operands, result, 1, 0, keeps, load(place), load(place + 8))
    immediate = load(header + 8 * L.H_ROWS) + 8 * (L.ROW_WIDTH * row + L.ROW_DATA)
    _write_scalar(immediate, number, dtype)
    _write_value(header, result, out, dtype, extent, row)
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
        _call_over(address, pointers, strides, 3, shape, ndim, L.STORE)

    vid = _from_int(result)
    if keeps & L.KEEPS_RESULT:
        failed |= _set_item(kept, vid, out)
    failed |= _list_append(load(header + 8 * L.H_TYPES), kind)
    if failed != 0:
        return 0
    tensor = _new_tensor(process, header, tape, out, kind, vid)
    _release(kind)
    return tensor


def unary(self, args, n_args):
    """``(x)``: the built-in function of a unary op; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 1:
        result = _run(context, load(args), load(args), 1)
        if result != -1:
            return result
    return _vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


def binary(self, args, n_args):
    """``(x, y)``: the built-in function of a binary op; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 2:
        result = _run(context, load(args), load(args + 8), 2)
        if result != -1:
            return result
    return _vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


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
        return _vectorcall(load(context + 8 * L.C_GENERAL), exchanged, 2, 0)
    return _vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


@_inline
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


@_inline
def _sum_f4(address, n):
    """Sum in double precision."""
    x = pointer_f4(address)
    total = 0.0
    for i in range(n):
        total += x[i]
    return total


@_inline
def _total(context, x, scalar_type):
    """Sum or mean of all elements of a tensor, recorded. Returns as `_run` does."""
    process = load(context + 8 * L.C_PROCESS)
    if load(x + _TYPE) != load(process + 8 * L.P_TENSOR) or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return -1
    tape = _slot(x, process, L.P_TENSOR_TAPE)
    x_id = _as_int(_slot(x, process, L.P_TENSOR_VID))
    if tape == load(process + 8 * L.P_NONE) or x_id < 0:
        return -1
    header = _header_of(process, tape)
    array = _slot(x, process, L.P_TENSOR_VALUE)
    dtype = _dtype(process, array)
    extent = _extent(array)
    if dtype < 0 or extent == 0 or extent > L.SMALL or not _is_ours(header) or not _has_room(header, 1, 1):
        return -1
    place = scratch(2)
    out = call_new_array(
        load(process + 8 * L.P_NEW_ARRAY), load(process + 8 * L.P_NDARRAY), 0, place, 12 - dtype, 0, 0, 0, 0, 0
    )
    if out == 0 or _locate(process, header, place) != 0:
        return 0
    scale = 1.0 / extent if load(context + 8 * L.C_MEAN) != 0 else 1.0
    address = load(array + ARRAY_DATA)
    if dtype == 0:
        total = _sum_f8(address, extent)
    else:
        total = _sum_f4(address, extent)
    _write_scalar(load(out + ARRAY_DATA), total / extent if load(context + 8 * L.C_MEAN) != 0 else total, dtype)
    result = load(header + 8 * L.H_N_VALUES)
    row = load(header + 8 * L.H_N_ROWS)
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    operands = _append_row(header, kernel, L.KIND_TOTAL, 1, result, 1, 0, 0, load(place), load(place + 8))
    store(operands, x_id)
    _write_scalar(load(header + 8 * L.H_ROWS) + 8 * (L.ROW_WIDTH * row + L.ROW_DATA), scale, 0)
    _write_value(header, result, out, dtype, 1, row)
    kind = load(scalar_type + 8 * dtype)
    vid = _from_int(result)
    if _list_append(load(header + 8 * L.H_TYPES), kind) != 0:
        return 0
    return _new_tensor(process, header, tape, out, kind, vid)


def total(self, args, n_args):
    """``(x)``: the built-in function of a sum or mean over all elements; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 1:
        process = load(context + 8 * L.C_PROCESS)
        result = _total(context, load(args), process + 8 * L.P_SCALAR_FLOAT64)
        if result != -1:
            return result
    return _vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


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
        store(header + 8 * L.H_THREAD, _thread())
    return _nothing(process)


@_inline
def _nothing(process):
    none = load(process + 8 * L.P_NONE)
    _hold(none)
    return none


def room(self, args, n_args):
    """``(header, n_operands, n_values)``: whether there is room for one row more, with so many."""
    header = load(load(args) + ARRAY_DATA)
    return _from_int(1 if _has_room(header, _as_int(load(args + 8)), _as_int(load(args + 16))) else 0)


def append(self, args, n_args):
    """``(header, kernel, kind, data, keeps, code, lasti, results, *ids)``: append a row that ran elsewhere.

    ``results`` is a tuple of arrays, which are entered as values. Returns the id of the first, or None where there is
    no room.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    n_operands = n_args - 8
    results = load(args + 56)
    n_results = _tuple_size(results)
    if not _has_room(header, n_operands, n_results):
        return _nothing(process)
    first = load(header + 8 * L.H_N_VALUES)
    row = load(header + 8 * L.H_N_ROWS)
    operands = _append_row(
        header,
        _as_int(load(args + 8)),
        _as_int(load(args + 16)),
        n_operands,
        first,
        n_results,
        _as_int(load(args + 24)),
        _as_int(load(args + 32)),
        load(args + 40),
        _as_int(load(args + 48)),
    )
    for k in range(n_operands):
        store(operands + 8 * k, _as_int(load(args + 8 * (8 + k))))
    for k in range(n_results):
        array = _tuple_item(results, k)
        extent = _extent(array)
        _write_value(header, first + k, array, _dtype(process, array), extent, row)
        store(header + 8 * L.H_BYTES, load(header + 8 * L.H_BYTES) + 8 * extent)
    return _from_int(first)


def define(self, args, n_args):
    """``(header, array)``: enter an input as a value. Returns its id, or None where there is no room."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    value = load(header + 8 * L.H_N_VALUES)
    if value >= load(header + 8 * L.H_VALUE_CAPACITY):
        return _nothing(process)
    array = load(args + 8)
    _write_value(header, value, array, _dtype(process, array), _extent(array), -1)
    return _from_int(value)


@_inline
def _append_view(process, header, kernel, place, x, x_id, out, offset, data):
    """Append a row whose result is a view of contiguous ``x``, and its value. Room for it must be there."""
    ndim = pointer_i4(out + ARRAY_NDIM)[0]
    row = load(header + 8 * L.H_N_ROWS)
    result = load(header + 8 * L.H_N_VALUES)
    operands = _append_row(
        header, kernel, L.KIND_VIEW, 3 + 2 * ndim, result, 1, data, 0, load(place), load(place + 8)
    )
    store(operands, x_id)
    store(operands + 8, offset)
    store(operands + 16, ndim)
    for d in range(ndim):
        store(operands + 24 + 8 * d, load(load(out + ARRAY_SHAPE) + 8 * d))
        store(operands + 24 + 8 * (ndim + d), load(load(out + ARRAY_STRIDES) + 8 * d))
    _write_value(header, result, out, _dtype(process, out), _extent(out), row)
    return row


@_inline
def _is_view(process, x, out, dtype):
    """Whether ``out`` lies inside contiguous ``x``, and both are small."""
    if load(out + _TYPE) != load(process + 8 * L.P_NDARRAY) or load(out + ARRAY_DTYPE) != load(x + ARRAY_DTYPE):
        return False
    extent = _extent(x)
    size = _extent(out)
    offset = load(out + ARRAY_DATA) - load(x + ARRAY_DATA)
    return extent <= L.SMALL and 0 < size <= L.SMALL and 0 <= offset < extent * (8 >> dtype)


def view(self, args, n_args):
    """``(header, opcode, code, lasti, x, x_id, out, data)``: append a row whose result is a strided view of x.

    Its operands are x's id, then the view's offset in bytes, number of dimensions, shape and strides: what the
    reverse replay needs to scatter into a cotangent laid out as x. Returns None, with nothing done, unless ``out``
    lies inside a contiguous float64 or float32 ``x`` of at most ``SMALL`` elements.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    x = load(args + 32)
    out = load(args + 48)
    dtype = _dtype(process, x)
    if dtype < 0 or not _is_view(process, x, out, dtype):
        return _nothing(process)
    if not _has_room(header, 3 + 2 * pointer_i4(out + ARRAY_NDIM)[0], 1):
        return _nothing(process)
    place = scratch(2)
    store(place, load(args + 16))
    store(place + 8, _as_int(load(args + 24)))
    offset = load(out + ARRAY_DATA) - load(x + ARRAY_DATA)
    kernel = 2 * _as_int(load(args + 8)) + dtype
    data = _as_int(load(args + 56))
    return _from_int(_append_view(process, header, kernel, place, x, _as_int(load(args + 40)), out, offset, data))


@_inline
def _position(process, x, index):
    """The offset in bytes of one element, for an int, or a tuple of as many ints as x has axes; else -1."""
    ndim = pointer_i4(x + ARRAY_NDIM)[0]
    kind = load(index + _TYPE)
    if kind == load(process + 8 * L.P_INT):
        if ndim != 1:
            return -1
    elif kind != load(process + 8 * L.P_TUPLE) or _tuple_size(index) != ndim:
        return -1
    offset = 0
    for d in range(ndim):
        item = index if kind == load(process + 8 * L.P_INT) else _tuple_item(index, d)
        if load(item + _TYPE) != load(process + 8 * L.P_INT):
            return -1
        length = load(load(x + ARRAY_SHAPE) + 8 * d)
        at = _as_int(item)
        if at < 0:
            at += length
        if at < 0 or at >= length:
            return -1  # the general path says what is wrong
        offset += at * load(load(x + ARRAY_STRIDES) + 8 * d)
    return offset


@_inline
def _is_basic(process, index):
    """Whether an index is made of ints, slices, None and an ellipsis, so that NumPy answers with a view."""
    kind = load(index + _TYPE)
    n = _tuple_size(index) if kind == load(process + 8 * L.P_TUPLE) else 1
    for k in range(n):
        item = _tuple_item(index, k) if kind == load(process + 8 * L.P_TUPLE) else index
        item_kind = load(item + _TYPE)
        if (
            item_kind != load(process + 8 * L.P_SLICE)
            and item_kind != load(process + 8 * L.P_INT)
            and item != load(process + 8 * L.P_NONE)
            and item != load(process + 8 * L.P_ELLIPSIS)
        ):
            return False
    return True


@_inline
def _link(process, base, view):
    """Tie a view to its base, so that a write to either can be carried to the other. Returns -1 after an error."""
    _hold(base)
    _set_slot(view, process, L.P_TENSOR_BASE, base)
    views = _slot(base, process, L.P_TENSOR_VIEWS)
    if views == 0:
        views = _new_list(0)
        _set_slot(base, process, L.P_TENSOR_VIEWS, views)
    reference = _new_reference(view, 0)
    if views == 0 or reference == 0 or _list_append(views, reference) != 0:
        return -1
    _release(reference)
    n = _list_size(views)
    if n >= 16 and n & (n - 1) == 0:  # at powers of two: dropping dead references costs O(1) a view
        argument = scratch(1)
        store(argument, views)
        done = _vectorcall(load(process + 8 * L.P_SWEEP), argument, 1, 0)
        if done == 0:
            return -1
        _release(done)
    return 0


@_inline
def _item(context, x, index):
    """``x[index]`` of a recorded tensor and a basic index. Returns as `_run` does."""
    process = load(context + 8 * L.C_PROCESS)
    none = load(process + 8 * L.P_NONE)
    if load(x + _TYPE) != load(process + 8 * L.P_TENSOR) or load(load(process + 8 * L.P_SUSPENDED)) != 0:
        return -1
    tape = _slot(x, process, L.P_TENSOR_TAPE)
    x_id = _as_int(_slot(x, process, L.P_TENSOR_VID))
    if tape == none or x_id < 0:
        return -1
    header = _header_of(process, tape)
    array = _slot(x, process, L.P_TENSOR_VALUE)
    dtype = _dtype(process, array)
    most_axes = pointer_i4(array + ARRAY_NDIM)[0]
    most_axes += _tuple_size(index) if load(index + _TYPE) == load(process + 8 * L.P_TUPLE) else 1
    if dtype < 0 or _extent(array) > L.SMALL:
        return -1
    if not _is_ours(header) or not _has_room(header, 3 + 2 * most_axes, 1):
        return -1
    place = scratch(2)
    offset = _position(process, array, index)
    scalar_type = 0
    if offset >= 0:
        new_array = load(process + 8 * L.P_NEW_ARRAY)
        out = call_new_array(new_array, load(process + 8 * L.P_NDARRAY), 0, place, 12 - dtype, 0, 0, 0, 0, 0)
        if out == 0:
            return 0
        _memcpy(load(out + ARRAY_DATA), load(array + ARRAY_DATA) + offset, 8 >> dtype)
        scalar_type = load(process + 8 * (L.P_SCALAR_FLOAT64 + dtype))
    else:
        if not _is_basic(process, index):
            return -1
        out = _get_item(array, index)
        if out == 0:
            return 0
        if not _is_view(process, array, out, dtype):
            _release(out)
            return -1
        offset = load(out + ARRAY_DATA) - load(array + ARRAY_DATA)
    if scalar_type != 0:
        kind = scalar_type
        _hold(kind)
    else:
        # the type of a subarray is looked up in Python, where types are interned
        argument = scratch(1)
        store(argument, out)
        kind = _vectorcall(load(process + 8 * L.P_TYPE_OF), argument, 1, 0)
    params = _new_dict()
    if kind == 0 or params == 0 or _set_item(params, load(context + 8 * L.C_KEY), index) != 0:
        return 0
    data = _list_size(load(header + 8 * L.H_PARAMS))
    if _list_append(load(header + 8 * L.H_PARAMS), params) != 0 or _locate(process, header, place) != 0:
        return 0
    _release(params)
    if _list_append(load(header + 8 * L.H_TYPES), kind) != 0:
        return 0
    result = load(header + 8 * L.H_N_VALUES)
    kernel = 2 * load(context + 8 * L.C_OPCODE) + dtype
    _append_view(process, header, kernel, place, array, x_id, out, offset, data)
    tensor = _new_tensor(process, header, tape, out, kind, _from_int(result))
    _release(kind)
    if tensor != 0 and scalar_type == 0 and _link(process, x, tensor) != 0:
        return 0
    return tensor


def item(self, args, n_args):
    """``(x, index)``: the built-in function of indexing; ``self`` is its context."""
    context = load(self + ARRAY_DATA)
    if n_args == 2:
        result = _item(context, load(args), load(args + 8))
        if result != -1:
            return result
    return _vectorcall(load(context + 8 * L.C_GENERAL), args, n_args, 0)


@_inline
def _operand_count(row):
    """Number of ids among a row's operands."""
    kind = load(row + 8 * L.ROW_KIND)
    if kind == L.KIND_VIEW:
        return 1
    if kind == L.KIND_BROADCAST:
        return 2
    return load(row + 8 * L.ROW_N_OPERANDS)


def begin(self, args, n_args):
    """``(header, first_value, first_row, last_row, *wanted)``: mark what a replay of these rows has to look at.

    Of the values from ``first_value`` on, the wanted ones become active and held, and with them the results of every
    row that has an active operand.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    values = load(header + 8 * L.H_VALUES)
    first_value = _as_int(load(args + 8))
    store(header + 8 * L.H_FIRST_VALUE, first_value)
    for v in range(first_value, load(header + 8 * L.H_N_VALUES)):
        store(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE), 0)
    for k in range(4, n_args):
        store(values + 8 * (L.VALUE_WIDTH * _as_int(load(args + 8 * k)) + L.VALUE_ACTIVE), 2)
    last = _as_int(load(args + 24))
    for r in range(_as_int(load(args + 16)), last + 1):
        row = load(header + 8 * L.H_ROWS) + 8 * L.ROW_WIDTH * r
        operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
        active = 0
        for k in range(_operand_count(row)):
            v = load(operands + 8 * k)
            if v >= first_value and load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) != 0:
                active = 1
                break
        if active:
            result = load(row + 8 * L.ROW_RESULT)
            for k in range(load(row + 8 * L.ROW_N_RESULTS)):
                place = values + 8 * (L.VALUE_WIDTH * (result + k) + L.VALUE_ACTIVE)
                if load(place) == 0:
                    store(place, 1)
    return _nothing(process)


def end(self, args, n_args):
    """``(header,)``: after a replay, whether it came through or not; free the cotangents that are left."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    for v in range(load(header + 8 * L.H_FIRST_VALUE), load(header + 8 * L.H_N_VALUES)):
        value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * v
        if load(value + 8 * L.VALUE_BAR_STATE) == L.BAR_OWNED:
            _free(load(value + 8 * L.VALUE_BAR))
        store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    return _nothing(process)


def release(self, args, n_args):
    """``(header, last_row)``: before a replay that frees; mark the rows that it will free and the values that stay.

    The seeds' VALUE_NEEDED is 2, that of all other values 0. Afterwards VALUE_NEEDED is 1 where a row that the replay
    does not reach, and that is not freed, keeps the value.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    values = load(header + 8 * L.H_VALUES)
    rows = load(header + 8 * L.H_ROWS)
    for r in range(_as_int(load(args + 8)), -1, -1):
        row = rows + 8 * L.ROW_WIDTH * r
        reached = False
        for k in range(load(row + 8 * L.ROW_N_RESULTS)):
            value = values + 8 * L.VALUE_WIDTH * (load(row + 8 * L.ROW_RESULT) + k)
            reached = reached or (load(value + 8 * L.VALUE_NEEDED) == 2 and load(value + 8 * L.VALUE_ACTIVE) != 0)
        if not reached:
            continue
        if load(row + 8 * L.ROW_KEEPS) != 0 and load(row + 8 * L.ROW_FREED) == 0:
            store(row + 8 * L.ROW_FREED, L.BEING_FREED)
        operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
        for k in range(_operand_count(row)):
            if load(operands + 8 * k) >= 0:
                store(values + 8 * (L.VALUE_WIDTH * load(operands + 8 * k) + L.VALUE_NEEDED), 2)
    for v in range(load(header + 8 * L.H_N_VALUES)):
        store(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_NEEDED), 0)
    for r in range(load(header + 8 * L.H_N_ROWS)):
        row = rows + 8 * L.ROW_WIDTH * r
        keeps = load(row + 8 * L.ROW_KEEPS)
        if keeps == 0 or load(row + 8 * L.ROW_FREED) != 0:
            continue
        operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
        for k in range(_operand_count(row)):
            v = load(operands + 8 * k)
            if v >= 0 and (keeps & L.KEEPS_ALL != 0 or (k < 61 and (keeps >> k) & 1 != 0)):
                store(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_NEEDED), 1)
        if keeps & L.KEEPS_RESULT != 0:
            for k in range(load(row + 8 * L.ROW_N_RESULTS)):
                store(values + 8 * (L.VALUE_WIDTH * (load(row + 8 * L.ROW_RESULT) + k) + L.VALUE_NEEDED), 1)
    return _nothing(process)


@_inline
def _open_bar(value, dtype, clear):
    """Make the cotangent at ``value`` one that can be added to. Returns whether it already held something."""
    state = load(value + 8 * L.VALUE_BAR_STATE)
    if state == L.BAR_OWNED or state == L.BAR_ARRAY:
        return True
    n_bytes = load(value + 8 * L.VALUE_SIZE) * (8 >> dtype)
    bar = _malloc(n_bytes)
    if state == L.BAR_BORROWED:
        _memcpy(bar, load(value + 8 * L.VALUE_BAR), n_bytes)
    elif clear:
        _memset(bar, 0, n_bytes)
    store(value + 8 * L.VALUE_BAR, bar)
    store(value + 8 * L.VALUE_BAR_STATE, L.BAR_OWNED)
    return state == L.BAR_BORROWED or clear


@_inline
def _reverse_elementwise(process, header, row, value):
    """Add an elementwise row's contributions. False, with nothing done, where a VJP kernel is not compiled yet."""
    values = load(header + 8 * L.H_VALUES)
    first_value = load(header + 8 * L.H_FIRST_VALUE)
    kernel = load(row + 8 * L.ROW_KERNEL)
    dtype = kernel & 1
    itemsize = 8 >> dtype
    table = load(process + 8 * L.P_KERNELS) + 8 * (L.KERNEL_WIDTH * kernel + L.KERNEL_VJP)
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    n_operands = load(row + 8 * L.ROW_N_OPERANDS)
    for k in range(n_operands):
        v = load(operands + 8 * k)
        if v >= first_value and load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) != 0:
            if load(table + 8 * (L.VJP_WIDTH * k + L.VJP_ADDRESS)) == 0:
                return False
    pointers = scratch(6)
    steps = scratch(6)
    dims = scratch(1)
    extent = load(value + 8 * L.VALUE_SIZE)
    store(dims, extent)
    for k in range(n_operands):
        v = load(operands + 8 * k)
        if v < first_value or load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) == 0:
            continue
        group = table + 8 * L.VJP_WIDTH * k
        store(pointers, load(value + 8 * L.VALUE_BAR))
        store(steps, itemsize)
        n_residuals = load(group + 8 * L.VJP_N_RESIDUALS)
        for j in range(n_residuals):
            which = load(group + 8 * (L.VJP_RESIDUALS + j))
            u = load(row + 8 * L.ROW_RESULT) if which == L.RESULT else load(operands + 8 * which)
            if u == L.IMMEDIATE:
                store(pointers + 8 * (j + 1), row + 8 * L.ROW_DATA)
                store(steps + 8 * (j + 1), 0)
            else:
                residual = values + 8 * L.VALUE_WIDTH * u
                store(pointers + 8 * (j + 1), load(residual + 8 * L.VALUE_ADDRESS))
                store(steps + 8 * (j + 1), 0 if load(residual + 8 * L.VALUE_SIZE) != extent else itemsize)
        target = values + 8 * L.VALUE_WIDTH * v
        narrow = load(target + 8 * L.VALUE_SIZE) != extent  # a scalar operand: its cotangent is a sum
        held = _open_bar(target, dtype, narrow)
        store(pointers + 8 * (n_residuals + 1), load(target + 8 * L.VALUE_BAR))
        store(steps + 8 * (n_residuals + 1), 0 if narrow else itemsize)
        call_kernel(
            load(group + 8 * L.VJP_ADDRESS), pointers, dims, steps, L.ACCUMULATE if held or narrow else L.STORE
        )
    return True


@_inline
def _reverse_broadcast(process, header, row, value):
    """Add a broadcast row's contributions. False, with nothing done, where a VJP kernel is not compiled yet."""
    values = load(header + 8 * L.H_VALUES)
    first_value = load(header + 8 * L.H_FIRST_VALUE)
    kernel = load(row + 8 * L.ROW_KERNEL)
    dtype = kernel & 1
    itemsize = 8 >> dtype
    table = load(process + 8 * L.P_KERNELS) + 8 * (L.KERNEL_WIDTH * kernel + L.KERNEL_VJP)
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    for k in range(2):
        v = load(operands + 8 * k)
        if v >= first_value and load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) != 0:
            if load(table + 8 * (L.VJP_WIDTH * k + L.VJP_ADDRESS)) == 0:
                return False
    ndim = load(operands + 16)
    shape = operands + 24
    operand_strides = shape + 8 * ndim
    own_strides = scratch(8)
    step = itemsize
    for d in range(ndim - 1, -1, -1):
        store(own_strides + 8 * d, step)
        step *= load(shape + 8 * d)
    extent = load(value + 8 * L.VALUE_SIZE)
    pointers = scratch(6)
    strides = scratch(48)
    for k in range(2):
        v = load(operands + 8 * k)
        if v < first_value or load(values + 8 * (L.VALUE_WIDTH * v + L.VALUE_ACTIVE)) == 0:
            continue
        group = table + 8 * L.VJP_WIDTH * k
        n_residuals = load(group + 8 * L.VJP_N_RESIDUALS)
        store(pointers, load(value + 8 * L.VALUE_BAR))
        _memcpy(strides, own_strides, 8 * ndim)
        for j in range(n_residuals):
            which = load(group + 8 * (L.VJP_RESIDUALS + j))
            u = load(row + 8 * L.ROW_RESULT) if which == L.RESULT else load(operands + 8 * which)
            store(pointers + 8 * (j + 1), load(values + 8 * (L.VALUE_WIDTH * u + L.VALUE_ADDRESS)))
            source = own_strides if which == L.RESULT else operand_strides + 8 * ndim * which
            _memcpy(strides + 8 * ndim * (j + 1), source, 8 * ndim)
        target = values + 8 * L.VALUE_WIDTH * v
        narrow = load(target + 8 * L.VALUE_SIZE) != extent
        held = _open_bar(target, dtype, narrow)
        store(pointers + 8 * (n_residuals + 1), load(target + 8 * L.VALUE_BAR))
        _memcpy(strides + 8 * ndim * (n_residuals + 1), operand_strides + 8 * ndim * k, 8 * ndim)
        data = L.ACCUMULATE if held or narrow else L.STORE
        _call_over(load(group + 8 * L.VJP_ADDRESS), pointers, strides, n_residuals + 2, shape, ndim, data)
    return True


@_inline
def _reverse_view(header, row, value):
    """Scatter the cotangent of a strided view into its base's."""
    values = load(header + 8 * L.H_VALUES)
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    itemsize = 8 >> dtype
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    base = values + 8 * L.VALUE_WIDTH * load(operands)
    _open_bar(base, dtype, True)
    target = load(base + 8 * L.VALUE_BAR) + load(operands + 8)
    source = load(value + 8 * L.VALUE_BAR)
    ndim = load(operands + 16)
    shape = operands + 24
    strides = shape + 8 * ndim
    outer = 1
    for d in range(ndim - 1):
        outer *= load(shape + 8 * d)
    inner = load(shape + 8 * (ndim - 1)) if ndim > 0 else 1
    step = load(strides + 8 * (ndim - 1)) if ndim > 0 else 0
    for block in range(outer):
        place = target
        rest = block
        for d in range(ndim - 2, -1, -1):
            length = load(shape + 8 * d)
            place += (rest % length) * load(strides + 8 * d)
            rest //= length
        if dtype == 0:
            for _ in range(inner):
                pointer_f8(place)[0] += pointer_f8(source)[0]
                place += step
                source += itemsize
        else:
            for _ in range(inner):
                pointer_f4(place)[0] += pointer_f4(source)[0]
                place += step
                source += itemsize


@_inline
def _reverse_total(header, row, value):
    """Add a total's cotangent, scaled, to every element of its operand's."""
    dtype = load(row + 8 * L.ROW_KERNEL) & 1
    operands = load(header + 8 * L.H_OPERANDS) + 8 * load(row + 8 * L.ROW_OPERANDS)
    operand = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * load(operands)
    held = _open_bar(operand, dtype, False)
    n = load(operand + 8 * L.VALUE_SIZE)
    scale = pointer_f8(row + 8 * L.ROW_DATA)[0]
    if dtype == 0:
        bar = pointer_f8(load(operand + 8 * L.VALUE_BAR))
        g = pointer_f8(load(value + 8 * L.VALUE_BAR))[0] * scale
        for i in range(n):
            bar[i] = bar[i] + g if held else g
    else:
        narrow = pointer_f4(load(operand + 8 * L.VALUE_BAR))
        h = pointer_f4(load(value + 8 * L.VALUE_BAR))[0] * scale
        for i in range(n):
            narrow[i] = narrow[i] + h if held else h


def reverse(self, args, n_args):
    """``(header, first_row, row)``: replay in reverse from ``row`` down, as far as no Python is needed.

    Returns the row that needs Python (a rule, or a VJP kernel that must be compiled), or ``first_row - 1``.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    values = load(header + 8 * L.H_VALUES)
    first = _as_int(load(args + 8))
    r = _as_int(load(args + 16))
    while r >= first:
        row = load(header + 8 * L.H_ROWS) + 8 * L.ROW_WIDTH * r
        kind = load(row + 8 * L.ROW_KIND)
        value = values + 8 * L.VALUE_WIDTH * load(row + 8 * L.ROW_RESULT)
        if kind == L.KIND_RULE:
            for k in range(load(row + 8 * L.ROW_N_RESULTS)):
                if load(value + 8 * (L.VALUE_WIDTH * k + L.VALUE_BAR_STATE)) != L.BAR_NONE:
                    return _from_int(r)
        elif load(value + 8 * L.VALUE_BAR_STATE) != L.BAR_NONE:
            if load(value + 8 * L.VALUE_ACTIVE) != 0:
                if load(row + 8 * L.ROW_FREED) == L.FREED:
                    return _from_int(r)
                if kind == L.KIND_VIEW:
                    _reverse_view(header, row, value)
                elif kind == L.KIND_TOTAL:
                    _reverse_total(header, row, value)
                elif kind == L.KIND_BROADCAST:
                    if not _reverse_broadcast(process, header, row, value):
                        return _from_int(r)
                elif not _reverse_elementwise(process, header, row, value):
                    return _from_int(r)
            if load(value + 8 * L.VALUE_ACTIVE) != 2:
                if load(value + 8 * L.VALUE_BAR_STATE) == L.BAR_OWNED:
                    _free(load(value + 8 * L.VALUE_BAR))
                store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
        r -= 1
    return _from_int(first - 1)


@_inline
def _same_layout(process, header, value, array):
    """Whether an array is contiguous and of the dtype and extent of a value that native code can add to."""
    dtype = load(value + 8 * L.VALUE_DTYPE)
    return dtype >= 0 and _dtype(process, array) == dtype and _extent(array) == load(value + 8 * L.VALUE_SIZE)


def accumulate(self, args, n_args):
    """``(header, value, array)``: add an array to a value's cotangent.

    Returns 0 when it is done; 1 when the array has become the cotangent, and must be kept alive; 2, with nothing done,
    where NumPy must do it.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    array = load(args + 16)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * _as_int(load(args + 8))
    if not _same_layout(process, header, value, array):
        return _from_int(2)
    state = load(value + 8 * L.VALUE_BAR_STATE)
    if state == L.BAR_NONE:
        store(value + 8 * L.VALUE_BAR, load(array + ARRAY_DATA))
        store(value + 8 * L.VALUE_BAR_STATE, L.BAR_BORROWED)
        return _from_int(1)
    n = load(value + 8 * L.VALUE_SIZE)
    if n > L.SMALL and state == L.BAR_BORROWED:
        return _from_int(2)  # one pass of NumPy over both, instead of a copy and a sum
    dtype = load(value + 8 * L.VALUE_DTYPE)
    _open_bar(value, dtype, False)
    if dtype == 0:
        bar = pointer_f8(load(value + 8 * L.VALUE_BAR))
        term = pointer_f8(load(array + ARRAY_DATA))
        for i in range(n):
            bar[i] += term[i]
    else:
        narrow_bar = pointer_f4(load(value + 8 * L.VALUE_BAR))
        narrow_term = pointer_f4(load(array + ARRAY_DATA))
        for i in range(n):
            narrow_bar[i] += narrow_term[i]
    return _from_int(0)


def state(self, args, n_args):
    """``(header, value)``: 8 times whether a value is active, plus the state of its cotangent."""
    header = load(load(args) + ARRAY_DATA)
    number = _as_int(load(args + 8))
    if number < 0:
        return _from_int(0)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * number
    active = number >= load(header + 8 * L.H_FIRST_VALUE) and load(value + 8 * L.VALUE_ACTIVE) != 0
    return _from_int(load(value + 8 * L.VALUE_BAR_STATE) + (8 if active else 0))


def give(self, args, n_args):
    """``(header, value, array, state)``: make an array (contiguous, of the value's extent and dtype) its cotangent."""
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * _as_int(load(args + 8))
    store(value + 8 * L.VALUE_BAR, load(load(args + 16) + ARRAY_DATA))
    store(value + 8 * L.VALUE_BAR_STATE, _as_int(load(args + 24)))
    return _nothing(process)


def take(self, args, n_args):
    """``(header, value, array)``: move the cotangent that native code owns into ``array`` and free it.

    ``array`` may be None: then the cotangent is dropped. Returns the state that the cotangent had.
    """
    process = load(self + ARRAY_DATA)
    header = load(load(args) + ARRAY_DATA)
    value = load(header + 8 * L.H_VALUES) + 8 * L.VALUE_WIDTH * _as_int(load(args + 8))
    state = load(value + 8 * L.VALUE_BAR_STATE)
    if state == L.BAR_OWNED:
        if load(args + 16) != load(process + 8 * L.P_NONE):
            dtype = load(value + 8 * L.VALUE_DTYPE)
            n_bytes = load(value + 8 * L.VALUE_SIZE) * (8 >> dtype)
            _memcpy(load(load(args + 16) + ARRAY_DATA), load(value + 8 * L.VALUE_BAR), n_bytes)
        _free(load(value + 8 * L.VALUE_BAR))
    store(value + 8 * L.VALUE_BAR_STATE, L.BAR_NONE)
    return _from_int(state)
