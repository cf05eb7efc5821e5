"""Making tensors: from data, filled, as ranges, and of random numbers, in PyTorch's call forms.

The default dtype is NumPy's: float64 for floats, int64 for Python's integers, bool for its booleans.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jitgrad.core.op import requires_grad as _requires_grad
from jitgrad.core.protocol import plain
from jitgrad.core.tensor import Leaf, Tensor, constant
from jitgrad.core.types import check_class
from jitgrad.errors import DtypeError, NumpyConversionError, RangeError, RequiresGradDtypeError, ShapeError

__all__ = [
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "manual_seed",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "tensor",
    "zeros",
    "zeros_like",
]

Array = npt.NDArray[Any]
Data = Any  # numbers, nested sequences of them, arrays, tensors
Size = int | Sequence[int]

_FLOAT = np.dtype(np.float64)


def make(array: Array, requires_grad: bool = False) -> Tensor:
    """Return a tensor that owns an array: writes in place go to that memory, and are noticed."""
    made = constant(array)
    made._leaf = leaf = Leaf()
    if requires_grad:
        if not made._type.inexact:
            raise RequiresGradDtypeError.dtype(array.dtype)
        leaf.requires_grad = True
    return made


def _supported(array: Array, function: str) -> Array:
    dtype = array.dtype
    if dtype.kind not in "biufc" or dtype.char in "gG":
        raise DtypeError.operand(function, dtype, "booleans, integers, floats and complex numbers")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


# -- from data ------------------------------------------------------------------------------------------------


def tensor(data: Data, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor with a copy of data.

    Parameters
    ----------
    data : array_like
        A number, nested sequences of numbers, a NumPy array or a tensor.
    dtype : data-type, optional
        Inferred by default: arrays keep theirs, and Python's numbers get float64, int64, bool or complex128.
    requires_grad : bool, optional
        Whether operations on the tensor are recorded, so that `Tensor.backward` fills its ``grad``.

    Returns
    -------
    Tensor
        A leaf: what it is a copy of gets no gradient.

    Raises
    ------
    DtypeError
        If the data are not numbers.
    RequiresGradDtypeError
        If a boolean or integer tensor is to require a gradient.

    Warns
    -----
    UserWarning
        If data holds tensors whose history the copy does not have.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    >>> jg.tensor(1.5, requires_grad=True)
    tensor(1.5000, requires_grad=True)
    """
    if type(data) is Tensor:
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than jitgrad.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        data = data._value
    try:
        check_class(data)
        array = np.array(data, dtype=dtype)
    except NumpyConversionError:
        warnings.warn(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first, or jitgrad.stack() to keep the history.",
            UserWarning,
            stacklevel=2,
        )
        array = np.array(plain(data), dtype=dtype)
    return make(_supported(array, "tensor"), requires_grad)


