"""Einstein sums of any number of operands, as pairwise contractions; and the products that they write.

Subscripts and shapes are worked out once, into a list of steps: diagonals of repeated labels, axes of length
1 that are broadcast, sums over labels of one operand only, and contractions of pairs in an order that NumPy's
search finds.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.protocol import answers
from jitgrad.errors import ShapeError
from jitgrad.ops.arithmetic import conjugate
from jitgrad.ops.axes import dtype_of, refuse
from jitgrad.ops.casting import asarray
from jitgrad.ops.contraction import contraction_op
from jitgrad.ops.reductions import sum_op
from jitgrad.ops.shaping import moveaxis, reshape_op, transpose_op
from jitgrad.ops.triangular import diagonal_op

__all__ = ["einsum"]

_LETTERS = string.ascii_uppercase + string.ascii_lowercase  # in the order in which NumPy sorts labels
_DOTS = "..."


# -- reading -------------------------------------------------------------------------------------------------


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Turn operands with lists of integers into operands and a string of subscripts."""

    def write(labels: Any) -> str:
        try:
            return "".join(_DOTS if label is Ellipsis else _LETTERS[label] for label in labels)
        except (TypeError, IndexError) as error:
            raise ValueError(
                f"einsum() takes lists of integers from 0 to 51 and of Ellipsis, not {labels!r}."
            ) from error

    pairs = len(operands) // 2
    inputs = ",".join(write(operands[2 * k + 1]) for k in range(pairs))
    return inputs + (f"->{write(operands[-1])}" if len(operands) % 2 else ""), list(operands[: 2 * pairs : 2])


@functools.lru_cache(maxsize=4096)
def _expanded(subscripts: str, ndims: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return the labels of the operands and of the result, with letters for what an ellipsis stands for."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum() got {len(ndims)} operands, but subscripts for {len(terms)}: '{subscripts}'.")
    stray = set(text.replace("->", "").replace(_DOTS, "").replace(",", "")) - set(_LETTERS)
    if stray:
        raise ValueError(f"einsum() got subscripts that are no letters, {sorted(stray)}, in '{subscripts}'.")
    spare = [letter for letter in _LETTERS if letter not in text]
    hidden = [
        ndim - len(term.replace(_DOTS, "")) if _DOTS in term else 0 for term, ndim in zip(terms, ndims, strict=True)
    ]
    for term, ndim, n in zip(terms, ndims, hidden, strict=True):
        if term.count(_DOTS) > 1 or n < 0 or (_DOTS not in term and len(term) != ndim):
            raise ValueError(f"einsum() got '{term}' as subscripts of an array of {ndim} dimensions.")
    widest = max(hidden)
    if widest > len(spare):
        raise ValueError(f"einsum() has not enough letters for the dimensions of '{subscripts}'.")
    dots = "".join(spare[:widest])
    inputs = tuple(term.replace(_DOTS, dots[widest - n :] if n else "") for term, n in zip(terms, hidden, strict=True))
    if arrow:
        if dots and _DOTS not in right:
            raise ValueError(f"einsum() needs an ellipsis in the result too: '{subscripts}'.")
        out = right.replace(_DOTS, dots)
    else:
        named = "".join(inputs)
        once = sorted(label for label in set(named) if named.count(label) == 1 and label not in dots)
        out = dots + "".join(once)
    for label in out:
        if out.count(label) > 1:
            raise ValueError(f"einsum() got the subscript '{label}' twice in the result: '{subscripts}'.")
        if not any(label in term for term in inputs):
            raise ValueError(f"einsum() got the subscript '{label}' in the result, but in no operand: '{subscripts}'.")
    return inputs, out


# -- planning ------------------------------------------------------------------------------------------------

Step = tuple[Any, ...]


