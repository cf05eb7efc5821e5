"""Products that sum over axes: matmul, dot, tensordot, outer, kron and their kin, as calls of BLAS.

Two ops do the work. `contraction` multiplies two arrays over named axes; the set of such products is closed
under differentiation, since the cotangent of each factor is again one, of the result's cotangent and the
other factor. `matmul` adds NumPy's broadcasting over leading axes. Both read factors transposed where BLAS
can, and copy only what no stride can express.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.op import FUNCTIONS, REGISTRY, Array, Op
from jitgrad.core.protocol import answers, method
from jitgrad.core.tensor import Tensor
from jitgrad.core.types import ArrayType
from jitgrad.errors import ShapeError
from jitgrad.ops.arithmetic import conjugate, multiply
from jitgrad.ops.axes import refuse
from jitgrad.ops.casting import asarray
from jitgrad.ops.shaping import moveaxis, reshape_op

__all__ = [
    "contraction_op",
    "cross",
    "cross_op",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matmul_op",
    "outer",
    "tensordot",
    "vdot",
]

Labels = str
Product = Callable[[Array, Array], Any]

# Every subscript of a factor stands in the other factor or in the result, and none twice in one place.


def split(subscripts: str) -> tuple[Labels, Labels, Labels]:
    """Return the labels of the two factors and of the result."""
    factors, out = subscripts.split("->")
    x, y = factors.split(",")
    return x, y, out


def _size(x: Array, labels: Labels, group: Sequence[str]) -> int:
    return math.prod([x.shape[labels.index(label)] for label in group])


def _matrix(labels: Labels, rows: Labels, columns: Labels) -> Callable[[Array], Array]:
    """Make the function that views an array as a matrix; a group of no labels has no axis at all."""
    if len(rows) <= 1 and len(columns) <= 1:
        if labels == rows + columns:
            return lambda x: x
        return lambda x: x.T
    straight = labels in (rows + columns, columns + rows)
    order = [labels.index(label) for label in rows + columns]
    swapped = straight and labels != rows + columns and bool(rows) and bool(columns)

    def view(x: Array) -> Array:
        shape = [_size(x, labels, group) for group in (rows, columns) if group]
        if swapped:
            return x.reshape(shape[::-1]).T
        return (x if straight else x.transpose(order)).reshape(shape)

    return view


def _elementwise_product(x_labels: Labels, y_labels: Labels, out: Labels) -> Product:
    """Multiply without a sum: an outer product, along shared axes if there are any."""

    def aligned(labels: Labels) -> Callable[[Array], Array]:
        order = [labels.index(label) for label in out if label in labels]
        place = tuple(slice(None) if label in labels else None for label in out)
        if order == sorted(order):
            return lambda x: x[place]
        return lambda x: x.transpose(order)[place]

    left, right = aligned(x_labels), aligned(y_labels)
    return lambda x, y: np.multiply(left(x), right(y))


def _matrix_product(x_labels: Labels, y_labels: Labels, out: Labels) -> Product:
    """Multiply matrices, vectors, or arrays seen as these: one call of BLAS."""
    x_free = "".join(label for label in x_labels if label not in y_labels)
    y_free = "".join(label for label in y_labels if label not in x_labels)
    in_x = "".join(label for label in x_labels if label in y_labels)
    in_y = "".join(label for label in y_labels if label in x_labels)
    # the order of the labels that are summed over is the one in which fewer factors must be copied
    summed = in_x if y_labels in (in_x + y_free, y_free + in_x) else in_y
    swap = bool(out) and out[0] in y_free  # the factor whose axes come first in the result is the left one
    if swap:
        left, right = _matrix(y_labels, y_free, summed), _matrix(x_labels, summed, x_free)
    else:
        left, right = _matrix(x_labels, x_free, summed), _matrix(y_labels, summed, y_free)
    made = y_free + x_free if swap else x_free + y_free
    if len(x_free) <= 1 and len(y_free) <= 1:
        if swap:
            return lambda x, y: left(y).dot(right(x))
        return lambda x, y: left(x).dot(right(y))
    order = None if made == out else [made.index(label) for label in out]

    def product(x: Array, y: Array) -> Any:
        shape = [
            x.shape[x_labels.index(label)] if label in x_labels else y.shape[y_labels.index(label)] for label in made
        ]
        flat = left(y).dot(right(x)) if swap else left(x).dot(right(y))
        result = flat.reshape(shape)
        return result if order is None else result.transpose(order)

    return product


def _for_blas(x: Array) -> Array:
    """Copy matrices whose strides BLAS cannot read: NumPy's matmul would fall back to loops of its own."""
    rows, columns = x.strides[-2:]
    item = x.itemsize
    if (columns == item and rows >= item * x.shape[-1]) or (rows == item and columns >= item * x.shape[-2]):
        return x
    return np.ascontiguousarray(x)


