"""Python objects and NumPy arrays as native code sees them: CPython's C API, slots, and the layout of an array."""

from __future__ import annotations

from numba import njit, types

from jitgrad.kernels import layout as L
from jitgrad.kernels.intrinsics import call_new_array, load, pointer_i4, scratch, store

_i8 = types.int64


def _external(name, n_arguments):
    """A function of CPython's C API, all of whose arguments and results are pointers or integers."""
    return types.ExternalFunction(name, _i8(*[_i8] * n_arguments))


as_int = _external("PyLong_AsLongLong", 1)
from_int = _external("PyLong_FromLongLong", 1)
as_double = types.ExternalFunction("PyFloat_AsDouble", types.float64(_i8))
error_occurred = _external("PyErr_Occurred", 0)
hold = types.ExternalFunction("Py_IncRef", types.void(_i8))
let_go = types.ExternalFunction("Py_DecRef", types.void(_i8))
new_object = _external("PyType_GenericAlloc", 2)
set_item = types.ExternalFunction("PyDict_SetItem", types.int32(_i8, _i8, _i8))
new_dict = _external("PyDict_New", 0)
get_item = _external("PyObject_GetItem", 2)
tuple_size = _external("PyTuple_Size", 1)
tuple_item = _external("PyTuple_GetItem", 2)
new_tuple = _external("PyTuple_New", 1)
set_tuple_item = types.ExternalFunction("PyTuple_SetItem", types.int32(_i8, _i8, _i8))  # takes over the reference
call_object = _external("PyObject_Call", 3)
get_kept = _external("PyDict_GetItem", 2)  # no new reference; 0 without an exception for a key that is not there
list_item = _external("PyList_GetItem", 2)
list_size = _external("PyList_Size", 1)
new_list = _external("PyList_New", 1)
list_append = types.ExternalFunction("PyList_Append", types.int32(_i8, _i8))
new_reference = _external("PyWeakref_NewRef", 2)
vectorcall = _external("PyObject_Vectorcall", 4)
save_thread = _external("PyEval_SaveThread", 0)
restore_thread = types.ExternalFunction("PyEval_RestoreThread", types.void(_i8))
thread_ident = _external("PyThread_get_thread_ident", 0)
current_frame = _external("PyEval_GetFrame", 0)
frame_back = _external("PyFrame_GetBack", 1)
frame_code = _external("PyFrame_GetCode", 1)
frame_lasti = types.ExternalFunction("PyFrame_GetLasti", types.int32(_i8))
malloc = _external("malloc", 1)
free = types.ExternalFunction("free", types.void(_i8))
memset = types.ExternalFunction("memset", _i8(_i8, types.int32, _i8))
memcpy = _external("memcpy", 3)

# The public layout of CPython's objects and of NumPy's arrays (PyArrayObject_fields, part of NumPy's stable ABI),
# in bytes. jitgrad.core.native checks both against a real array at import.
_HEAD = object.__basicsize__
OBJECT_TYPE = _HEAD - 8
ARRAY_DATA = _HEAD
ARRAY_NDIM = _HEAD + 8
ARRAY_SHAPE = _HEAD + 16
ARRAY_STRIDES = _HEAD + 24
ARRAY_BASE = _HEAD + 32
ARRAY_DTYPE = _HEAD + 40
ARRAY_FLAGS = _HEAD + 48
_C_CONTIGUOUS = 0x1
_ALIGNED = 0x100
_TYPE_NUMBER = (12, 11)  # NPY_DOUBLE, NPY_FLOAT

inline = njit(error_model="numpy", inline="never")


@inline
def extent_of(array):
    """Number of elements."""
    n = 1
    shape = load(array + ARRAY_SHAPE)
    for d in range(pointer_i4(array + ARRAY_NDIM)[0]):
        n *= load(shape + 8 * d)
    return n


@inline
def is_contiguous(array):
    return pointer_i4(array + ARRAY_FLAGS)[0] & _C_CONTIGUOUS != 0


@inline
def dtype_of(process, array):
    """0 or 1 for a contiguous float64 or float32 array, else -1."""
    dtype = float_of(process, array)
    return dtype if dtype >= 0 and is_contiguous(array) else -1


@inline
def is_mask(process, array):
    """Whether an ndarray is one of booleans."""
    return load(array + ARRAY_DTYPE) == load(process + 8 * L.P_BOOL)


@inline
def float_of(process, array):
    """0 or 1 for a float64 or float32 array of any strides, else -1."""
    if load(array + OBJECT_TYPE) != load(process + 8 * L.P_NDARRAY):
        return -1
    if pointer_i4(array + ARRAY_FLAGS)[0] & _ALIGNED == 0:
        return -1
    descriptor = load(array + ARRAY_DTYPE)
    if descriptor == load(process + 8 * L.P_FLOAT64):
        return 0
    if descriptor == load(process + 8 * L.P_FLOAT32):
        return 1
    return -1


@inline
def new_like(process, array, dtype):
    """A new array of the shape of another, of booleans if ``dtype`` is -1; or 0 with MemoryError set."""
    return call_new_array(
        load(process + 8 * L.P_NEW_ARRAY),
        load(process + 8 * L.P_NDARRAY),
        pointer_i4(array + ARRAY_NDIM)[0],
        load(array + ARRAY_SHAPE),
        12 - dtype if dtype >= 0 else 0,
        0,
        0,
        0,
        0,
        0,
    )


@inline
def kind_of(process, array):
    """An array's type, looked up in Python, where types are interned."""
    argument = scratch(1)
    store(argument, array)
    return vectorcall(load(process + 8 * L.P_TYPE_OF), argument, 1, 0)


@inline
def itemsize_of(dtype):
    """Bytes of an element of a value, which is a boolean if it is not a float."""
    return 8 >> dtype if dtype >= 0 else 1


@inline
def slot(tensor, process, which):
    return load(tensor + load(process + 8 * which))


@inline
def set_slot(tensor, process, which, value):
    store(tensor + load(process + 8 * which), value)


@inline
def header_of(process, tape):
    return load(load(tape + load(process + 8 * L.P_TAPE_HEADER)) + ARRAY_DATA)


@inline
def _passes(process, code):
    """Whether frames of a code object stand for their callers': 1 or 0, -1 after an error."""
    table = load(process + 8 * L.P_PASSING)
    at = (code >> 4) & (L.PASSING_SIZE - 1)
    while True:
        entry = load(table + 8 * at)
        if entry == code:
            return 1
        if entry == 0:
            break
        at = (at + 1) & (L.PASSING_SIZE - 1)
    argument = scratch(1)
    store(argument, code)
    answer = vectorcall(load(process + 8 * L.P_PASSES), argument, 1, 0)
    if answer == 0:
        return -1
    passes = as_int(answer)
    let_go(answer)
    return passes


@inline
def nothing(process):
    none = load(process + 8 * L.P_NONE)
    hold(none)
    return none
