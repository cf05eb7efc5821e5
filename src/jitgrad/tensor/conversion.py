"""A tensor as something else: a Python number, a NumPy array, a text, a copy."""

from __future__ import annotations

import copy
import dis
import functools
import sys
import warnings
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from jitgrad.core import trace
from jitgrad.core.capture import capture_of, observe
from jitgrad.core.location import resolve
from jitgrad.core.op import FUNCTIONS, NAMESPACE, OPS, requires_grad
from jitgrad.core.protocol import method
from jitgrad.core.tensor import Tensor
from jitgrad.errors import DtypeError, ItemError, NonLeafError, NumpyConversionError, ScalarConversionWarning
from jitgrad.kernels import layout as L
from jitgrad.ops.casting import alias, astype
from jitgrad.tensor.attributes import is_leaf
from jitgrad.tensor.creation import make
from jitgrad.tensor.graph import name_of
from jitgrad.tensor.printing import format_tensor

__all__ = ["item", "numpy", "tolist"]

# -- Python's numbers -----------------------------------------------------------------------------------------


@method("item")
def item(self: Tensor) -> Any:
    """Return the one element of the tensor as a Python number.

    Raises
    ------
    ItemError
        If the tensor has not one element.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.tensor([2.5]).item()
    2.5
    """
    if self._type.size != 1:
        raise ItemError.scalar(self.shape)
    return observe(self).item()


@method("tolist")
def tolist(self: Tensor) -> Any:
    """Return the elements as nested lists of Python numbers.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.arange(3).tolist()
    [0, 1, 2]
    """
    return observe(self).tolist()


@method("__bool__")
def _bool(self: Tensor) -> bool:
    if self._type.size != 1:
        raise ItemError.truth(self.shape)
    if capture_of(self) is not None and self.dtype != np.bool_:
        return bool(observe(FUNCTIONS[np.not_equal](self, 0)))  # what is looked at is no more than that
    return bool(observe(self).item())


_STORE = dis.opmap["STORE_SUBSCR"]


def _varies(tensor: Tensor) -> bool:
    """Tell whether a derivative is wanted of what a tensor is computed from."""
    tape = tensor._tape
    if tape is None or tape.capture is None:
        return requires_grad(tensor)
    if not tape.locked:  # no transform inside the compiled function
        return False
    waiting, seen = [tensor._vid], set()
    while waiting:
        at = tape.producer(waiting.pop())
        if at < 0 or at in seen:
            continue
        seen.add(at)
        row = tape.row(at)
        op = OPS[row[L.ROW_KERNEL] >> 1]
        if op is alias:  # what a transform differentiates by
            return True
        operands = tape.operands_of(row)
        waiting.extend(value for k, value in enumerate(operands) if value >= 0 and op.rule_of(k) is not None)
    return False


@functools.lru_cache(maxsize=1024)
def _called(code: CodeType, offset: int) -> str | None:
    """Return the name of the function that an instruction calls: the last name loaded from where the call begins."""
    names: dict[Any, str] = {}
    for instruction in dis.get_instructions(code):
        positions = instruction.positions
        start = None if positions is None else (positions.lineno, positions.col_offset)
        if instruction.offset == offset:
            # 3.11 may make the call in the PRECALL before it
            return names.get(start) if instruction.opname.startswith(("CALL", "PRECALL")) else None
        if instruction.opname.startswith("LOAD") and isinstance(instruction.argval, str):
            names[start] = instruction.argval
    return None


def _check_conversion(self: Tensor, kind: type) -> None:
    """Refuse or warn, if the number that the caller is about to make of a tensor ends a gradient.

    ``array[i] = tensor`` is refused: the array can hold nothing else. Of the rest, ``math.sin(x)``, whose derivative
    would be zero without a word, looks the same from here as ``while float(error) > 1e-6``, which is as it should be.
    What cannot but be meant says nothing: comparisons, `bool`, `int`, and `item`.
    """
    if not (trace.grad_enabled() and requires_grad(self)):
        return
    frame = sys._getframe(2)
    if frame.f_code.co_code[frame.f_lasti] == _STORE:
        where = resolve(frame.f_code, frame.f_lasti)
        raise NumpyConversionError.element(op=name_of(self), where=(where.file, where.line))
    if kind is not int and _varies(self):
        function = _called(frame.f_code, frame.f_lasti)
        if function is not None and not (function in NAMESPACE and hasattr(np, function)):
            function = None
        warnings.warn(ScalarConversionWarning.value(op=name_of(self), function=function), stacklevel=3)