def _batched_product(x_labels: Labels, y_labels: Labels, out: Labels) -> Product:
    """Multiply stacks of matrices."""
    batch = "".join(label for label in out if label in x_labels and label in y_labels)
    summed = "".join(label for label in x_labels if label in y_labels and label not in out)
    x_free = "".join(label for label in x_labels if label not in y_labels)
    y_free = "".join(label for label in y_labels if label not in x_labels)
    if not x_free and not y_free:
        subscripts = f"{x_labels},{y_labels}->{out}"
        return lambda x, y: np.einsum(subscripts, x, y)
    x_order = [x_labels.index(label) for label in batch + x_free + summed]
    y_order = [y_labels.index(label) for label in batch + summed + y_free]
    made = batch + x_free + y_free
    order = None if made == out else [made.index(label) for label in out]

    def product(x: Array, y: Array) -> Any:
        n_summed = _size(x, x_labels, summed)
        stack = [x.shape[x_labels.index(label)] for label in batch]
        rows = [x.shape[x_labels.index(label)] for label in x_free]
        columns = [y.shape[y_labels.index(label)] for label in y_free]
        left = x.transpose(x_order).reshape([*stack, math.prod(rows), n_summed])
        right = y.transpose(y_order).reshape([*stack, n_summed, math.prod(columns)])
        result = np.matmul(_for_blas(left), _for_blas(right)).reshape([*stack, *rows, *columns])
        return result if order is None else result.transpose(order)

    return product


@functools.cache
def _product(subscripts: str) -> Product:
    x, y, out = split(subscripts)
    if all(label in out for label in x if label in y):
        return _elementwise_product(x, y, out)
    if not any(label in x and label in y for label in out):
        return _matrix_product(x, y, out)
    return _batched_product(x, y, out)


@functools.cache
def _by_x(subscripts: str) -> str:
    x, y, out = split(subscripts)
    return f"{out},{y}->{x}"


@functools.cache
def _by_y(subscripts: str) -> str:
    x, y, out = split(subscripts)
    return f"{x},{out}->{y}"


def _contraction_rows(b: Any, xs: Any, out: Any, *, subscripts: str) -> bool:
    x_labels, y_labels, out_labels = split(subscripts)
    summed = "".join(label for label in x_labels if label not in out_labels)
    if not summed:
        spread = [
            x.view(
                x.array.transpose([labels.index(label) for label in out_labels if label in labels])[
                    tuple([slice(None) if label in labels else None for label in out_labels])
                ]
            )
            for x, labels in zip(xs, (x_labels, y_labels), strict=True)
        ]
        return bool(b.elementwise(REGISTRY["multiply"], spread, out))
    batch = "".join(label for label in out_labels if label in x_labels and label in y_labels)
    x_free = "".join(label for label in x_labels if label not in y_labels)
    y_free = "".join(label for label in y_labels if label not in x_labels)
    sizes = dict(zip(x_labels + y_labels, xs[0].array.shape + xs[1].array.shape, strict=True))

    def stacked(place: Any, labels: Labels, rows: Labels, columns: Labels) -> Any:
        array = place.array.transpose([labels.index(label) for label in batch + rows + columns])
        lengths = [math.prod([sizes[label] for label in group]) for group in (batch, rows, columns)]
        return array, lengths

    left, shape = stacked(xs[0], x_labels, x_free, summed)
    x = b.reshaped(xs[0].view(left), shape)
    right, shape = stacked(xs[1], y_labels, summed, y_free)
    y = b.reshaped(xs[1].view(right), shape)
    made, shape = stacked(out, out_labels, x_free, y_free)
    target = out.view(made)
    product = b.reshaped(target, shape, write=True)
    if not b.matmuls(x, y, product):
        return False
    return product.storage is out.storage or bool(b.copy(product.view(product.array.reshape(made.shape)), target))