def as_tensor(data: Data, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Return data as a tensor, sharing the memory of an array, and the tensor itself if it is one.

    Parameters
    ----------
    data : array_like
        As for `tensor`.
    dtype : data-type, optional
        Another dtype makes a copy; of a tensor that requires a gradient, a recorded one.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> a = np.zeros(2)
    >>> t = jg.as_tensor(a)
    >>> a[0] = 5.0
    >>> t
    tensor([5., 0.])
    """
    if type(data) is Tensor:
        return data if dtype is None else data.astype(dtype, copy=False)
    if isinstance(data, np.ndarray):
        check_class(data)
        return make(_supported(np.asarray(data, dtype=dtype), "as_tensor"))
    return tensor(data, dtype)


def from_numpy(array: Array) -> Tensor:
    """Return a tensor that shares the memory of an array.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.from_numpy(np.arange(3))
    tensor([0, 1, 2])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return as_tensor(array)


# -- filled ---------------------------------------------------------------------------------------------------


def _shape(size: tuple[Any, ...], function: str) -> tuple[int, ...]:
    """Return the shape that ``f(2, 3)``, ``f((2, 3))`` and ``f([2, 3])`` ask for."""
    for n in size:
        if type(n) is not int or n < 0:
            break
    else:
        if size:
            return size
        raise TypeError(f'{function}() missing 1 required positional arguments: "size"')
    lengths = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
    try:
        shape = tuple(map(operator.index, lengths))
    except TypeError:
        wrong = next((n for n in lengths if not hasattr(n, "__index__")), size[0])
        raise TypeError(
            f"{function}(): argument 'size' (position 1) must be tuple of ints, not {type(wrong).__name__}"
        ) from None
    if any(n < 0 for n in shape):
        raise ShapeError.negative(shape)
    return shape


def ones(*size: Any, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of ones.

    Parameters
    ----------
    *size : int or sequence of int
        The shape, as separate lengths or as one sequence.
    dtype : data-type, optional
        float64 by default.
    requires_grad : bool, optional
        See `tensor`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    return make(np.ones(_shape(size, "ones"), dtype or _FLOAT), requires_grad)


def zeros(*size: Any, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of zeros. Arguments as for `ones`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.zeros((2,), dtype=int)
    tensor([0, 0])
    """
    return make(np.zeros(_shape(size, "zeros"), dtype or _FLOAT), requires_grad)


def empty(*size: Any, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of whatever is in memory. Arguments as for `ones`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.empty(2, 3).shape
    (2, 3)
    """
    return make(np.empty(_shape(size, "empty"), dtype or _FLOAT), requires_grad)


def full(
    size: Size, fill_value: complex | Tensor, dtype: npt.DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of one value.

    Parameters
    ----------
    size : int or sequence of int
        The shape.
    fill_value : number
        The value of all elements.
    dtype : data-type, optional
        The fill value's by default.
    requires_grad : bool, optional
        See `tensor`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.full((2, 2), 7.0)
    tensor([[7., 7.],
            [7., 7.]])
    """
    array = np.full(_shape((size,), "full"), _number(fill_value, "full"), dtype)
    return make(_supported(array, "full"), requires_grad)


def eye(n: int, m: int | None = None, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a matrix of ``n`` rows and ``m`` columns (``n`` by default) with ones on the diagonal.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    rows, columns = _shape((n, n if m is None else m), "eye")
    return make(np.eye(rows, columns, dtype=dtype or _FLOAT), requires_grad)


# -- ranges ---------------------------------------------------------------------------------------------------


def _number(value: Any, function: str) -> Any:
    """Return a number for a number or a tensor of one; a tensor's history is not carried on in silence."""
    if type(value) is not Tensor:
        return value
    if _requires_grad(value):
        raise NumpyConversionError.numpy(op=function)
    return value._value.item()


def arange(*limits: float | Tensor, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return the numbers from ``start`` to ``end``, without ``end``, in equal steps.

    Parameters
    ----------
    *limits : float
        ``end``, or ``start, end``, or ``start, end, step``; 0 and 1 stand for what is left out.
    dtype : data-type, optional
        int64 if all of these are integers, else float64.
    requires_grad : bool, optional
        See `tensor`.

    Raises
    ------
    RangeError
        If the steps are zero, or lead away from ``end``.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.arange(3)
    tensor([0, 1, 2])
    >>> jg.arange(0.0, 1.0, 0.25)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if not 1 <= len(limits) <= 3:
        raise TypeError(f"arange() takes from 1 to 3 positional arguments but {len(limits)} were given")
    values = [_number(limit, "arange") for limit in limits]
    start, end = (0, values[0]) if len(values) == 1 else values[:2]
    step = values[2] if len(values) == 3 else 1
    if step == 0:
        raise RangeError.step()
    if (end - start) * step < 0:
        raise RangeError.sign(start, end, step)
    return make(_supported(np.arange(start, end, step, dtype=dtype), "arange"), requires_grad)


def linspace(
    start: float | Tensor,
    end: float | Tensor,
    steps: int,
    dtype: npt.DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``steps`` numbers, equally spaced from ``start`` to ``end``, with both.

    Parameters
    ----------
    start, end : float
        The first and the last number.
    steps : int
        How many there are.
    dtype : data-type, optional
        float64 by default, complex128 if an end is complex. Integers are rounded towards zero.
    requires_grad : bool, optional
        See `tensor`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if steps < 0:
        raise RangeError.steps(steps)
    array = np.linspace(_number(start, "linspace"), _number(end, "linspace"), steps)
    return make(_supported(array.astype(dtype or array.dtype, copy=False), "linspace"), requires_grad)


# -- random ---------------------------------------------------------------------------------------------------

_generator = np.random.default_rng()


def manual_seed(seed: int) -> np.random.Generator:
    """Make the random tensors that follow the same in every run.

    Parameters
    ----------
    seed : int
        Any integer that is not negative.

    Returns
    -------
    numpy.random.Generator
        The generator that they come from.

    Examples
    --------
    >>> import jitgrad as jg
    >>> _ = jg.manual_seed(0)
    >>> a = jg.rand(3)
    >>> _ = jg.manual_seed(0)
    >>> bool((a == jg.rand(3)).all())
    True
    """
    global _generator
    _generator = np.random.default_rng(seed)
    return _generator


def _random(draw: str, shape: tuple[int, ...], dtype: npt.DTypeLike | None, generator: Any, function: str) -> Array:
    kind = np.dtype(dtype or _FLOAT)
    if kind.kind not in "fc" or kind.char in "gG":
        raise DtypeError.operand(function, kind, "floats and complex numbers")
    rng = _generator if generator is None else generator
    if kind.kind == "c":
        parts = getattr(rng, draw)((2, *shape))
        # so that the absolute value's mean square is 1, as the real distribution's is
        scale = math.sqrt(0.5) if draw == "standard_normal" else 1.0
        return np.asarray((scale * (parts[0] + 1j * parts[1])).astype(kind, copy=False))
    drawn = getattr(rng, draw)(shape, np.float32 if kind == np.float32 else np.float64)
    return np.asarray(drawn).astype(kind, copy=False)


def randn(
    *size: Any,
    dtype: npt.DTypeLike | None = None,
    requires_grad: bool = False,
    generator: np.random.Generator | None = None,
) -> Tensor:
    """Return a tensor of normally distributed random numbers, of mean 0 and variance 1.

    Parameters
    ----------
    *size : int or sequence of int
        The shape, as separate lengths or as one sequence.
    dtype : data-type, optional
        float64 by default.
    requires_grad : bool, optional
        See `tensor`.
    generator : numpy.random.Generator, optional
        Where the numbers come from; by default the one that `manual_seed` seeds.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.randn(2, 3).shape
    (2, 3)
    """
    return make(_random("standard_normal", _shape(size, "randn"), dtype, generator, "randn"), requires_grad)


def rand(
    *size: Any,
    dtype: npt.DTypeLike | None = None,
    requires_grad: bool = False,
    generator: np.random.Generator | None = None,
) -> Tensor:
    """Return a tensor of random numbers, uniform from 0 to 1 (which is not among them). As `randn` otherwise.

    Examples
    --------
    >>> import jitgrad as jg
    >>> bool((jg.rand(100) < 1).all())
    True
    """
    return make(_random("random", _shape(size, "rand"), dtype, generator, "rand"), requires_grad)


def randint(
    *limits: Any, size: Size | None = None, dtype: npt.DTypeLike | None = None, generator: Any = None
) -> Tensor:
    """Return a tensor of random integers.

    Parameters
    ----------
    *limits : int
        ``high``, or ``low, high``; then the shape, unless it is given as ``size``. The integers are at least
        ``low``, which is 0 by default, and below ``high``.
    size : int or sequence of int, optional
        The shape.
    dtype : data-type, optional
        int64 by default.
    generator : numpy.random.Generator, optional
        See `randn`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.randint(10, (2, 3)).shape
    (2, 3)
    """
    bounds = list(limits)
    if size is None:
        if len(bounds) < 2:
            raise TypeError('randint() missing 1 required positional arguments: "size"')
        size = bounds.pop()
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    if not low < high:
        raise RangeError.sign(low, high, 1)
    shape = _shape((size,), "randint")
    drawn = (_generator if generator is None else generator).integers(low, high, shape)
    return make(_supported(np.asarray(drawn).astype(dtype or np.int64, copy=False), "randint"))


def randperm(n: int, dtype: npt.DTypeLike | None = None, generator: Any = None) -> Tensor:
    """Return the integers from 0 to ``n - 1`` in random order.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.randperm(4).sum()
    tensor(6)
    """
    order = (_generator if generator is None else generator).permutation(n)
    return make(order.astype(dtype or np.int64, copy=False))


# -- like another ---------------------------------------------------------------------------------------------


def _model(like: Any, function: str, dtype: npt.DTypeLike | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if not isinstance(like, (Tensor, np.ndarray)):
        raise TypeError(f"{function}(): argument 'input' (position 1) must be Tensor, not {type(like).__name__}")
    return like.shape, like.dtype if dtype is None else np.dtype(dtype)


def ones_like(input: Tensor | Array, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return ones, of the shape and dtype of another tensor or array.

    Parameters
    ----------
    input : Tensor or numpy.ndarray
        The model; nothing is recorded of it.
    dtype : data-type, optional
        The model's by default.
    requires_grad : bool, optional
        See `tensor`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.ones_like(jg.tensor([1, 2]))
    tensor([1, 1])
    """
    return make(np.ones(*_model(input, "ones_like", dtype)), requires_grad)


def zeros_like(input: Tensor | Array, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return zeros, of the shape and dtype of another tensor or array. Arguments as for `ones_like`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.zeros_like(jg.ones(2))
    tensor([0., 0.])
    """
    return make(np.zeros(*_model(input, "zeros_like", dtype)), requires_grad)


def empty_like(input: Tensor | Array, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return whatever is in memory, of the shape and dtype of another tensor or array, as `ones_like`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.empty_like(jg.ones(2)).shape
    (2,)
    """
    return make(np.empty(*_model(input, "empty_like", dtype)), requires_grad)


def full_like(
    input: Tensor | Array,
    fill_value: complex | Tensor,
    dtype: npt.DTypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return one value, in the shape and dtype of another tensor or array. Arguments as for `ones_like`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.full_like(jg.ones(2), 3)
    tensor([3., 3.])
    """
    shape, kind = _model(input, "full_like", dtype)
    return make(np.full(shape, _number(fill_value, "full_like"), kind), requires_grad)


def randn_like(input: Tensor | Array, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return what `randn` does, of the shape and dtype of another tensor or array, as `ones_like`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.randn_like(jg.ones(2)).shape
    (2,)
    """
    shape, kind = _model(input, "randn_like", dtype)
    return randn(shape, dtype=kind, requires_grad=requires_grad)


def rand_like(input: Tensor | Array, dtype: npt.DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return what `rand` does, of the shape and dtype of another tensor or array, as `ones_like`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.rand_like(jg.ones(2)).shape
    (2,)
    """
    shape, kind = _model(input, "rand_like", dtype)
    return rand(shape, dtype=kind, requires_grad=requires_grad)
