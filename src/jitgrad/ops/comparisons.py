"""Comparisons, logic and tests of single elements: results that do not vary with their operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.capture import capture_of
from jitgrad.core.op import REGISTRY, Op
from jitgrad.core.protocol import answers, call_discrete, captured, discrete, discrete_op, method, of_type, plain
from jitgrad.core.shapes import translated
from jitgrad.core.tensor import Tensor, constant

__all__ = ["elementwise_discrete"]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(item) for item in value)
    return type(value) is Tensor


_ARITY: dict[Callable[..., Any], int] = {np.isclose: 2}


def elementwise_discrete(*numpy_functions: Callable[..., Any]) -> None:
    """Say of NumPy functions that their results do not vary: of tensors they are tensors on no tape."""
    for numpy_function in numpy_functions:
        op = discrete_op(numpy_function, _ARITY.get(numpy_function, getattr(numpy_function, "nin", 1)))

        def function(*args: Any, _numpy: Callable[..., Any] = numpy_function, _op: Op = op, **kwargs: Any) -> Any:
            try:
                if not any(_holds_tensor(value) for value in (*args, *kwargs.values())):
                    return _numpy(*args, **kwargs)
                if "out" in kwargs or "where" in kwargs:
                    raise TypeError(
                        f"numpy.{_numpy.__name__} of a Tensor takes no out= and no where=: the results of "
                        "operations on tensors are new tensors, over all elements"
                    )
                if captured(args):
                    return call_discrete(_op, args, kwargs)
                return constant(np.asarray(_numpy(*plain(args), **plain(kwargs))))
            except ValueError as error:
                raise translated(error, _numpy.__name__, (*args, *kwargs.values())) from None

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
discrete(np.allclose, np.array_equal, np.array_equiv, operands=2)
of_type(np.isrealobj, np.iscomplexobj, np.isscalar)


def _install(name: str, function: Callable[..., Any], numpy: str) -> None:
    """Install a Python operator that gives tensors on no tape."""
    op = REGISTRY[numpy]

    def compare(self: Tensor, other: Any) -> Any:
        try:
            if capture_of(self) is not None or capture_of(other) is not None:
                return call_discrete(op, (self, other), {})
            return constant(np.asarray(function(self._value, other._value if type(other) is Tensor else other)))
        except ValueError as error:
            raise translated(error, numpy, (self, other)) from None

    def reflected(self: Tensor, other: Any) -> Any:
        try:
            if capture_of(self) is not None:
                return call_discrete(op, (other, self), {})
            return constant(np.asarray(function(other, self._value)))
        except ValueError as error:
            raise translated(error, numpy, (other, self)) from None

    compare.__name__ = f"__{name}__"
    method(compare.__name__)(compare)
    if name in ("and", "or", "xor", "lshift", "rshift"):
        reflected.__name__ = f"__r{name}__"
        method(reflected.__name__)(reflected)


for _name, _function, _numpy in (
    ("eq", operator.eq, "equal"),
    ("ne", operator.ne, "not_equal"),
    ("lt", operator.lt, "less"),
    ("le", operator.le, "less_equal"),
    ("gt", operator.gt, "greater"),
    ("ge", operator.ge, "greater_equal"),
    ("and", operator.and_, "bitwise_and"),
    ("or", operator.or_, "bitwise_or"),
    ("xor", operator.xor, "bitwise_xor"),
    ("lshift", operator.lshift, "left_shift"),
    ("rshift", operator.rshift, "right_shift"),
):
    _install(_name, _function, _numpy)

# Tensors stay usable as keys, by identity, though they compare elementwise.
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]


@method("__invert__")
def _invert(self: Tensor) -> Any:
    if capture_of(self) is not None:
        return call_discrete(REGISTRY["invert"], (self,), {})
    return constant(np.asarray(operator.inv(self._value)))