contraction_op: Op = Op(
    "contraction",
    lambda x, y, *, subscripts: _product(subscripts)(x, y),
    ("x", "y"),
    rows=_contraction_rows,
    rules={
        "x": lambda g, y, *, subscripts: contraction_op(g, y, subscripts=_by_x(subscripts)),
        "y": lambda g, x, *, subscripts: contraction_op(x, g, subscripts=_by_y(subscripts)),
    },
    linear="each",
    node="Bmm",
    samples=lambda rng: [
        (
            (rng.normal(size=[sizes[c] for c in x]), rng.normal(size=[sizes[c] for c in y])),
            {"subscripts": subscripts},
        )
        for sizes in ({"i": 2, "j": 3, "k": 4, "l": 2, "b": 3},)
        for subscripts in (
            "ij,jk->ik",
            "ji,kj->ki",
            "i,j->ij",
            "ij,ij->",
            "ijk,kjl->li",
            "ikjl,jk->il",
            "bij,bjk->bik",
            "ibj,jb->bi",
            "bi,bi->b",
            "b,bi->ib",
        )
        for x, y, _ in (split(subscripts),)
    ],
    doc="Product of two arrays over named axes, as `numpy.einsum` writes it.",
)


# -- matmul --------------------------------------------------------------------------------------------------


def _matmul(x: Array, y: Array) -> Any:
    try:
        if 0 < y.ndim <= 2:
            if 0 < x.ndim <= 2:
                return x.dot(y)  # half of matmul's overhead, and it copies what BLAS cannot read
            if x.ndim > 2:
                return x.reshape(-1, x.shape[-1]).dot(y).reshape(x.shape[:-1] + y.shape[1:])
        if x.ndim >= 2 and y.ndim >= 2:
            x, y = _for_blas(x), _for_blas(y)
        return np.matmul(x, y)
    except ValueError:
        if x.ndim and y.ndim:
            raise ShapeError.matmul("matmul", x.shape, y.shape) from None
        raise ShapeError.operands(
            "matmul", "arrays of one dimension at least; multiply by a scalar with *", x.shape, y.shape
        ) from None


def _matmul_rows(b: Any, xs: Any, out: Any) -> bool:
    x, y = (place.array for place in xs)
    left = x if x.ndim > 1 else x[None]
    right = y if y.ndim > 1 else y[:, None]
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    count = math.prod(stack)
    if not stack and count == 1:
        stack = (1,)
    left = np.broadcast_to(left, (*stack, *left.shape[-2:])).reshape(count, *left.shape[-2:])
    right = np.broadcast_to(right, (*stack, *right.shape[-2:])).reshape(count, *right.shape[-2:])
    if not (np.may_share_memory(left, x) and np.may_share_memory(right, y)):
        return False
    product = out.array.reshape(count, left.shape[-2], right.shape[-1])
    return bool(b.matmuls(xs[0].view(left), xs[1].view(right), out.view(product)))


class _Matmul:
    """The product of two shapes, written as contractions without the axes of length 1 that are broadcast."""

    __slots__ = ("by_x", "by_y", "x_shape", "y_shape")

    def __init__(self, x: tuple[int, ...], y: tuple[int, ...]) -> None:
        n = max(len(x), len(y)) - 2
        letters = "abcdefghlmnopqrstuvwxyz" + string.ascii_uppercase

        def labelled(shape: tuple[int, ...], other: tuple[int, ...], core: str) -> tuple[str, tuple[int, ...]]:
            labels, lengths = "", []
            for at in range(n):
                d = at - n - 2
                has, has_other = -d <= len(shape), -d <= len(other)
                if has and not (shape[d] == 1 and has_other and other[d] != 1):
                    labels += letters[at]
                    lengths.append(shape[d])
            return labels + core, (*lengths, *shape[-len(core) :])

        x_labels, self.x_shape = labelled(x, y, "ij" if len(x) > 1 else "j")
        y_labels, self.y_shape = labelled(y, x, "jk" if len(y) > 1 else "j")
        out = letters[: max(n, 0)] + ("i" if len(x) > 1 else "") + ("k" if len(y) > 1 else "")
        self.by_x, self.by_y = f"{out},{y_labels}->{x_labels}", f"{x_labels},{out}->{y_labels}"


_matmul_of = functools.lru_cache(maxsize=4096)(_Matmul)


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else reshape_op(x, shape=shape)


def _matmul_by_x(g: Any, y: Any, x_t: ArrayType) -> Any:
    if x_t.ndim == 1 and y.ndim == 1:
        return y * g  # on arrays half of what multiply takes
    if x_t.ndim == 2 and y.ndim == 2:
        return contraction_op(g, y, subscripts="ik,jk->ij")
    how = _matmul_of(x_t.shape, y.shape)
    return _shaped(contraction_op(g, _shaped(y, how.y_shape), subscripts=how.by_x), x_t.shape)


