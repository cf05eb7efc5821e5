"""Comparisons, logic and tests of single elements: results that do not vary with their operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.protocol import answers, discrete, method, plain
from jitgrad.core.tensor import Tensor, constant

__all__ = ["elementwise_discrete"]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(item) for item in value)
    return type(value) is Tensor


def elementwise_discrete(*numpy_functions: Callable[..., Any]) -> None:
    """Say of NumPy functions that their results do not vary: of tensors they are tensors on no tape."""
    for numpy_function in numpy_functions:

        def function(*args: Any, _numpy: Callable[..., Any] = numpy_function, **kwargs: Any) -> Any:
            if not any(_holds_tensor(value) for value in (*args, *kwargs.values())):
                return _numpy(*args, **kwargs)
            if "out" in kwargs or "where" in kwargs:
                raise TypeError(
                    f"numpy.{_numpy.__name__} of a Tensor takes no out= and no where=: the results of "
                    "operations on tensors are new tensors, over all elements"
                )
            return constant(np.asarray(_numpy(*plain(args), **plain(kwargs))))

        function.__name__ = numpy_function.__name__
        function.__doc__ = numpy_function.__doc__
        answers(numpy_function)(function)


elementwise_discrete(
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.logical_not,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.invert,
    np.left_shift,
    np.right_shift,
    np.gcd,
    np.lcm,
    np.isnan,
    np.isinf,
    np.isfinite,
    np.isneginf,
    np.isposinf,
    np.signbit,
    np.isreal,
    np.iscomplex,
    np.isclose,
)
discrete(np.allclose, np.array_equal, np.array_equiv, np.isrealobj, np.iscomplexobj, np.isscalar)


def _install(name: str, function: Callable[..., Any]) -> None:
    """Install a Python operator that gives tensors on no tape."""

    def compare(self: Tensor, other: Any) -> Tensor:
        return constant(np.asarray(function(self._value, other._value if type(other) is Tensor else other)))

    def reflected(self: Tensor, other: Any) -> Tensor:
        return constant(np.asarray(function(other, self._value)))

    compare.__name__ = f"__{name}__"
    method(compare.__name__)(compare)
    if name in ("and", "or", "xor", "lshift", "rshift"):
        reflected.__name__ = f"__r{name}__"
        method(reflected.__name__)(reflected)


for _name, _function in (
    ("eq", operator.eq),
    ("ne", operator.ne),
    ("lt", operator.lt),
    ("le", operator.le),
    ("gt", operator.gt),
    ("ge", operator.ge),
    ("and", operator.and_),
    ("or", operator.or_),
    ("xor", operator.xor),
    ("lshift", operator.lshift),
    ("rshift", operator.rshift),
):
    _install(_name, _function)

# Tensors stay usable as keys, by identity, though they compare elementwise.
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]


@method("__invert__")
def _invert(self: Tensor) -> Tensor:
    return constant(np.asarray(operator.inv(self._value)))