@method("__float__")
def _float(self: Tensor) -> float:
    _check_conversion(self, float)
    return float(item(self))


@method("__int__")
def _int(self: Tensor) -> int:
    _check_conversion(self, int)
    if capture_of(self) is not None and self.dtype.kind == "f" and np.abs(self._value) < 2**62:
        return int(item(astype(self, np.int64)))  # what is looked at is no more than that
    return int(item(self))


@method("__complex__")
def _complex(self: Tensor) -> complex:
    _check_conversion(self, complex)
    return complex(item(self))


@method("__index__")
def _index(self: Tensor) -> int:
    if self._type.size != 1 or self.dtype.kind not in "biu":
        raise DtypeError.index(self.dtype, self.shape)
    return int(observe(self).item())


# -- arrays ---------------------------------------------------------------------------------------------------


@method("numpy")
def numpy(self: Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """Return the tensor's memory as a NumPy array.

    Parameters
    ----------
    force : bool, optional
        Return it even if the tensor requires a gradient, which then does not flow through what is done to the array.

    Raises
    ------
    NumpyConversionError
        If the tensor requires a gradient, and recording is on.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones(2).numpy()
    array([1., 1.])
    """
    if not force and trace.grad_enabled() and requires_grad(self):
        raise NumpyConversionError.numpy(op=name_of(self))
    return self._value


@method("__array__")
def _array(self: Tensor, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
    if trace.grad_enabled() and requires_grad(self):
        raise NumpyConversionError.element(op=name_of(self))
    return np.array(self._value, dtype=dtype, copy=copy)


# -- other dtypes ---------------------------------------------------------------------------------------------

_DTYPES: dict[str, type] = {
    "double": np.float64,
    "float": np.float32,
    "half": np.float16,
    "long": np.int64,
    "int": np.int32,
    "short": np.int16,
    "bool": np.bool_,
    "cdouble": np.complex128,
    "cfloat": np.complex64,
}


def _converter(name: str, dtype: type) -> None:
    def convert(self: Tensor) -> Tensor:
        return self.astype(dtype, copy=False)

    convert.__name__ = name
    convert.__doc__ = f"Return the tensor in dtype {np.dtype(dtype)}: itself, if that is its dtype."
    method(name)(convert)


for _name, _dtype in _DTYPES.items():
    _converter(_name, _dtype)


@method("to", "type")
def to(self: Tensor, dtype: npt.DTypeLike | None) -> Tensor:
    """Return the tensor in another dtype; itself, if that is its dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.ones(1).to(np.float32)
    tensor([1.], dtype=float32)
    """
    return self.astype(dtype, copy=False)


# -- texts and copies -----------------------------------------------------------------------------------------


@method("__repr__")
def _repr(self: Tensor) -> str:
    return format_tensor(self._value, requires_grad=requires_grad(self), grad_fn=name_of(self))


@method("__format__")
def _format(self: Tensor, spec: str) -> str:
    if self._type.ndim == 0:
        return format(self._value.item(), spec)
    return object.__format__(self, spec)


@method("__deepcopy__")
def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not is_leaf(self):
        raise NonLeafError.deepcopy(op=name_of(self))
    copied = make(self._value.copy(), requires_grad(self))
    memo[id(self)] = copied
    if self._leaf is not None and self._leaf.grad is not None and copied._leaf is not None:
        copied._leaf.grad = copy.deepcopy(self._leaf.grad, memo)
    return copied


# Tensors are equal element by element, but each is itself, as a key.
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
