"""From a Python function to the address of native code: Numba compiles, LLVM emits, the cache remembers.

Object code is emitted from the LLVM module that Numba has optimised, and is loaded by llvmlite alone; so only
a cache miss imports Numba.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from jitgrad.kernels import cache

__all__ = ["address_of", "address_of_code", "assembly_of", "builtin", "emitted"]

_lock = threading.RLock()
_addresses: dict[str, int] = {}


@functools.cache
def _engine() -> tuple[Any, Any]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=3,
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        codemodel="jitdefault",
        jit=True,
    )
    return machine, llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _module(name: str, function: Callable[..., Any], signature: Any) -> Any:
    """LLVM's module of a compiled function, whose one external symbol is ``name``."""
    from numba import cfunc

    compiled = cfunc(signature, nopython=True, error_model="numpy", fastmath={"contract"})(function)
    module = llvm.parse_assembly(compiled.inspect_llvm().replace(" noinline ", " nounwind "))
    for symbol in [*module.functions, *module.global_variables]:
        if symbol.name == compiled.native_name:
            symbol.name = name
        elif not symbol.is_declaration:
            symbol.linkage = "internal"  # Numba's names repeat from one process to the next
    return module


def _optimise(module: Any) -> None:
    machine, _ = _engine()
    # now that LLVM sees the whole, it can prove that no exception is raised and drop Numba's handling of it
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    pipeline = llvm.create_pass_builder(machine, options)
    pipeline.getModulePassManager().run(module, pipeline)


def emitted(module: Any) -> bytes:
    """Return the object code of a module."""
    _optimise(module)
    for symbol in module.functions:
        if symbol.is_declaration and symbol.name.startswith(("numba_", "NRT_")):
            raise RuntimeError(f"a kernel calls {symbol.name}, which only Numba's runtime has")
    machine, _ = _engine()
    code: bytes = machine.emit_object(module)
    return code


def assembly_of(name: str, build: Callable[[], Callable[..., Any]], letters: str) -> str:
    """The assembly of a scalar function called ``name``, from the cache or compiled from ``build()``.

    ``letters`` are the dtypes of its arguments and of its result: d, f or ?. Its symbol is ``name`` up to the last _.
    """
    with _lock:
        text = cache.load(f"scalar_{name}")
        if text is None:
            from numba import types

            kinds = {"d": types.float64, "f": types.float32, "?": types.boolean}
            *arguments, result = [kinds[letter] for letter in letters]
            module = _module(name.rpartition("_")[0], build(), result(*arguments))
            _optimise(module)
            text = str(module).encode()
            cache.store(f"scalar_{name}", text)
        return text.decode()


def _emit(name: str, function: Callable[..., Any], n_arguments: int, returns: bool) -> bytes:
    """Object code with the one external symbol ``name``; all arguments and the result are int64."""
    from numba import types

    result = types.int64 if returns else types.void
    return emitted(_module(name, function, result(*[types.int64] * n_arguments)))


def address_of(name: str, build: Callable[[], Callable[..., Any]], n_arguments: int = 4, returns: bool = False) -> int:
    """The address of the native code called ``name``, compiled from ``build()`` if no cache has it.

    Parameters
    ----------
    name : str
        Symbol and file name. It must contain a fingerprint of what is compiled.
    build : callable
        Returns the Python function to compile, of ``n_arguments`` int64 arguments. Called on a cache miss only.
    n_arguments : int
        Defaults to the four of NumPy's inner loops.
    returns : bool
        Whether the function returns an int64, or nothing.
    """
    return address_of_code(name, lambda: _emit(name, build(), n_arguments, returns))


def address_of_code(name: str, make: Callable[[], bytes]) -> int:
    """The address of the symbol ``name`` in object code, from the cache or from ``make()``."""
    with _lock:
        if name in _addresses:
            return _addresses[name]
        _, engine = _engine()
        code = cache.load(name)
        if code is None:
            code = make()
            cache.store(name, code)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address: int = engine.get_function_address(name)
        if not address:
            raise RuntimeError(f"the cached kernel {name} in {cache.folder()} has no such symbol; clear the folder")
        _addresses[name] = address
        return address


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80
_METH_KEYWORDS = 0x02
_definitions: list[_MethodDef] = []  # CPython keeps a pointer to each


def builtin(
    name: str, address: int, context: object, doc: str | None = None, *, keywords: bool = False
) -> Callable[..., Any]:
    """Make a built-in function of native code of the signature ``PyObject *(PyObject *, PyObject **, Py_ssize_t)``.

    With ``keywords`` it has one argument more, the tuple of the names of the last arguments, or 0.

    A call costs a third of one through Numba's dispatcher, and a twentieth of reading an array's address in
    Python: native code gets the objects themselves. ``context`` is its first argument.
    """
    text = None if doc is None else doc.encode()
    flags = _METH_FASTCALL | (_METH_KEYWORDS if keywords else 0)
    definition = _MethodDef(name.encode(), address, flags, text)
    _definitions.append(definition)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = new(ctypes.addressof(definition), context, None)
    return made
