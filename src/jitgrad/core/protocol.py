"""Which of our functions answers for which of NumPy's: on tensors, as ``jitgrad.numpy`` and as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any, TypeVar

import numpy as np

from jitgrad.core import native
from jitgrad.core.capture import capture_of, observe
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import FUNCTIONS, NAMESPACE, Op
from jitgrad.core.tensor import Tensor
from jitgrad.errors import NoGradientError

__all__ = [
    "OPERAND",
    "answers",
    "answers_reduce",
    "attribute",
    "call_discrete",
    "captured",
    "discrete",
    "discrete_op",
    "method",
    "of_type",
    "operator",
    "plain",
]

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
        if not isinstance(function, Elementwise) and numpy_functions and function.__doc__ is None:
            function.__doc__ = numpy_functions[0].__doc__
        return function

    return register


def method(*names: str) -> Callable[[F], F]:
    """Install a function as methods of `Tensor`."""

    def install(function: F) -> F:
        bound = native.method(function) if isinstance(function, BuiltinFunctionType) else function
        for name in names:
            setattr(Tensor, name, bound)
        return function

    return install


def attribute(
    name: str,
    get: Callable[[Any], Any],
    put: Callable[[Any, Any], None] | None = None,
    delete: Callable[[Any], None] | None = None,
) -> None:
    """Install a property of `Tensor`."""
    setattr(Tensor, name, property(get, put, delete))


def operator(op: Elementwise, name: str) -> None:
    """Install a binary op as a Python operator, ``name`` being "add" for ``__add__`` and ``__radd__``."""
    setattr(Tensor, f"__{name}__", native.method(op.call))
    setattr(Tensor, f"__r{name}__", native.method(op.reflected))


def plain(value: Any) -> Any:
    """Return arrays for the tensors in a value of nested tuples, lists and dicts, to decide by what is in them."""
    if type(value) is Tensor:
        return observe(value)
    if isinstance(value, (tuple, list)):
        return type(value)(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def discrete(
    *numpy_functions: Callable[..., Any], observes: bool = False, operands: int = 1, rest: tuple[Any, ...] = ()
) -> None:
    """Say of NumPy functions that their results do not vary with their arguments: tensors are taken as arrays.

    ``observes`` says that what is in the arguments decides on the result's shape, or that the result is no array.
    Otherwise the functions take so many arrays, and then, in samples, ``rest``.
    """
    for numpy_function in numpy_functions:
        op = None if observes else discrete_op(numpy_function, operands, rest)

        def function(
            *args: Any, _numpy: Callable[..., Any] = numpy_function, _op: Op | None = op, **kwargs: Any
        ) -> Any:
            if _op is not None and captured(args):
                return call_discrete(_op, args, kwargs)
            return _numpy(*plain(args), **plain(kwargs))

        function.__name__ = numpy_function.__name__
        function.__doc__ = numpy_function.__doc__
        answers(numpy_function)(function)


def of_type(*numpy_functions: Callable[..., Any]) -> None:
    """Say of NumPy functions that they only ask for an array's shape or dtype."""
    for numpy_function in numpy_functions:

        def function(a: Any, *args: Any, _numpy: Callable[..., Any] = numpy_function, **kwargs: Any) -> Any:
            return _numpy(a._value if type(a) is Tensor else a, *args, **kwargs)

        function.__name__ = numpy_function.__name__
        function.__doc__ = numpy_function.__doc__
        answers(numpy_function)(function)


class _Operand:
    """Stands in a call for the next of its operands."""

    def __repr__(self) -> str:
        return "operand"

    def __reduce__(self) -> str:
        return "OPERAND"


OPERAND = _Operand()


def discrete_op(numpy_function: Callable[..., Any], operands: int = 1, rest: tuple[Any, ...] = ()) -> Op:
    """Declare the op of a function whose result does not vary: only a trace that is to be replayed records it."""
    of_floats = not isinstance(numpy_function, np.ufunc) or any(kinds.startswith("d") for kinds in numpy_function.types)
    sample = np.linspace(-3.0, 3.0, 12) if of_floats else np.arange(1, 13)

    def forward(*xs: Any, call: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        operands = iter(xs)
        arguments = [next(operands) if item is OPERAND else item for item in call]
        return np.asarray(numpy_function(*arguments, **keywords))

    name = numpy_function.__name__
    return Op(
        name,
        forward,
        None,
        rules={},
        samples=lambda rng: [((sample,) * operands, {"call": (OPERAND,) * operands + rest, "keywords": {}})],
        discrete=("xs",),
        doc=numpy_function.__doc__,
    )


def captured(args: Sequence[Any]) -> bool:
    """Tell whether any of some arguments is a traced value that everything is recorded of."""
    return any(capture_of(arg) is not None for arg in args)


def call_discrete(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Record a call of an op that `discrete_op` has made."""
    operands = [arg for arg in args if isinstance(arg, (Tensor, np.ndarray))]
    call = tuple([OPERAND if isinstance(arg, (Tensor, np.ndarray)) else plain(arg) for arg in args])
    return op(*operands, call=call, keywords=plain(kwargs))


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
    if any(type(out) is np.ndarray for out in kwargs.get("out", ())):
        raise TypeError(
            f"an array cannot hold what numpy.{ufunc.__name__} computes of a Tensor, in place or by out=, only its "
            "value: write z = z + x instead of z += x, or make the array with jitgrad.numpy.zeros."
        )
    if kwargs and isinstance(ours, BuiltinFunctionType):
        raise TypeError(
            f"numpy.{ufunc.__name__} of a Tensor takes no {' or '.join(f'{key}=' for key in kwargs)}: results of "
            "recorded operations are new tensors, over all elements, in NumPy's default dtype."
        )
    return ours(*inputs, **kwargs)


method("__array_ufunc__")(_array_ufunc)
method("__array_function__")(_array_function)