def _matmul_by_y(g: Any, x: Any, y_t: ArrayType) -> Any:
    if x.ndim == 1 and y_t.ndim == 1:
        return x * g
    if x.ndim == 2 and y_t.ndim == 2:
        return contraction_op(x, g, subscripts="ij,ik->jk")
    how = _matmul_of(x.shape, y_t.shape)
    return _shaped(contraction_op(_shaped(x, how.x_shape), g, subscripts=how.by_y), y_t.shape)


_NODES = {(1, 1): "Dot", (2, 1): "Mv", (1, 2): "Mm", (2, 2): "Mm"}


def _node_of(types: list[ArrayType | None], _params: dict[str, Any]) -> str:
    x, y = [0 if kind is None else kind.ndim for kind in types]
    return _NODES.get((x, y), "Bmm")


matmul_op: Op = Op(
    "matmul",
    _matmul,
    ("x", "y"),
    rows=_matmul_rows,
    rules={"x": _matmul_by_x, "y": _matmul_by_y},
    linear="each",
    node="Mm",
    node_of=_node_of,
    samples=lambda rng: [
        ((rng.normal(size=x), rng.normal(size=y)), {})
        for x, y in (
            ((3,), (3,)),
            ((2, 3), (3, 4)),
            ((2, 3), (3,)),
            ((3,), (3, 4)),
            ((2, 2, 3), (3, 4)),
            ((2, 3), (2, 3, 4)),
            ((2, 1, 2, 3), (4, 3, 2)),
            ((2, 2, 3), (3,)),
            ((3,), (2, 3, 4)),
        )
    ],
)


@answers(np.matmul, np.linalg.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None, **keywords: Any) -> Any:
    """Matrix product, as `numpy.matmul`: of vectors, matrices, or stacks of them that broadcast.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(lambda w: np.sum(np.ones((2, 3)) @ w))(np.zeros((3, 2)))
    array([[2., 2.],
           [2., 2.],
           [2., 2.]])
    """
    if out is not None or keywords:
        refuse("matmul", out=out, **keywords)
    return matmul_op(asarray(x1), asarray(x2))


@method("__matmul__")
def _matmul_method(self: Any, other: Any, /) -> Any:
    return matmul_op(self, other if type(other) is Tensor else asarray(other))


@method("__rmatmul__")
def _rmatmul_method(self: Any, other: Any, /) -> Any:
    return matmul_op(asarray(other), self)


# -- NumPy's other products ----------------------------------------------------------------------------------


def labels_for(ndim: int, start: int = 0) -> str:
    """Return as many labels as an array has axes."""
    return string.ascii_letters[start : start + ndim]


