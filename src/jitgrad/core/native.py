"""The native entry points as Python functions, and the addresses that they need of NumPy and CPython.

`jitgrad.kernels.entries` has their sources and says what each takes and returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

from jitgrad.core.location import PACKAGE
from jitgrad.kernels import cache
from jitgrad.kernels import compile as compiler
from jitgrad.kernels import layout as L

__all__ = [
    "KERNELS",
    "PROCESS",
    "SUSPENDED",
    "TRACES",
    "accumulate",
    "append",
    "attach",
    "begin",
    "define",
    "derive",
    "end",
    "gather",
    "give",
    "introduce_tape",
    "introduce_tensor",
    "join",
    "method",
    "not_a_sequence",
    "operation",
    "release",
    "reverse",
    "room",
    "run",
    "state",
    "take",
    "ufunc",
    "view",
]


def _api_table(capsule: Any) -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))


# Slots of NumPy's C API, fixed by its stable ABI (numpy/_core/code_generators/numpy_api.py)
_PYARRAY_NEW = _api_table(_multiarray_umath._ARRAY_API)[93]
_PYARRAY_RETURN = _api_table(_multiarray_umath._ARRAY_API)[76]
_PYUFUNC_FROM_FUNC_AND_DATA = _api_table(_multiarray_umath._UFUNC_API)[1]


def _check_layout() -> None:
    """Refuse to run where an array does not lie in memory as native code believes."""
    array = np.arange(6.0).reshape(2, 3)
    words = (ctypes.c_int64 * 7).from_address(id(array) + object.__basicsize__)
    seen = (words[0], words[1] & 0xFFFFFFFF, words[4], words[5], words[6] & 0x1)
    if seen != (array.ctypes.data, 2, id(array.base), id(array.dtype), 1):
        raise ImportError(
            f"jitgrad reads NumPy's arrays at the addresses of NumPy's stable ABI, and NumPy {np.__version__} on this "
            "interpreter lays them out otherwise. Please report this with the output of numpy.show_config()."
        )


_check_layout()


def _address(name: str) -> int:
    def build() -> Callable[..., Any]:
        from jitgrad.kernels import entries

        function: Callable[..., Any] = getattr(entries, name)
        return function

    return compiler.address_of(f"entry_{name}_{cache.sources('entries')}", build, n_arguments=3, returns=True)


# The kernel table, two lines an op (float64, float32). Native code has its address, so it never moves; it is address
# space, not memory, until it is used.
MAX_OPS = 4096
KERNELS = np.zeros((2 * MAX_OPS, L.KERNEL_WIDTH), dtype=np.int64)

_held: list[Any] = []  # what only native code has a pointer to

SUSPENDED = np.zeros(1, dtype=np.int64)  # how many contexts have recording switched off
TRACES = np.zeros(1, dtype=np.int64)  # how many transforms are tracing

PROCESS = np.zeros(L.P_WIDTH, dtype=np.int64)
PROCESS[L.P_KERNELS] = KERNELS.ctypes.data
PROCESS[L.P_SUSPENDED] = SUSPENDED.ctypes.data
PROCESS[L.P_FLOAT64] = id(np.dtype(np.float64))
PROCESS[L.P_FLOAT32] = id(np.dtype(np.float32))
PROCESS[L.P_BOOL] = id(np.dtype(np.bool_))
PROCESS[L.P_NDARRAY] = id(np.ndarray)
PROCESS[L.P_FLOAT] = id(float)
PROCESS[L.P_INT] = id(int)
PROCESS[L.P_NUMPY_FLOAT] = id(np.float64)
PROCESS[L.P_NONE] = id(None)
PROCESS[L.P_ELLIPSIS] = id(...)
PROCESS[L.P_SLICE] = id(slice)
PROCESS[L.P_TUPLE] = id(tuple)
PROCESS[L.P_NEW_ARRAY] = _PYARRAY_NEW
PROCESS[L.P_RETURN] = _PYARRAY_RETURN


def _offset(obj: Any, slot: str) -> int:
    """Where a slot lies in an object: found by putting a mark in it."""
    mark = object()
    setattr(obj, slot, mark)
    size = type(obj).__basicsize__ // 8
    words = list((ctypes.c_int64 * size).from_address(id(obj)))
    if words.count(id(mark)) != 1:
        raise ImportError(f"the slot {slot} of {type(obj).__name__} is not where it is looked for")
    return 8 * words.index(id(mark))


def introduce_tape(cls: type) -> None:
    """Tell native code where the header lies in a Tape."""
    PROCESS[L.P_TAPE_HEADER] = _offset(object.__new__(cls), "header")


def introduce_tensor(
    cls: type, scalars: tuple[object, object], type_of: Callable[..., Any], sweep: Callable[..., Any]
) -> None:
    """Tell native code where the slots of a Tensor lie, the types of scalars, and what it asks Python to do."""
    PROCESS[L.P_TENSOR] = id(cls)
    PROCESS[L.P_TYPE_OF] = id(type_of)
    PROCESS[L.P_SWEEP] = id(sweep)
    PROCESS[L.P_SCALAR_FLOAT64], PROCESS[L.P_SCALAR_FLOAT32] = map(id, scalars)
    for column, slot in (
        (L.P_TENSOR_VALUE, "_value"),
        (L.P_TENSOR_TYPE, "_type"),
        (L.P_TENSOR_TAPE, "_tape"),
        (L.P_TENSOR_VID, "_vid"),
        (L.P_TENSOR_LEAF, "_leaf"),
        (L.P_TENSOR_BASE, "_base"),
        (L.P_TENSOR_VIEWS, "_views"),
    ):
        PROCESS[column] = _offset(object.__new__(cls), slot)
    PROCESS[L.P_TYPE_SHAPE] = _offset(object.__new__(type(scalars[0])), "shape")


_SQ_ITEM = 44  # Py_sq_item, of CPython's stable ABI (Include/typeslots.h)


def not_a_sequence(cls: type) -> None:
    """Let a class that has ``__getitem__`` be no sequence in CPython's C API; it can be indexed all the same.

    When an object refuses to become a number, NumPy puts an error of its own in the place of the object's ("setting an
    array element with a sequence"), but not for what is no sequence.
    """
    slot_of = ctypes.pythonapi.PyType_GetSlot
    slot_of.restype = ctypes.c_void_p
    slot_of.argtypes = [ctypes.py_object, ctypes.c_int]
    slot = slot_of(cls, _SQ_ITEM)
    size: Any = type.__basicsize__
    words = (ctypes.c_int64 * (size // 8)).from_address(id(cls))
    if slot is None or list(words).count(slot) != 1:
        raise ImportError(f"the slot for items of sequences of {cls.__name__} is not where it is looked for")
    words[list(words).index(slot)] = 0
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


_PASSING = np.zeros(L.PASSING_SIZE, dtype=np.int64)
PROCESS[L.P_PASSING] = _PASSING.ctypes.data


def _passes(code: CodeType) -> int:
    """Tell whether a code object is one of ours, whose frames stand for their callers'; remember those that are."""
    if not code.co_filename.startswith(PACKAGE):
        return 0
    if np.count_nonzero(_PASSING) > L.PASSING_SIZE // 2:
        raise RuntimeError("too many functions of jitgrad's own to remember")
    at = (id(code) >> 4) % L.PASSING_SIZE
    while _PASSING[at]:
        at = (at + 1) % L.PASSING_SIZE
    _PASSING[at] = id(code)
    _held.append(code)
    return 1


