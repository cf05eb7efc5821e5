"""The one Tensor class: a value and its place on a tape.

Only the handle is here. Operators and methods are installed by the ops that answer for them
(`jitgrad.core.op.method`), the imperative face by `jitgrad.tensor`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.core import native
from jitgrad.core.types import ArrayType, array_type, type_of

if TYPE_CHECKING:
    from jitgrad.core.methods import Methods
    from jitgrad.core.tape import Tape
else:
    Methods = object

__all__ = ["Leaf", "Tensor", "Version", "constant", "on_tape"]


class Version:
    """How often some memory was written to in place, and which tensors stand on tapes for what is in it.

    Shared by the tensors that share the memory. Writes through ``Tensor.data`` go unnoticed.
    """

    __slots__ = ("count", "entered", "noticed")

    def __init__(self, count: int = 0, *, noticed: bool = True) -> None:
        self.count = count
        self.entered: list[weakref.ref[Tensor]] = []
        self.noticed = noticed

    def enter(self, tensor: Tensor) -> None:
        """Remember that a tensor has been given a value id, which the next write ends."""
        reference = weakref.ref(tensor)
        if all(other is not reference for other in self.entered):
            self.entered.append(reference)


class Leaf:
    """What a tensor of the imperative face has beyond a value: its gradient, and how it wants to be treated."""

    __slots__ = ("grad", "hooks", "requires_grad", "retains_grad", "version")

    def __init__(self) -> None:
        self.requires_grad = False
        self.grad: Tensor | None = None
        self.retains_grad = False
        self.hooks: dict[int, Callable[[Any], Any]] | None = None  # called with the gradient
        self.version = Version()


class Tensor(Methods):
    """An array that remembers how it was computed.

    Made by `jitgrad.tensor` and its kin, or by a transform around the arguments of the function that it traces. It
    behaves as a NumPy array in operators, methods, indexing and NumPy's functions; every operation on a tensor that
    needs a gradient is recorded on its tape.
    """

    # _vid: id of the value on _tape; -1 if it is not on one. A handle is rebound when it is written to.
    # _base, _views: the tensors that share its memory, see `jitgrad.ops.views`; unset where there are none.
    __slots__ = ("__weakref__", "_base", "_leaf", "_tape", "_type", "_value", "_vid", "_views")

    _value: np.ndarray[Any, Any]
    _type: ArrayType
    _tape: Tape | None
    _vid: int
    _leaf: Leaf | None
    _base: Any
    _views: list[weakref.ref[Tensor]]

    __array_priority__ = 1000.0

    def __new__(cls, *args: object, **kwargs: object) -> Tensor:
        """Refuse: tensors are made by functions."""
        raise TypeError("a Tensor is made by jitgrad.tensor(data), not by calling its class")

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._type.ndim

    def __reduce__(self) -> Any:
        """Pickle the value and whether it requires a gradient; a graph cannot be pickled."""
        from jitgrad.tensor.creation import tensor

        requires_grad = self._leaf is not None and self._leaf.requires_grad
        if self._tape is not None and not requires_grad:
            raise TypeError("a tensor with a graph cannot be pickled; detach() it first")
        return tensor, (self._value, self._value.dtype, requires_grad)


def sweep(views: list[weakref.ref[Tensor]]) -> None:
    """Drop dead references from the list of a tensor's views."""
    views[:] = [reference for reference in views if reference() is not None]


native.introduce_tensor(
    Tensor, (array_type((), np.dtype("float64")), array_type((), np.dtype("float32"))), type_of, sweep
)
_new = object.__new__


def on_tape(value: np.ndarray[Any, Any], tape: Tape, vid: int, kind: ArrayType | None = None) -> Tensor:
    """Return a handle of a value on a tape."""
    handle = _new(Tensor)
    handle._value = value
    handle._type = type_of(value) if kind is None else kind
    handle._tape = tape
    handle._vid = vid
    handle._leaf = None
    if tape.handles is not None:
        tape.handles[vid] = weakref.ref(handle)
    return handle


def constant(value: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor that is on no tape."""
    handle = _new(Tensor)
    handle._value = value
    handle._type = type_of(value)
    handle._tape = None
    handle._vid = -1
    handle._leaf = None
    return handle
