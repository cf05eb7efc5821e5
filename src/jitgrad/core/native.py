"""The native entry points as Python functions, and the addresses that they need of NumPy and CPython.

`jitgrad.kernels.entries` has their sources and says what each takes and returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath

from jitgrad.kernels import compile as compiler
from jitgrad.kernels import layout as L

__all__ = [
    "KERNELS",
    "append",
    "define",
    "elementwise",
    "give",
    "new_header",
    "propagate",
    "release",
    "reverse",
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
_PYUFUNC_FROM_FUNC_AND_DATA = _api_table(_multiarray_umath._UFUNC_API)[1]


def _check_layout() -> None:
    """Refuse to run where an array does not lie in memory as native code believes."""
    array = np.arange(6.0).reshape(2, 3)
    words = (ctypes.c_int64 * 7).from_address(id(array) + object.__basicsize__)
    seen = (words[0], words[1] & 0xFFFFFFFF, words[5], words[6] & 0x1)
    if seen != (array.ctypes.data, 2, id(array.dtype), 1):
        raise ImportError(
            f"jitgrad reads NumPy's arrays at the addresses of NumPy's stable ABI, and NumPy {np.__version__} on this "
            "interpreter lays them out otherwise. Please report this with the output of numpy.show_config()."
        )


_check_layout()


def _entry(name: str) -> Callable[..., Any]:
    def build() -> Callable[..., Any]:
        from jitgrad.kernels import entries

        function: Callable[..., Any] = getattr(entries, name)
        return function

    return compiler.builtin(name, compiler.address_of(f"entry_{name}", build, n_arguments=3, returns=True))


elementwise = _entry("elementwise")
append = _entry("append")
define = _entry("define")
view = _entry("view")
propagate = _entry("propagate")
release = _entry("release")
reverse = _entry("reverse")
give = _entry("give")
take = _entry("take")

# The kernel table, two lines an op (float64, float32). Its address stands in every tape's header, so it never
# moves; it is address space, not memory, until it is used.
MAX_OPS = 4096
KERNELS = np.zeros((2 * MAX_OPS, L.KERNEL_WIDTH), dtype=np.int64)


def new_header() -> np.ndarray[Any, Any]:
    """Return the header of an empty tape, without storage."""
    return _TEMPLATE.copy()


def _template() -> np.ndarray[Any, Any]:
    header = np.zeros(L.H_WIDTH, dtype=np.int64)
    header[L.H_KERNELS] = KERNELS.ctypes.data
    header[L.H_FLOAT64] = id(np.dtype(np.float64))
    header[L.H_FLOAT32] = id(np.dtype(np.float32))
    header[L.H_NDARRAY] = id(np.ndarray)
    header[L.H_NEW_ARRAY] = _PYARRAY_NEW
    return header


_TEMPLATE = _template()

_held: list[Any] = []  # NumPy keeps pointers to the tables that a ufunc was made of


def ufunc(name: str, n_inputs: int, loops: dict[str, int]) -> Callable[..., Any]:
    """Make a NumPy ufunc of one result from the addresses of inner loops, by dtype character ("f", "d")."""
    functions = (ctypes.c_void_p * len(loops))(*loops.values())
    data = (ctypes.c_void_p * len(loops))()
    types = (ctypes.c_char * (len(loops) * (n_inputs + 1)))(
        *[np.dtype(character).num for character in loops for _ in range(n_inputs + 1)]
    )
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
        len(loops),
        n_inputs,
        1,
        -1,
        ctypes.addressof(label),
        None,
        0,
    )
    _held.append((functions, data, types, label))
    return made