class _Planner:
    """Collects the steps that bring a list of operands down to one."""

    def __init__(self, inputs: Sequence[str], shapes: Sequence[tuple[int, ...]], out: str) -> None:
        self.terms = list(inputs)
        self.shapes = [list(shape) for shape in shapes]
        self.out = out
        self.steps: list[Step] = []

    def diagonals(self) -> None:
        """Take the diagonal of each label that stands twice in a term."""
        for k in range(len(self.terms)):
            while len(set(self.terms[k])) < len(self.terms[k]):
                term, shape = self.terms[k], self.shapes[k]
                label = next(label for label in term if term.count(label) > 1)
                i = term.index(label)
                j = term.index(label, i + 1)
                if shape[i] != shape[j]:
                    raise ShapeError.operands(f"einsum, for '{label}{label}',", "axes of equal length", tuple(shape))
                self.steps.append(("diagonal", k, i, j))
                kept = [d for d in range(len(term)) if d not in (i, j)]
                self.terms[k] = "".join(term[d] for d in kept) + label
                self.shapes[k] = [shape[d] for d in kept] + [shape[i]]

    def broadcast(self) -> None:
        """Drop axes of length 1 that stand for longer ones of other operands."""
        lengths: dict[str, int] = {}
        for term, shape in zip(self.terms, self.shapes, strict=True):
            for label, length in zip(term, shape, strict=True):
                held = lengths.setdefault(label, length)
                if held == 1:
                    lengths[label] = length
                elif length not in (1, held):
                    shapes = tuple(tuple(shape) for shape in self.shapes)
                    raise ShapeError.operands(
                        f"einsum, for '{label}',", "axes of equal length, or of length 1", *shapes
                    )
        for k, (term, shape) in enumerate(zip(self.terms, self.shapes, strict=True)):
            kept = [d for d, label in enumerate(term) if shape[d] == lengths[label]]
            if len(kept) < len(term):
                self.terms[k] = "".join(term[d] for d in kept)
                self.shapes[k] = [shape[d] for d in kept]
                self.steps.append(("reshape", k, tuple(self.shapes[k])))

    def sum_lone(self, k: int, wanted: set[str]) -> None:
        """Sum an operand over the labels that nothing else wants."""
        term = self.terms[k]
        axes = tuple(d for d, label in enumerate(term) if label not in wanted)
        if axes:
            self.steps.append(("sum", k, axes))
            self.terms[k] = "".join(label for label in term if label in wanted)
            self.shapes[k] = [n for d, n in enumerate(self.shapes[k]) if d not in axes]

    def contract(self, i: int, j: int) -> None:
        """Replace two operands by their product, which comes last."""
        others = [term for k, term in enumerate(self.terms) if k not in (i, j)]
        wanted = set(self.out).union(*others)
        self.sum_lone(i, wanted | set(self.terms[j]))
        self.sum_lone(j, wanted | set(self.terms[i]))
        x, y = self.terms[i], self.terms[j]
        if others:
            shared = "".join(label for label in x if label in y and label in wanted)
            result = shared + "".join(label for label in x + y if label in wanted and label not in shared)
        else:
            result = "".join(label for label in self.out if label in x or label in y)
        lengths = dict(zip(x + y, self.shapes[i] + self.shapes[j], strict=True))
        self.steps.append(("contract", i, j, f"{x},{y}->{result}"))
        for k in sorted((i, j), reverse=True):
            del self.terms[k], self.shapes[k]
        self.terms.append(result)
        self.shapes.append([lengths[label] for label in result])

    def finish(self) -> None:
        """Give the last operand the axes of the result."""
        self.sum_lone(0, set(self.out))
        order = tuple(self.terms[0].index(label) for label in self.out)
        if order != tuple(range(len(order))):
            self.steps.append(("transpose", 0, order))


def _order(planner: _Planner, optimize: Any) -> list[tuple[int, ...]]:
    """Return which operands are contracted in turn, as `numpy.einsum_path` does."""
    n = len(planner.terms)
    if n < 3:
        return [tuple(range(n))]
    if optimize is False or optimize is None:
        return [(0, 1), *((0, k) for k in range(n - 2, 0, -1))]
    blanks = [np.broadcast_to(np.float64(0), shape) for shape in planner.shapes]
    subscripts = ",".join(planner.terms) + "->" + planner.out
    how = list(optimize) if isinstance(optimize, tuple) else optimize
    path, _ = np.einsum_path(subscripts, *blanks, optimize=how)
    return [tuple(step) for step in path[1:]]