PROCESS[L.P_PASSES] = id(_passes)
PROCESS[L.P_ASARRAY] = id(np.asarray)


def _entry(name: str) -> Callable[..., Any]:
    return compiler.builtin(name, _address(name), PROCESS)


room = _entry("room")
append = _entry("append")
define = _entry("define")
view = _entry("view")
derive = _entry("derive")
join = _entry("join")
gather = _entry("gather")
run = _entry("run")
attach = _entry("attach")
begin = _entry("begin")
end = _entry("end")
release = _entry("release")
reverse = _entry("reverse")
accumulate = _entry("accumulate")
state = _entry("state")
give = _entry("give")
take = _entry("take")


def operation(
    name: str,
    entry: str,
    opcode: int,
    general: Callable[..., Any],
    doc: str | None = None,
    *,
    mean: bool = False,
    key: str = "",
    masks: int = 0,
    arity: int = 0,
    reflected: bool = False,
) -> Callable[..., Any]:
    """Make the built-in function of an op from an entry point that takes an op's context.

    It runs and records the op natively where it can, and calls ``general`` where it cannot. ``mean`` is for totals,
    ``key`` the name of the static parameter of an item or a put. Of an elementwise op, ``arity`` is the number of
    operands, ``masks`` says which of them (bit k) are booleans, and ``reflected`` that its two come exchanged.
    """
    context = np.array(
        [PROCESS.ctypes.data, opcode, id(general), mean, id(key), masks, arity, reflected], dtype=np.int64
    )
    _held.append((general, key))
    return compiler.builtin(name, _address(entry), context, doc)


def method(function: Callable[..., Any]) -> Any:
    """Make a built-in function one that binds as a method: its first argument is then the instance."""
    new = ctypes.pythonapi.PyInstanceMethod_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.py_object]
    return new(function)


def ufunc(name: str, characters: str, address: int) -> Callable[..., Any]:
    """Make a NumPy ufunc of one result from the address of its inner loop, and the dtype characters of its arguments.

    Of "?dd", the operands are booleans and float64, and the result is float64.
    """
    functions = (ctypes.c_void_p * 1)(address)
    data = (ctypes.c_void_p * 1)()
    numbers = bytes(np.dtype(character).num for character in characters)
    types = ctypes.create_string_buffer(numbers, len(numbers))
    label = ctypes.create_string_buffer(name.encode())
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        *[ctypes.c_int] * 4,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
    )(_PYUFUNC_FROM_FUNC_AND_DATA)
    made: Callable[..., Any] = make(
        ctypes.addressof(functions),
        ctypes.addressof(data),
        ctypes.addressof(types),
        1,
        len(characters) - 1,
        1,
        -1,
        ctypes.addressof(label),
        None,
        0,
    )
    _held.append((functions, data, types, label))
    return made
