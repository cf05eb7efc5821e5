"""PyTorch's names for what NumPy calls otherwise: `view`, `numel`, `clone`, `add_` and its kin."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.op import NAMESPACE, REGISTRY
from jitgrad.core.protocol import method
from jitgrad.core.tensor import Tensor
from jitgrad.core.writes import own
from jitgrad.errors import ShapeError, ViewError
from jitgrad.ops import writing
from jitgrad.ops.shaping import clone, reshape_op
from jitgrad.ops.views import view as linked_view

__all__ = ["view", "view_as"]

# -- shape ----------------------------------------------------------------------------------------------------


def _lengths(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if not shape:
        raise TypeError("view() received an invalid combination of arguments: give the lengths, as ints or a tuple")
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    return tuple(map(operator.index, lengths))


def _resolved(shape: tuple[int, ...], target: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Work out the length that is left open as -1."""
    if any(n < -1 for n in target):
        raise ViewError.negative(target)
    if target.count(-1) > 1:
        raise ViewError.several_inferred(target)
    known = 1
    for n in target:
        known *= 1 if n == -1 else n
    if -1 in target:
        if known == 0 and size == 0:
            raise ViewError.ambiguous(target)
        if known == 0 or size % known:
            raise ViewError.size(shape, target)
        return tuple([size // known if n == -1 else n for n in target])
    if known != size:
        raise ViewError.size(shape, target)
    return target


@method("view")
def view(self: Tensor, *shape: Any) -> Tensor:
    """Return a tensor of another shape that shares the memory.

    Parameters
    ----------
    *shape : int or sequence of int
        The lengths, as separate arguments or as one sequence. One may be -1: then it is what is left.

    Raises
    ------
    ViewError
        If the number of elements differs, or if it would take a copy, which `reshape` makes.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    lengths = _lengths(shape)
    target = _resolved(self.shape, lengths, self._type.size)
    out = self._value.reshape(target)
    if out.size and not np.may_share_memory(out, self._value):
        raise ViewError.stride(self.shape, lengths)
    return linked_view(reshape_op, self, out, {"shape": target})


@method("view_as")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """Return a tensor that shares the memory, in the shape of another.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.arange(4).view_as(jg.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return view(self, other.shape)


@method("numel", "nelement")
def _numel(self: Tensor) -> int:
    """Return the number of elements."""
    return self._type.size


@method("dim", "ndimension")
def _dim(self: Tensor) -> int:
    """Return the number of axes."""
    return self._type.ndim


@method("clone")
def _clone(self: Tensor) -> Tensor:
    """Return a copy, through which gradients flow.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> x.clone()
    tensor([1., 1.], grad_fn=<CloneBackward0>)
    """
    copied: Tensor = clone(self)
    own(copied)
    return copied


# -- functions as methods -------------------------------------------------------------------------------------

_FUNCTIONS = """
abs acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cbrt ceil
cos cosh divide dot exp exp2 expm1 floor hypot log log10 log1p log2 logaddexp matmul maximum minimum multiply
negative outer pow power reciprocal remainder sign sin sinc sinh sqrt square subtract tan tanh tril triu trunc
where
"""


def _install_functions() -> None:
    """Let ``x.exp()`` be ``exp(x)``, where the ops have not installed a method of their own."""
    for name in _FUNCTIONS.split():
        function = NAMESPACE.get(name)
        if function is not None and name not in vars(Tensor):
            method(name)(function)


_install_functions()


# -- in place -------------------------------------------------------------------------------------------------


def _in_place(name: str, op: str) -> None:
    function = REGISTRY[op]

    def write(self: Tensor, other: Any) -> Tensor:
        return writing.replace(self, function(self, other), name)

    write.__name__ = name
    write.__doc__ = f"Write the result of `{op}` with ``other`` to this tensor, and return it."
    method(name)(write)


for _name, _op in (
    ("add_", "add"),
    ("sub_", "subtract"),
    ("mul_", "multiply"),
    ("div_", "divide"),
    ("pow_", "power"),
):
    _in_place(_name, _op)


def _unary_in_place(name: str, op: str) -> None:
    function = REGISTRY[op]

    def write(self: Tensor) -> Tensor:
        return writing.replace(self, function(self), name)

    write.__name__ = name
    write.__doc__ = f"Write the result of `{op}` to this tensor, and return it."
    method(name)(write)


for _name, _op in (
    ("abs_", "absolute"),
    ("cos_", "cos"),
    ("exp_", "exp"),
    ("log_", "log"),
    ("neg_", "negative"),
    ("reciprocal_", "reciprocal"),
    ("sin_", "sin"),
    ("sqrt_", "sqrt"),
    ("square_", "square"),
    ("tanh_", "tanh"),
):
    _unary_in_place(_name, _op)


@method("zero_")
def zero_(self: Tensor) -> Tensor:
    """Write zeros to this tensor, and return it.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones(2).zero_()
    tensor([0., 0.])
    """
    return fill_(self, 0)


@method("fill_")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Write one value, a number or a tensor without axes, to this tensor, and return it.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones(2).fill_(3)
    tensor([3., 3.])
    """
    if np.ndim(value):
        raise ShapeError.operands("fill_", "a value without axes", np.shape(value))
    return copy_(self, value)


@method("copy_")
def copy_(self: Tensor, source: Any) -> Tensor:
    """Write the elements of another tensor or array, broadcast and converted, to this tensor, and return it.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones(2, dtype=int).copy_(jg.tensor([1.7, 2.7]))
    tensor([1, 2])
    """
    source = source if type(source) is Tensor else np.asarray(source)
    shape: tuple[int, ...] = source.shape
    own_shape = self.shape
    try:
        common = np.broadcast_shapes(own_shape, shape)
    except ValueError:
        raise ShapeError.broadcast("copy_", own_shape, shape) from None
    if common != own_shape:
        raise ShapeError.inplace("copy_", own_shape, common)
    writing.setitem(self, ..., source.astype(self.dtype, copy=False))
    return self