@functools.lru_cache(maxsize=4096)
def _plan(subscripts: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[Step, ...]:
    inputs, out = _expanded(subscripts, tuple(len(shape) for shape in shapes))
    planner = _Planner(inputs, shapes, out)
    planner.diagonals()
    planner.broadcast()
    for step in _order(planner, optimize):
        group = sorted(step)
        if len(group) < 2:
            continue
        planner.contract(group[0], group[1])
        for done, k in enumerate(group[2:]):
            planner.contract(k - 2 - done, len(planner.terms) - 1)
    planner.finish()
    return tuple(planner.steps)


# -- running -------------------------------------------------------------------------------------------------


def _run(steps: Sequence[Step], operands: list[Any]) -> Any:
    for kind, k, *rest in steps:
        if kind == "contract":
            j, subscripts = rest
            product = contraction_op(operands[k], operands[j], subscripts=subscripts)
            for at in sorted((k, j), reverse=True):
                del operands[at]
            operands.append(product)
        elif kind == "sum":
            operands[k] = sum_op(operands[k], axes=rest[0], keepdims=False)
        elif kind == "transpose":
            operands[k] = transpose_op(operands[k], axes=rest[0])
        elif kind == "reshape":
            operands[k] = reshape_op(operands[k], shape=rest[0])
        else:
            operands[k] = diagonal_op(operands[k], offset=0, axis1=rest[0], axis2=rest[1])
    return operands[0]


def _hashable(optimize: Any) -> Any:
    if isinstance(optimize, (list, tuple)):
        return tuple(tuple(step) if isinstance(step, (list, tuple)) else step for step in optimize)
    return optimize


@answers(np.einsum)
def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = True,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
) -> Any:
    """Sum of products over axes that share a label, as `numpy.einsum`.

    Differs from NumPy's in one default: three operands or more are multiplied pair by pair, in an order that
    NumPy's "greedy" search finds. NumPy's default multiplies all of them in one pass, which takes as many steps as
    the product of all lengths; results agree to rounding. ``optimize=False`` multiplies pairs too, from left to right.

    Parameters
    ----------
    *operands : array_like
        Subscripts and arrays, as ``"ij,jk->ik", a, b`` or as ``a, [0, 1], b, [1, 2], [0, 2]``.
    out : None
        Not supported.
    optimize : bool, str or list
        Order of the products: "greedy" (or True), "optimal", either in a pair with a limit on the elements of
        intermediate results, or a path of `numpy.einsum_path`. False is from left to right.
    dtype : dtype, optional
        What to convert the operands to.
    order, casting : str
        Only the defaults are supported.

    Returns
    -------
    array, scalar or Tensor
        Of the axes that the result's subscripts name.

    Raises
    ------
    ValueError
        For subscripts that do not fit the operands.
    ShapeError
        For axes of one label that differ in length.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> x = np.array([1.0, 2.0])
    >>> a = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> jg.grad(lambda x: np.einsum("i,ij,j->", x, a, x))(x)
    array([ 8., 14.])
    """
    unusual = {"order": order if order != "K" else None, "casting": casting if casting != "safe" else None}
    refuse("einsum", out=out, **unusual)
    if not operands:
        raise ValueError("einsum() takes subscripts and at least one operand.")
    if isinstance(operands[0], str):
        subscripts, arrays = operands[0], list(operands[1:])
    else:
        subscripts, arrays = _from_lists(operands)
    arrays = [asarray(array, dtype=dtype_of(dtype)) for array in arrays]
    if not arrays:
        raise ValueError("einsum() takes subscripts and at least one operand.")
    steps = _plan(subscripts, tuple([array.shape for array in arrays]), _hashable(optimize))
    return _run(steps, arrays)


def _conjugated(x: Any) -> Any:
    x = asarray(x)
    return conjugate(x) if x.dtype.kind == "c" else x


@answers(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, **keywords: Any) -> Any:
    """Dot products of vectors along an axis, the first conjugated, as `numpy.vecdot`.

    Examples
    --------
    >>> import jitgrad.numpy as jnp
    >>> jnp.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    array([3., 7.])
    """
    refuse("vecdot", out=out, **keywords)
    x1, x2 = _conjugated(x1), asarray(x2)
    if axis != -1:
        x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    if not x1.ndim or not x2.ndim or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError.operands("vecdot", "vectors of the same length", x1.shape, x2.shape)
    return einsum("...i,...i->...", x1, x2)


def _matrix_and_vector(name: str, matrices: Any, vectors: Any, axis: int) -> None:
    """Check the shapes of a product with vectors: an axis that is summed over is not broadcast."""
    if matrices.ndim < 2 or vectors.ndim < 1 or matrices.shape[axis] != vectors.shape[-1]:
        raise ShapeError.operands(
            name,
            "matrices, and vectors of the length of the axis that is summed over",
            matrices.shape,
            vectors.shape,
        )


if hasattr(np, "matvec"):  # NumPy 2.2

    @answers(np.matvec)
    def matvec(x1: Any, x2: Any, /, out: Any = None, **keywords: Any) -> Any:
        """Products of matrices with vectors, as `numpy.matvec`.

        Examples
        --------
        >>> import jitgrad.numpy as jnp
        >>> jnp.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
        array([3., 7.])
        """
        refuse("matvec", out=out, **keywords)
        x1, x2 = asarray(x1), asarray(x2)
        _matrix_and_vector("matvec", x1, x2, -1)
        return einsum("...ij,...j->...i", x1, x2)

    @answers(np.vecmat)
    def vecmat(x1: Any, x2: Any, /, out: Any = None, **keywords: Any) -> Any:
        """Products of vectors, conjugated, with matrices, as `numpy.vecmat`.

        Examples
        --------
        >>> import jitgrad.numpy as jnp
        >>> jnp.vecmat([1.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])
        array([4., 6.])
        """
        refuse("vecmat", out=out, **keywords)
        x1, x2 = _conjugated(x1), asarray(x2)
        _matrix_and_vector("vecmat", x2, x1, -2)
        return einsum("...i,...ij->...j", x1, x2)
