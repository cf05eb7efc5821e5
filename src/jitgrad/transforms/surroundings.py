"""What a function reads beside its arguments: closed-over values, globals, and attributes of them.

A compiled function is good for as long as these are what they were. They are found in the function's code, and in
that of the user's functions that it calls; what it reads in other ways (`getattr`, attributes of attributes of
arguments) is not seen.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import optree

from jitgrad.core.tensor import Tensor
from jitgrad.transforms.trace import NAMESPACE

__all__ = ["Surroundings"]

Array = np.ndarray[Any, Any]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
_LIBRARIES = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")})
_OURS = str(Path(__file__).resolve().parent.parent)
_MISSING = object()

Chain = tuple[str, str, tuple[str, ...]]  # "global" or "cell", the name, the attributes that follow


@functools.cache
def _is_library(file: str | None) -> bool:
    if file is None or file.startswith("<frozen"):
        return True
    path = str(Path(file).resolve()) if not file.startswith("<") else file
    return path.startswith(_LIBRARIES) or path.startswith(_OURS)


@functools.cache
def _chains(code: CodeType) -> frozenset[Chain]:
    """Return what a code object, and those inside it, read from outside."""
    found: set[Chain] = set()
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    start: tuple[str, str] | None = None
    attributes: list[str] = []

    def end() -> None:
        if start is not None:
            found.add((*start, tuple(attributes)))

    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD") and start is not None:
            attributes.append(str(instruction.argval))
            continue
        if name in ("PRECALL", "PUSH_NULL", "CACHE", "NOP", "COPY_FREE_VARS", "RESUME"):
            continue
        end()
        start = None
        attributes = []
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            start = ("global", str(instruction.argval))
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            start = ("cell", str(instruction.argval))
        elif "LOAD_FAST" in name:
            # Python 3.13 loads two in one instruction, or stores one and loads another
            several = type(instruction.argval) is tuple
            loaded = instruction.argval if several else (instruction.argval,)
            if several and not name.startswith("STORE") and loaded[0] in arguments:
                found.add(("argument", loaded[0], ()))
            if loaded[-1] in arguments:
                start = ("argument", loaded[-1])
    end()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= {chain for chain in _chains(constant) if chain[0] != "argument"}
    return frozenset(found)


@functools.cache
def _literals(code: CodeType) -> frozenset[float]:
    """Return the floats that stand in a code object and in those inside it."""
    found = {constant for constant in code.co_consts if type(constant) is float}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _literals(constant)
    return frozenset(found)


class _Check:
    """One thing that was read: where it is found, and what it was."""

    __slots__ = ("fetch", "holder", "name", "seen")

    def __init__(self, name: str, fetch: Callable[[], Any], seen: Any, holder: tuple[Any, Any] | None) -> None:
        self.name = name
        self.fetch = fetch
        self.seen = seen
        self.holder = holder  # a dict and a key, or a cell and None, where it stands in one


def _same(seen: Any, now: Any) -> bool:
    """Tell whether a value that was read is what it was; arrays by identity."""
    if seen is now:
        return True
    if type(seen) is not type(now):
        return False
    if isinstance(seen, MethodType):
        return seen.__func__ is now.__func__ and seen.__self__ is now.__self__
    if isinstance(seen, _PLAIN):
        return bool(seen == now) or (seen != seen and now != now)
    return False


class Surroundings:
    """What a function read when it was traced.

    Parameters
    ----------
    f : callable
        The function.
    args : tuple
        Its positional arguments, where they are known: the attributes of objects among them are looked at.
    kwargs : mapping
        Its arguments by name.
    """

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.checks: list[_Check] = []
        self.containers: list[tuple[str, Any, list[Any], Any]] = []  # name, container, leaves, structure
        self.tensors: list[tuple[Tensor, Array]] = []
        self.arrays: dict[int, Array] = {}  # by id
        self.numbers: set[float] = set()  # that stand in the code, or were read
        self._visited: set[int] = set()
        self._function(f, args, kwargs)

    def _function(self, f: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = MappingProxyType({})) -> None:
        if id(f) in self._visited:
            return
        self._visited.add(id(f))
        if isinstance(f, functools.partial):
            self._value("a partial argument", f.args)
            self._value("a partial argument", f.keywords)
            self._function(f.func, (*f.args, *args), {**f.keywords, **kwargs})
            return
        if isinstance(f, MethodType):
            args, f = (f.__self__, *args), f.__func__
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            self._function(wrapped, args, kwargs)
        if not isinstance(f, FunctionType):
            called = inspect.getattr_static(type(f), "__call__", None)
            if isinstance(called, FunctionType) and not _is_library(called.__code__.co_filename):
                self._code(called, (f, *args), kwargs)
            return
        if _is_library(f.__code__.co_filename):  # it may have been made around a function of the user's
            for cell in f.__closure__ or ():
                if callable(held := _contents(cell)):
                    self._function(held)
            return
        self._value(f"a default of {f.__qualname__}", f.__defaults__)
        self._value(f"a default of {f.__qualname__}", f.__kwdefaults__)
        self._code(f, args, kwargs)

    def _code(self, f: FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.numbers.update(_literals(f.__code__))
        given = {**dict(zip(f.__code__.co_varnames[: f.__code__.co_argcount], args, strict=False)), **kwargs}
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        for kind, name, attributes in sorted(_chains(f.__code__)):
            holder: tuple[Any, Any] | None = None
            if kind == "global":
                holder = f.__globals__, name
                fetch = functools.partial(f.__globals__.get, name, _MISSING)
            elif kind == "cell" and name in cells:
                holder = cells[name], None
                fetch = functools.partial(_contents, cells[name])
            # an argument, or, in a cell, one that a function inside this one reads, too
            elif name not in given or isinstance(given[name], (Tensor, np.ndarray, *_PLAIN)):
                continue
            else:
                fetch = functools.partial(_itself, given[name])
            self._chain(name, fetch, attributes, holder)

    def _chain(
        self, name: str, fetch: Callable[[], Any], attributes: tuple[str, ...], holder: tuple[Any, Any] | None
    ) -> None:
        value = fetch()
        if value is _MISSING:
            return
        self._look(name, fetch, value, holder)
        for attribute in attributes:
            if isinstance(value, ModuleType) and _is_library(getattr(value, "__file__", None)):
                return
            if isinstance(value, (np.ndarray, Tensor, *_PLAIN, type)) or not _is_stored(value, attribute):
                return
            fetch = functools.partial(_attribute, fetch, attribute)
            name = f"{name}.{attribute}"
            value = fetch()
            self._look(name, fetch, value, None)

    def _look(self, name: str, fetch: Callable[[], Any], value: Any, holder: tuple[Any, Any] | None) -> None:
        if isinstance(value, ModuleType):
            return
        self.checks.append(_Check(name, fetch, value, holder))
        self._value(name, value)

    def _value(self, name: str, value: Any) -> None:
        """Remember what is in a value that may change without being replaced."""
        if type(value) is np.ndarray:
            self.arrays[id(value)] = value
        elif type(value) is float:
            self.numbers.add(value)
        elif type(value) is Tensor:
            self.tensors.append((value, value._value))
            self.arrays[id(value._value)] = value._value
        elif callable(value):
            self._function(value)
        elif isinstance(value, (list, dict, tuple, set)) and id(value) not in self._visited:
            self._visited.add(id(value))
            leaves, spec = _flat(value)
            self.containers.append((name, value, leaves, spec))
            for leaf in leaves:
                self._value(name, leaf)

    def by_identity(self) -> list[tuple[Any, Any, Any]] | None:
        """Return ``(holder, key, seen)`` for all that was read, if to compare objects is all that is to be done."""
        if self.tensors or self.containers or any(check.holder is None for check in self.checks):
            return None
        return [(*check.holder, check.seen) for check in self.checks if check.holder is not None]

    def changed(self) -> str | None:
        """Return the name of something that is not what it was, or None."""
        for check in self.checks:
            now = check.fetch()
            if now is not check.seen:
                if not _same(check.seen, now):
                    return check.name
                check.seen = now
        for tensor, array in self.tensors:
            if tensor._value is not array:
                return "a tensor"
        for name, container, leaves, spec in self.containers:
            now_leaves, now_spec = _flat(container)
            if now_spec != spec or not all(map(_same, leaves, now_leaves)):
                return name
        return None


def _flat(container: Any) -> tuple[list[Any], Any]:
    if isinstance(container, set):
        return [], frozenset(container)
    leaves, spec = optree.tree_flatten(container, none_is_leaf=True, namespace=NAMESPACE)
    return leaves, spec


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _itself(value: Any) -> Any:
    return value


def _attribute(fetch: Callable[[], Any], name: str) -> Any:
    return getattr(fetch(), name, _MISSING)


def _is_stored(value: Any, attribute: str) -> bool:
    """Tell whether an attribute is just a value that is stored: reading it runs none of the user's code."""
    found = inspect.getattr_static(value, attribute, _MISSING)
    if found is _MISSING:
        return False
    kind = type(found)
    return not hasattr(kind, "__get__") or isinstance(found, FunctionType) or _is_slot(found)


def _is_slot(found: Any) -> bool:
    return inspect.ismemberdescriptor(found)
