"""Write `jitgrad/core/methods.pyi`, which tells type checkers what the ops and the imperative face install on `Tensor`.

Run it when methods have changed: ``python tools/stub.py``. A test compares the file with what this makes.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import jitgrad
from jitgrad.core.op import REGISTRY
from jitgrad.core.tensor import Tensor

STUB = Path(jitgrad.__file__).parent / "core" / "methods.pyi"

_HEADER = '''"""What is installed on `Tensor`, for type checkers. Written by tools/stub.py: do not edit."""

import builtins
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jitgrad.core.tensor import Tensor
from jitgrad.tensor.graph import Node
from jitgrad.tensor.hooks import Hook, RemovableHandle

class Methods:
'''
# NumPy's stubs would take a class that has it for an array, and `array @ tensor` for one, too.
# In place, ** is declared by __pow__: they differ in a third operand, which only pow() gives.
_LEFT_OUT = {"__array__", "__ipow__"}
_BY_INDEX = {
    "__getitem__": "(self, index: Any, /) -> Tensor",
    "__setitem__": "(self, index: Any, value: Any, /) -> None",
}
_IGNORED = {"__eq__": "override", "__ne__": "override"}  # elementwise: tensors, where object says bool
_SHADOWED = re.compile(r"\b(bool|complex|float|int|str|type)\b")  # by methods of these names


def _annotation(text: Any, of_op: bool) -> str:
    """Return an annotation; a function of an op that may return anything returns tensors for tensors."""
    if text is inspect.Parameter.empty:
        return "Any"
    text = re.sub(r"\bAny\b", "Tensor", str(text)) if of_op else str(text)
    return re.sub(r"\bArray\b", "npt.NDArray[Any]", _SHADOWED.sub(r"builtins.\1", text))


def _signature(function: Any) -> str:
    of_op = function.__module__.startswith("jitgrad.ops")
    signature = inspect.signature(function)
    parts: list[str] = []
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    for place, parameter in enumerate(signature.parameters.values()):
        if parameter.name.startswith("_") and parameter.kind is parameter.KEYWORD_ONLY:
            continue
        if place and parameter.kind is not kinds[place - 1]:
            if kinds[place - 1] is parameter.POSITIONAL_ONLY:
                parts.append("/")
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.VAR_POSITIONAL not in kinds:
                parts.append("*")
        if not place and parameter.kind is not parameter.VAR_POSITIONAL:
            parts.append("self")
            continue
        if not place:
            parts.append("self")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else " = ..."
        parts.append(f"{stars}{parameter.name}: {_annotation(parameter.annotation, False)}{default}")
    if kinds[-1] is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return f"({', '.join(parts)}) -> {_annotation(signature.return_annotation, of_op)}"


def _native(function: Any) -> str:
    """The signature of a built-in function, which is an op's, or the same with its operands exchanged."""
    op = REGISTRY.get(function.__name__) or REGISTRY[function.__name__.removeprefix("r")]
    others = [f"{name}: Any" for name in (op.operands or ())[1:]]
    return f"({', '.join(['self', *others, '/'])}) -> Tensor"


def _declared(name: str, member: Any) -> list[str]:
    if isinstance(member, property):
        lines = ["@property", f"def {name}{_signature(member.fget)}: ..."]
        if member.fset is not None:
            lines += [f"@{name}.setter", f"def {name}(self, value: Any, /) -> None: ..."]
        return lines
    function = getattr(member, "__func__", member)
    if name in _BY_INDEX:
        return [f"def {name}{_BY_INDEX[name]}: ..."]
    signature = _signature(function) if inspect.isfunction(function) else _native(function)
    ignored = f"  # type: ignore[{_IGNORED[name]}]" if name in _IGNORED else ""
    return [f"def {name}{signature}: ...{ignored}"]


def text() -> str:
    """Return what the file should be."""
    lines: list[str] = []
    source = Path(inspect.getfile(Tensor)).name
    for name, member in sorted(vars(Tensor).items()):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not callable(function) or name in _LEFT_OUT:
            continue
        if hasattr(function, "__code__") and Path(function.__code__.co_filename).name == source:
            continue
        comparison = name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
        if hasattr(object, name) and not comparison:
            continue
        lines += _declared(name, member)
    return _HEADER + "".join(f"    {line}\n" for line in lines)


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
