"""How a tensor is printed: PyTorch's `repr`, reproduced over NumPy arrays.

The only difference is the spelling of dtypes (`float32`, not `torch.float32`); the default dtype is float64.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["format_tensor", "get_printoptions", "printoptions", "set_printoptions"]

Array: TypeAlias = npt.NDArray[Any]
Profile: TypeAlias = Literal["default", "short", "full"]

_PREFIX = "tensor("
# Dtypes that go without saying, with elements to tell them by and without. By name: byte order has none.
_IMPLIED_DTYPES = frozenset({"float64", "complex128", "int64", "bool"})
_IMPLIED_IF_EMPTY = frozenset({"float64"})


@dataclasses.dataclass(frozen=True, slots=True)
class _PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None

    def __post_init__(self) -> None:
        for name in ("precision", "threshold", "edgeitems", "linewidth"):
            value = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")


_PROFILES = {
    "default": _PrintOptions(),
    "short": _PrintOptions(precision=2, edgeitems=2),
    "full": _PrintOptions(threshold=math.inf),
}

_options = _PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: Profile | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed, for the whole process.

    Parameters
    ----------
    precision : int, optional
        Digits after the point. Initially 4.
    threshold : float, optional
        Tensors with more elements than this are summarised. Initially 1000.
    edgeitems : int, optional
        Elements shown at both ends of each axis of a summarised tensor. Initially 3.
    linewidth : int, optional
        Columns after which a line is broken. Initially 80.
    profile : {"default", "short", "full"}, optional
        A set of values for the four options above; those given explicitly override it.
    sci_mode : bool, optional
        Whether floats are printed in scientific notation. None, which every call without this argument
        returns to (as in PyTorch), decides from the magnitudes in each tensor.

    Raises
    ------
    ValueError
        If the profile is unknown or an option is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from jitgrad.tensor.printing import format_tensor, set_printoptions
    >>> set_printoptions(precision=2)
    >>> format_tensor(np.array([1.12345]))
    'tensor([1.12])'
    >>> set_printoptions(profile="default")
    >>> format_tensor(np.array([1.12345]))
    'tensor([1.1235])'
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"unknown profile {profile!r}: choose one of {', '.join(_PROFILES)}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    base = _options if profile is None else _PROFILES[profile]
    _options = dataclasses.replace(base, **changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """Return the print options in force, as keyword arguments for `set_printoptions`.

    Examples
    --------
    >>> from jitgrad.tensor.printing import get_printoptions
    >>> get_printoptions()
    {'precision': 4, 'threshold': 1000, 'edgeitems': 3, 'linewidth': 80, 'sci_mode': None}
    """
    return dataclasses.asdict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set print options for the extent of a `with` block; arguments as for `set_printoptions`.

    Examples
    --------
    >>> import numpy as np
    >>> from jitgrad.tensor.printing import format_tensor, printoptions
    >>> with printoptions(threshold=5):
    ...     format_tensor(np.arange(10))
    'tensor([0, 1, 2,  ..., 7, 8, 9])'
    """
    global _options
    saved = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = saved


