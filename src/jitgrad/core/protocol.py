"""Which of our functions answers for which of NumPy's: on tensors, as ``jitgrad.numpy`` and as methods."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeVar

import numpy as np

from jitgrad.core import native
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import FUNCTIONS, NAMESPACE
from jitgrad.core.tensor import Tensor
from jitgrad.errors import NoGradientError

__all__ = ["answers", "answers_reduce", "discrete", "method", "operator", "plain"]

F = TypeVar("F", bound=Callable[..., Any])


def answers(*numpy_functions: Callable[..., Any], name: str | None = None) -> Callable[[F], F]:
    """Say that a function of NumPy's signature stands for NumPy's, on tensors as on arrays.

    Parameters
    ----------
    *numpy_functions : callable
        The NumPy functions; each is found by ``np.f(tensor)``, and as ``jitgrad.numpy.f`` under its own name.
    name : str, optional
        A further name in ``jitgrad.numpy``.
    """

    def register(function: F) -> F:
        for numpy_function in numpy_functions:
            FUNCTIONS[numpy_function] = function
            NAMESPACE[numpy_function.__name__] = function
        if name is not None:
            NAMESPACE[name] = function
        _pass_over(function)
        if not isinstance(function, Elementwise) and numpy_functions and function.__doc__ is None:
            function.__doc__ = numpy_functions[0].__doc__
        return function

    return register


def _pass_over(function: Callable[..., Any]) -> None:
    if isinstance(function, FunctionType):
        native.pass_over(function.__code__)


def method(*names: str) -> Callable[[F], F]:
    """Install a function as methods of `Tensor`."""

    def install(function: F) -> F:
        _pass_over(function)
        bound = native.method(function) if isinstance(function, BuiltinFunctionType) else function
        for name in names:
            setattr(Tensor, name, bound)
        return function

    return install


def operator(op: Elementwise, name: str) -> None:
    """Install a binary op as a Python operator, ``name`` being "add" for ``__add__`` and ``__radd__``."""
    setattr(Tensor, f"__{name}__", native.method(op.call))
    setattr(Tensor, f"__r{name}__", native.method(op.reflected))


def plain(value: Any) -> Any:
    """Return arrays for the tensors in a value of nested tuples, lists and dicts."""
    if type(value) is Tensor:
        return value._value
    if isinstance(value, (tuple, list)):
        return type(value)(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def discrete(*numpy_functions: Callable[..., Any]) -> None:
    """Say of NumPy functions that their results do not vary with their arguments: tensors are taken as arrays."""
    for numpy_function in numpy_functions:

        def function(*args: Any, _numpy: Callable[..., Any] = numpy_function, **kwargs: Any) -> Any:
            return _numpy(*plain(args), **plain(kwargs))

        function.__name__ = numpy_function.__name__
        function.__doc__ = numpy_function.__doc__
        answers(numpy_function)(function)


def _array_function(self: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    ours = FUNCTIONS.get(function)
    if ours is None:
        raise NoGradientError(
            f"numpy.{function.__name__} is not known to jitgrad, so its derivative is not known. Write it in functions "
            "of jitgrad.numpy, or detach() its arguments if no gradient is to flow through it."
        )
    return ours(*args, **kwargs)


_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {}


def answers_reduce(ufunc: np.ufunc) -> Callable[[F], F]:
    """Say that a function stands for ``ufunc.reduce``."""

    def register(function: F) -> F:
        _REDUCTIONS[ufunc] = function
        return function

    return register


def _array_ufunc(self: Tensor, ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
    ours = FUNCTIONS.get(ufunc) if how == "__call__" else _REDUCTIONS.get(ufunc) if how == "reduce" else None
    if ours is None:
        call = f"numpy.{ufunc.__name__}" + ("" if how == "__call__" else f".{how}")
        raise NoGradientError(
            f"{call} is not known to jitgrad, so its derivative is not known. Use functions of jitgrad.numpy, or "
            "detach() the arguments if no gradient is to flow through it."
        )
    if kwargs and isinstance(ours, BuiltinFunctionType):
        raise TypeError(
            f"numpy.{ufunc.__name__} of a Tensor takes no {' or '.join(f'{key}=' for key in kwargs)}: results of "
            "recorded operations are new tensors, over all elements, in NumPy's default dtype."
        )
    return ours(*inputs, **kwargs)


Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]
Tensor.__array_function__ = _array_function  # type: ignore[attr-defined]
native.pass_over(_array_ufunc.__code__)
native.pass_over(_array_function.__code__)
