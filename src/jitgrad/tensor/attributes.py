"""What a tensor of the imperative face knows of itself: whether it wants a gradient, the gradient, its data alone."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from jitgrad.core.capture import capture_of
from jitgrad.core.op import REGISTRY
from jitgrad.core.op import requires_grad as _requires_grad
from jitgrad.core.protocol import attribute, method
from jitgrad.core.tensor import Leaf, Tensor, Version, constant
from jitgrad.core.types import type_of
from jitgrad.core.writes import own
from jitgrad.errors import (
    GradientDtypeError,
    GradientShapeError,
    NoGraphError,
    NonLeafError,
    NonLeafGradWarning,
    RequiresGradDtypeError,
)
from jitgrad.ops.views import root
from jitgrad.tensor.graph import name_of

__all__ = ["is_leaf"]


def is_leaf(tensor: Tensor) -> bool:
    """Tell whether nothing recorded leads to a tensor."""
    tape = tensor._tape
    return tape is None or tensor._vid < 0 or tape.producer(tensor._vid) < 0


# -- requires_grad --------------------------------------------------------------------------------------------


def _get_requires_grad(self: Tensor) -> bool:
    """Whether operations on the tensor are recorded. Can be set on leaves."""
    return _requires_grad(self)


def _set_requires_grad(self: Tensor, wanted: bool) -> None:
    if not isinstance(wanted, bool):
        raise RuntimeError("requires_grad must be a bool")
    if not is_leaf(self):
        if not wanted:
            raise NonLeafError.requires_grad(op=name_of(self))
        return
    if wanted == _requires_grad(self):
        return
    if wanted:
        if not self._type.inexact:
            raise RequiresGradDtypeError.dtype(self.dtype)
        own(self).requires_grad = True
    elif self._leaf is not None:
        self._leaf.requires_grad = False
        _leave_tape(self)


def _leave_tape(leaf: Tensor) -> None:
    """Let what is recorded from now on with a leaf refer to a new value; the old one stays what it was."""
    leaf._tape = None
    leaf._vid = -1


attribute("requires_grad", _get_requires_grad, _set_requires_grad)


@method("requires_grad_")
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether operations on the tensor are recorded, and return it.

    Raises
    ------
    RequiresGradDtypeError
        If the tensor is boolean or integer.
    NonLeafError
        If a computed tensor is to stop requiring a gradient.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones(2).requires_grad_()
    tensor([1., 1.], requires_grad=True)
    """
    _set_requires_grad(self, requires_grad)
    return self


def _is_leaf(self: Tensor) -> bool:
    """Whether nothing recorded leads to the tensor: made by the user, or not requiring a gradient."""
    return is_leaf(self)


attribute("is_leaf", _is_leaf)


# -- the gradient ---------------------------------------------------------------------------------------------


def _get_grad(self: Tensor) -> Tensor | None:
    """The gradient that `backward` has accumulated; None if there is none."""
    leaf = self._leaf
    if leaf is not None and (leaf.grad is not None or leaf.requires_grad or leaf.retains_grad):
        return leaf.grad
    if not is_leaf(self):
        warnings.warn(NonLeafGradWarning.access(op=name_of(self)), stacklevel=2)
    return None


def _set_grad(self: Tensor, grad: Tensor | None) -> None:
    if grad is None:
        if self._leaf is not None:
            self._leaf.grad = None
        return
    if type(grad) is not Tensor:
        kind = type(grad)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {name}")
    if grad is self:
        raise RuntimeError("can't assign Variable as its own grad")
    if grad.shape != self.shape:
        raise GradientShapeError.assignment(grad.shape, self.shape)
    if grad.dtype != self.dtype:
        raise GradientDtypeError.assignment(grad.dtype, self.dtype)
    own(self).grad = grad


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


attribute("grad", _get_grad, _set_grad, _delete_grad)


@method("retain_grad")
def retain_grad(self: Tensor) -> None:
    """Have `backward` fill ``grad`` of this tensor, though it is no leaf. On a leaf, nothing changes.

    Raises
    ------
    NoGraphError
        If the tensor does not require a gradient.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.tensor(3.0, requires_grad=True)
    >>> y = 2 * x
    >>> y.retain_grad()
    >>> (y**2).backward()
    >>> y.grad
    tensor(12.)
    """
    if not _requires_grad(self):
        raise NoGraphError.retain_grad()
    if is_leaf(self):
        return
    tape = self._tape
    if tape is None or tape.handles is None:
        raise NoGraphError.traced()
    own(self).retains_grad = True
    if tape.retained is None:
        tape.retained = weakref.WeakValueDictionary()
    tape.retained[id(self)] = self


def _retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called on the tensor, and it is no leaf."""
    return self._leaf is not None and self._leaf.retains_grad


attribute("retains_grad", _retains_grad)


# -- the data alone -------------------------------------------------------------------------------------------


def _version(self: Tensor) -> int:
    """How often the tensor's memory has been written to in place."""
    return 0 if self._leaf is None else self._leaf.version.count


attribute("_version", _version)


@method("detach")
def detach(self: Tensor) -> Tensor:
    """Return a tensor with the same memory and no history.

    A write to it in place is a write to this one: a derivative that still needs the old values then raises.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> (x * 2).detach()
    tensor([2., 2.])
    """
    return _alone(self, own(root(self)).version)


def _alone(tensor: Tensor, version: Version) -> Tensor:
    """Return a tensor of the same memory that is on no tape."""
    if capture_of(tensor) is not None:
        stopped: Tensor = REGISTRY["stop_gradient"](tensor)
        return stopped
    own(tensor)
    alone = constant(tensor._value)
    alone._leaf = Leaf()
    alone._leaf.version = version
    return alone


@method("detach_")
def detach_(self: Tensor) -> Tensor:
    """Forget the tensor's history, and return it: a leaf that requires no gradient.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> y = x * 2
    >>> y.detach_().requires_grad
    False
    """
    if self._leaf is not None:
        self._leaf.requires_grad = False
        self._leaf.retains_grad = False
    _leave_tape(self)
    own(self)
    return self


def _get_data(self: Tensor) -> Tensor:
    """The same memory without history; writes to it go unnoticed by the graph. Assigning replaces the memory."""
    own(root(self))
    return _alone(self, Version(noticed=False))


def _set_data(self: Tensor, data: Any) -> None:
    if type(data) is not Tensor:
        kind = type(data)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(f"Variable data has to be a tensor, but got {name}")
    if not is_leaf(self):
        raise NonLeafError.data(op=name_of(self))
    if _requires_grad(self) and not data._type.inexact:
        raise RequiresGradDtypeError.data(data.dtype)
    own(self)
    self._value = data._value
    self._type = type_of(data._value)
    _leave_tape(self)


attribute("data", _get_data, _set_data)