def format_tensor(value: Array, *, requires_grad: bool = False, grad_fn: str | None = None) -> str:
    """Format an array as PyTorch prints the tensor that holds it.

    Parameters
    ----------
    value : numpy.ndarray
        Boolean, integer, float (up to 64 bits) or complex (up to 128 bits) array of any shape.
    requires_grad : bool, optional
        Whether to say that the tensor requires a gradient. A `grad_fn` already says so.
    grad_fn : str, optional
        Name of the operation that the tensor came from, such as ``"MulBackward0"``.

    Returns
    -------
    str
        The text, which ends without a line break.

    Raises
    ------
    TypeError
        If the dtype is not one of those above.

    Examples
    --------
    >>> import numpy as np
    >>> from jitgrad.tensor.printing import format_tensor
    >>> print(format_tensor(np.array([[1.0, 2.5], [-3.0, 4.0]]), requires_grad=True))
    tensor([[ 1.0000,  2.5000],
            [-3.0000,  4.0000]], requires_grad=True)
    """
    if value.dtype.kind not in "biufc" or value.dtype.char in "gG":
        raise TypeError(f"a tensor cannot hold dtype {value.dtype}: use bool, integers, floats or complex")
    opts = _options
    suffixes = []
    if value.size == 0:
        body = "[]"
        if value.ndim != 1:
            suffixes.append(f"size={value.shape}")
        implied = _IMPLIED_IF_EMPTY
    else:
        body = _format_elements(value, opts)
        if opts.edgeitems == 0:
            suffixes.append(f"size={value.shape}")
        implied = _IMPLIED_DTYPES
    if value.dtype.name not in implied:
        suffixes.append(f"dtype={value.dtype.name}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return _append_suffixes(_PREFIX + body, suffixes, opts.linewidth)


def _append_suffixes(text: str, suffixes: Sequence[str], linewidth: int) -> str:
    column = len(text) - (text.rfind("\n") + 1) + 2
    for suffix in suffixes:
        if column + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * len(_PREFIX) + suffix
            column = len(_PREFIX) + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def _format_elements(value: Array, opts: _PrintOptions) -> str:
    elided = [value.size > opts.threshold and n > 2 * opts.edgeitems for n in value.shape]
    shown = _drop_middles(value, elided, opts.edgeitems)
    texts, width = _element_texts(shown, opts)
    cells = np.array(texts, dtype=object).reshape(shown.shape)
    indent = len(_PREFIX) + value.ndim - 1
    per_line = max(1, (opts.linewidth - indent) // (width + len(", ")))
    return _nest(cells, elided, per_line, len(_PREFIX))


def _drop_middles(value: Array, elided: Sequence[bool], edgeitems: int) -> Array:
    for axis, (n, cut) in enumerate(zip(value.shape, elided, strict=True)):
        if cut:
            value = value.take([*range(edgeitems), *range(n - edgeitems, n)], axis=axis)
    return value


def _nest(cells: Array, elided: Sequence[bool], per_line: int, indent: int) -> str:
    """Join the texts of the elements into nested brackets, with dots where an axis is cut."""
    if cells.ndim == 0:
        return str(cells.item())
    if cells.ndim == 1:
        rows = cells.tolist()
        dots = " ..." if rows else "..."
    else:
        rows = [_nest(row, elided[1:], per_line, indent + 1) for row in cells]
        dots = "..."
    if elided[0]:
        rows.insert(len(rows) // 2, dots)
    if cells.ndim == 1:
        rows = [", ".join(rows[i : i + per_line]) for i in range(0, len(rows), per_line)]
    line_breaks = "\n" * max(1, cells.ndim - 1)
    return "[" + ("," + line_breaks + " " * (indent + 1)).join(rows) + "]"


def _element_texts(shown: Array, opts: _PrintOptions) -> tuple[list[str], int]:
    """Return the text of each element, in C order, and the width to lay them out by."""
    if shown.dtype.kind == "c":
        reals, real_width = _element_texts(shown.real, opts)
        imags, imag_width = _element_texts(shown.imag, opts)
        texts = [_complex_text(real, imag) for real, imag in zip(reals, imags, strict=True)]
        return texts, real_width + imag_width + len("j")
    texts, width = _float_texts(shown, opts) if shown.dtype.kind == "f" else _integer_texts(shown)
    return [text.rjust(width) for text in texts], width


def _complex_text(real: str, imag: str) -> str:
    imag = imag.lstrip()
    return f"{real}{'' if imag.startswith('-') else '+'}{imag}j"


def _integer_texts(shown: Array) -> tuple[list[str], int]:
    texts = [str(element) for element in shown.ravel().tolist()]
    return texts, max(map(len, texts), default=1)


def _float_texts(shown: Array, opts: _PrintOptions) -> tuple[list[str], int]:
    flat = shown.astype(np.float64).ravel()
    # Zeros, infinities and NaNs have no say in notation and width: beside short numbers they stick out.
    telling = np.isfinite(flat) & (flat != 0)
    numbers = flat[telling]
    integral = bool(np.all(numbers == np.ceil(numbers)))
    if numbers.size and _wants_scientific(numbers, opts):
        texts = [f"{x:.{opts.precision}e}" for x in flat.tolist()]
    elif integral:
        texts = [f"{x:.0f}." if math.isfinite(x) else f"{x}" for x in flat.tolist()]
    else:
        texts = [f"{x:.{opts.precision}f}" for x in flat.tolist()]
    return texts, max((len(text) for text, tells in zip(texts, telling, strict=True) if tells), default=1)


def _wants_scientific(numbers: Array, opts: _PrintOptions) -> bool:
    if opts.sci_mode is not None:
        return opts.sci_mode
    magnitudes = np.abs(numbers)
    # Python floats: their quotient overflows to infinity without a warning.
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    return largest / smallest > 1000.0 or largest > 1e8 or smallest < 1e-4