@method("dot")
@answers(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Sum of products over the last axis of ``a`` and the last but one of ``b``, as `numpy.dot`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(np.dot)(np.ones(2), np.array([2.0, 3.0]))
    array([2., 3.])
    """
    if out is not None:
        refuse("dot", out=out)
    a, b = asarray(a), asarray(b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if b.ndim == 1 or (b.ndim == 2 and a.ndim <= 2):
        return matmul_op(a, b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError.matmul("dot", a.shape, b.shape)
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 2,)))


@answers(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Dot product of two arrays seen as vectors, the first conjugated, as `numpy.vdot`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(np.vdot)(np.ones((1, 2)), np.array([[2.0, 3.0]]))
    array([[2., 3.]])
    """
    a, b = (reshape_op(x, shape=(-1,)) if x.ndim != 1 else x for x in (asarray(a), asarray(b)))
    if a.shape != b.shape:
        raise ShapeError.operands("vdot", "as many elements in one array as in the other", a.shape, b.shape)
    return matmul_op(conjugate(a) if a.dtype.kind == "c" else a, b)


@answers(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Sum of products over the last axes, as `numpy.inner`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(lambda a: np.sum(np.inner(a, np.array([[1.0, 2.0], [3.0, 4.0]]))))(np.ones(2))
    array([4., 6.])
    """
    a, b = asarray(a), asarray(b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError.operands("inner", "last axes of the same length", a.shape, b.shape)
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


@answers(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Products of all elements of ``a`` with all of ``b``, as `numpy.outer`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(lambda a: np.sum(np.outer(a, np.array([1.0, 2.0]))))(np.ones(3))
    array([3., 3., 3.])
    """
    refuse("outer", out=out)
    a, b = (reshape_op(x, shape=(-1,)) if x.ndim != 1 else x for x in (asarray(a), asarray(b)))
    return contraction_op(a, b, subscripts="i,j->ij")


def _tensordot_axes(axes: Any, a: Any, b: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (int, np.integer)):
        pairs: tuple[Any, Any] = (range(a.ndim - axes, a.ndim), range(axes))
        if axes > min(a.ndim, b.ndim):
            raise ShapeError.operands("tensordot", f"{axes} axes in each factor", a.shape, b.shape)
    else:
        pairs = tuple(axes)
        if len(pairs) != 2:
            raise ValueError("tensordot() takes for axes= an integer, or the axes of a and the axes of b.")
    of_a, of_b = (np.lib.array_utils.normalize_axis_tuple(pair, x.ndim) for pair, x in zip(pairs, (a, b), strict=True))
    if [a.shape[d] for d in of_a] != [b.shape[d] for d in of_b]:
        needs = f"axes of the same lengths to sum over; {of_a} and {of_b} are not (shape-mismatch for sum)"
        raise ShapeError.operands("tensordot", needs, a.shape, b.shape)
    return tuple(of_a), tuple(of_b)


@answers(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum of products over pairs of axes, as `numpy.tensordot`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(lambda a: np.tensordot(a, np.array([[1.0, 2.0], [3.0, 4.0]])))(np.ones((2, 2)))
    array([[1., 2.],
           [3., 4.]])
    """
    a, b = asarray(a), asarray(b)
    of_a, of_b = _tensordot_axes(axes, a, b)
    a_labels = labels_for(a.ndim)
    b_labels = list(labels_for(b.ndim, a.ndim))
    for d, e in zip(of_a, of_b, strict=True):
        b_labels[e] = a_labels[d]
    free_a = "".join(label for d, label in enumerate(a_labels) if d not in of_a)
    free_b = "".join(label for e, label in enumerate(b_labels) if e not in of_b)
    return contraction_op(a, b, subscripts=f"{a_labels},{''.join(b_labels)}->{free_a}{free_b}")


@answers(np.kron)
def kron(a: Any, b: Any) -> Any:
    """Kronecker product, as `numpy.kron`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(lambda a: np.sum(np.kron(a, np.array([1.0, 2.0]))))(np.ones(2))
    array([3., 3.])
    """
    a, b = asarray(a), asarray(b)
    ndim = max(a.ndim, b.ndim)
    a, b = (_shaped(x, (1,) * (ndim - x.ndim) + x.shape) for x in (a, b))
    a_labels, b_labels = labels_for(ndim), labels_for(ndim, ndim)
    out = "".join(label for pair in zip(a_labels, b_labels, strict=True) for label in pair)
    product = contraction_op(a, b, subscripts=f"{a_labels},{b_labels}->{out}")
    return _shaped(product, tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


# -- the cross product ---------------------------------------------------------------------------------------

cross_op: Op = Op(
    "cross",
    lambda x, y: np.cross(x, y),
    ("x", "y"),
    # the triple product g . (x × y) is cyclic
    rules={"x": lambda g, y: cross_op(y, g), "y": lambda g, x: cross_op(g, x)},
    linear="each",
    node="LinalgCross",
    samples=lambda rng: [
        ((rng.normal(size=x), rng.normal(size=y)), {}) for x, y in (((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (4, 3)))
    ],
)


@answers(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Cross product of vectors of length 3, as `numpy.cross`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> import numpy as np
    >>> jg.grad(lambda a: np.cross(a, np.array([0.0, 0.0, 1.0]))[0])(np.ones(3))
    array([0., 1., 0.])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (moveaxis(x, at, -1) if at != -1 else x for x, at in ((asarray(a), axisa), (asarray(b), axisb)))
    if not a.ndim or not b.ndim or a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError.operands("cross", "vectors of length 3", a.shape, b.shape)
    product = cross_op(a, b)
    return product if axisc == -1 else moveaxis(product, -1, axisc)


def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    """Products of all elements of two vectors, as `numpy.linalg.outer`."""
    x1, x2 = asarray(x1), asarray(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError.operands("outer", "two vectors", x1.shape, x2.shape)
    return outer(x1, x2)


def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross product of vectors of length 3, as `numpy.linalg.cross`."""
    return cross(x1, x2, axis=axis)


FUNCTIONS[np.linalg.outer] = _linalg_outer
FUNCTIONS[np.linalg.cross] = _linalg_cross
