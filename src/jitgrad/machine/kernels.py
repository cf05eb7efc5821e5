"""The addresses of what a plan calls: kernels beside the elementwise ones, the walking loop, and BLAS."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import native
from jitgrad.kernels import cache
from jitgrad.kernels import compile as compiler

__all__ = ["ENTRIES", "address_of", "call_address", "entry", "gemm_routine"]

ENTRIES = ("add_up", "bind", "part", "replay")
_NAMES = {np.dtype(np.float64): "f8", np.dtype(np.float32): "f4"}


def _sources() -> str:
    return cache.sources("rows", "entries")


@functools.cache
def address_of(name: str, dtype: np.dtype[Any] | None = None) -> int:
    """Return the address of a kernel of `jitgrad.kernels.rows`."""
    full = name if dtype is None else f"{name}_{_NAMES[dtype]}"

    def build() -> Callable[..., Any]:
        from jitgrad.kernels import rows

        kernel: Callable[..., Any] = rows.KERNELS[full]()
        return kernel

    return compiler.address_of(f"row_{full}_{_sources()}", build)


@functools.cache
def entry(name: str) -> Callable[..., Any]:
    """Return one of `ENTRIES` of `jitgrad.kernels.rows` as a function."""

    def build() -> Callable[..., Any]:
        from jitgrad.kernels import rows

        function: Callable[..., Any] = getattr(rows, name)
        return function

    address = compiler.address_of(f"entry_{name}_{_sources()}", build, n_arguments=3, returns=True)
    return compiler.builtin(name, address, native.PROCESS)


@functools.cache
def call_address() -> int:
    """Return the address of the function that a compiled function is."""

    def build() -> Callable[..., Any]:
        from jitgrad.kernels import calls

        return calls.call

    return compiler.address_of(f"entry_call_{cache.sources('rows', 'calls', 'entries')}", build, 4, returns=True)


@functools.cache
def gemm_routine(dtype: np.dtype[Any]) -> int:
    """Return the address of SciPy's matrix product of a dtype."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__["dgemm" if dtype.itemsize == 8 else "sgemm"]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer(capsule, name(capsule))
    return address
