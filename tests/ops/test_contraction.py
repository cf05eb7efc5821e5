"""Products that sum over axes, and diagonals: NumPy's shapes, dtypes and values; derivatives of all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jitgrad as jg
from jitgrad.core.op import FUNCTIONS, REGISTRY
from jitgrad.core.tensor import Tensor, constant
from jitgrad.errors import ShapeError
from jitgrad.ops.contraction import contraction_op
from jitgrad.testing import check_grads

Shape = tuple[int, ...]
SIZES = {"a": 2, "b": 3, "i": 2, "j": 3, "k": 4, "l": 2}


def draw(*shapes: Shape, dtype: Any = "f8") -> list[Any]:
    """Draw arrays that depend on nothing but their shapes."""
    rng = np.random.default_rng(3)
    return [np.asarray(4 * rng.normal(size=shape)).astype(dtype) for shape in shapes]


def array(value: Any) -> Any:
    """Return the array that a tensor holds."""
    return value._value if type(value) is Tensor else np.asarray(value)


def assert_equal_to_numpy(found: Any, wanted: Any) -> None:
    """Assert the same shape and dtype, and the same values but for the order of sums."""
    found, wanted = array(found), np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    eps = float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind in "fc" else 0.0
    scale = float(np.max(np.abs(wanted), initial=0.0)) if eps else 0.0
    assert_allclose(found, wanted, rtol=16 * eps, atol=64 * eps * scale)


def check(f: Callable[..., Any], *args: Any, order: int = 2) -> None:
    """Compare with NumPy on tensors of several dtypes, on arrays, and with differences."""
    ours = FUNCTIONS.get(f, f)
    for dtype in ("f8", "f4", "i8", "c16", "?"):
        cast = [np.asarray(arg).astype(dtype) for arg in args]
        wanted = f(*cast)
        assert_equal_to_numpy(f(*[constant(arg) for arg in cast]), wanted)
        assert_equal_to_numpy(ours(*cast), wanted)
    for k in range(len(args)):  # one is a tensor, the others are arrays
        value, pull = jg.vjp(lambda x, k=k: f(*args[:k], x, *args[k + 1 :]), args[k])
        assert_equal_to_numpy(value, f(*args))
        assert pull(np.ones_like(value))[0].shape == np.shape(args[k])
    check_grads(f, args, order=order)


# -- matmul and dot ------------------------------------------------------------------------------------------

MATMULS = [
    ((3,), (3,)),
    ((2, 3), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((1, 3), (3, 1)),
    ((2, 2, 3), (3, 4)),
    ((2, 3), (2, 3, 4)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((2, 1, 2, 3), (2, 3, 2)),
    ((1, 2, 3), (2, 3, 1)),
    ((2, 2, 3), (1, 3, 2)),
    ((1, 2, 3), (1, 3, 2)),
    ((1, 1, 2, 3), (2, 3, 2)),
]


@pytest.mark.parametrize("shapes", MATMULS, ids=str)
def test_matmul(shapes: tuple[Shape, Shape]) -> None:
    check(np.matmul, *draw(*shapes))


def test_matmul_operators() -> None:
    x, y = draw((2, 3), (3, 4))
    for f in (lambda t: t @ y, lambda t: np.linalg.matmul(t, y), lambda t: t.dot(y)):
        assert_equal_to_numpy(jg.vjp(f, x)[0], x @ y)
    assert_equal_to_numpy(jg.vjp(lambda t: x @ t, y)[0], x @ y)
    assert_equal_to_numpy(jg.vjp(lambda t: x.tolist() @ t, y)[0], x @ y)
    assert_equal_to_numpy(jg.vjp(lambda t: t @ y.tolist(), x)[0], x @ y)
    assert_equal_to_numpy(jg.vjp(lambda s, t: s @ t, x, y)[0], x @ y)


@pytest.mark.parametrize(
    "shapes",
    [
        ((), ()),
        ((), (3,)),
        ((2, 3), ()),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 2, 3), (3,)),
    ],
    ids=str,
)
def test_dot(shapes: tuple[Shape, Shape]) -> None:
    check(np.dot, *draw(*shapes))


@pytest.mark.parametrize(
    "shapes",
    [
        ((0,), (0,)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
        ((2, 3), (3, 0)),
        ((2, 0), (0,)),
        ((0, 2, 3), (3, 2)),
        ((0, 2, 3), (0, 3, 2)),
        ((2, 2, 0), (2, 0, 2)),
    ],
    ids=str,
)
def test_empty_factors(shapes: tuple[Shape, Shape]) -> None:
    x, y = draw(*shapes)
    value, pull = jg.vjp(np.matmul, x, y)
    assert_equal_to_numpy(value, x @ y)
    for bar, factor in zip(pull(np.ones_like(value)), (x, y), strict=True):
        assert_array_equal(bar, np.zeros_like(factor) if not value.size else bar)
        assert bar.shape == factor.shape


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "rolled": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1),
    "broadcast": lambda x: np.broadcast_to(x[..., :1, :], x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shapes", [((4, 4), (4, 4)), ((2, 4, 4), (4, 4)), ((4, 4), (2, 4, 4)), ((2, 4, 4), (2, 4, 4))], ids=str
)
def test_layouts_that_blas_can_and_cannot_read(layout: str, shapes: tuple[Shape, Shape]) -> None:
    x, y = (LAYOUTS[layout](factor) for factor in draw(*shapes))
    g = LAYOUTS[layout](draw((x @ y).shape)[0])
    value, pull = jg.vjp(np.matmul, x, y)
    copies = [np.array(factor, order="C") for factor in (x, y, g)]
    _, pull_copies = jg.vjp(np.matmul, *copies[:2])
    assert_equal_to_numpy(value, np.matmul(*copies[:2]))
    for found, wanted in zip(pull(g), pull_copies(copies[2]), strict=True):
        assert_allclose(found, wanted, rtol=1e-14, atol=1e-13)


def test_matmul_refuses() -> None:
    x, y = draw((2, 3), (2, 3))
    for f in (np.matmul, np.dot):
        with pytest.raises(ShapeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"):
            f(constant(x), y)
    with pytest.raises(ShapeError, match="mat1 and mat2"):
        np.dot(constant(x), np.ones((2, 4, 3)))
    with pytest.raises(ShapeError, match="mat1 and mat2"):
        np.matmul(constant(np.ones((3, 2, 3))), np.ones((2, 3, 4)))
    with pytest.raises(ShapeError, match="scalar"):
        constant(x) @ 2.0
    for f, keywords in (
        (np.matmul, {"dtype": "f4"}),
        (np.matmul, {"axes": [(0, 1), (0, 1), (0, 1)]}),
        (np.dot, {"out": y}),
    ):
        with pytest.raises(TypeError, match=f"takes no {next(iter(keywords))}="):
            f(constant(x), y.T, **keywords)


# -- the other products --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes", [((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((2, 3), (4, 3)), ((2, 1, 3), (2, 3))], ids=str
)
def test_inner(shapes: tuple[Shape, Shape]) -> None:
    check(np.inner, *draw(*shapes))


def test_vdot_and_outer() -> None:
    check(np.vdot, *draw((2, 2), (2, 2)))
    check(np.vdot, *draw((3,), (3,)))
    check(np.outer, *draw((2, 2), (3,)))
    check(np.outer, *draw((), (3,)))
    check(np.linalg.outer, *draw((2,), (3,)))
    with pytest.raises(ShapeError, match="two vectors"):
        np.linalg.outer(constant(np.ones((2, 2))), np.ones(2))
    with pytest.raises(ShapeError, match="as many elements"):
        np.vdot(constant(np.ones(3)), np.ones(2))
    with pytest.raises(ShapeError, match="last axes"):
        np.inner(constant(np.ones(3)), np.ones(2))


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        (((2, 3), (3, 4)), 1),
        (((2, 3), (4,)), 0),
        (((2, 3, 2), (3, 2, 2)), 2),
        (((2, 3, 2), (2, 3, 2)), ([1, 2], [1, 0])),
        (((2, 3), (2, 3)), ((0, 1), (0, 1))),
        (((2, 3, 2), (3, 2)), (1, 0)),
        (((2, 3, 2), (2, 2)), ((-1, 0), (0, -1))),
        (((2, 2, 3), (2, 3, 2)), ((0, 2), (0, 1))),
    ],
    ids=str,
)
def test_tensordot(shapes: tuple[Shape, Shape], axes: Any) -> None:
    check(functools.partial(np.tensordot, axes=axes), *draw(*shapes), order=1)


def test_tensordot_refuses() -> None:
    x = constant(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="shape-mismatch for sum"):
        np.tensordot(x, np.ones((2, 3)), 1)
    with pytest.raises(ShapeError, match="axes in each factor"):
        np.tensordot(x, np.ones((2, 3)), 3)
    with pytest.raises(ValueError, match="repeated axis"):
        np.tensordot(x, np.ones((2, 3)), ((0, 0), (0, 0)))
    with pytest.raises(ValueError, match="axes"):
        np.tensordot(x, np.ones((2, 3)), (0, 1, 2))


@pytest.mark.parametrize(
    "shapes", [((2,), (3,)), ((2, 3), (2, 2)), ((2,), (2, 3)), ((), (2,)), ((2, 1, 2), (3, 2))], ids=str
)
def test_kron(shapes: tuple[Shape, Shape]) -> None:
    check(np.kron, *draw(*shapes), order=1)


def test_cross() -> None:
    for f, shapes in (
        (np.cross, ((3,), (3,))),
        (np.cross, ((2, 3), (3,))),
        (np.cross, ((2, 1, 3), (4, 3))),
        (functools.partial(np.cross, axis=0), ((3, 2), (3, 2))),
        (functools.partial(np.cross, axisa=0, axisb=1, axisc=0), ((3, 2), (2, 3))),
        (functools.partial(np.linalg.cross, axis=0), ((3, 2), (3, 2))),
    ):
        x, y = draw(*shapes)
        assert_equal_to_numpy(f(constant(x), y), f(x, y))
        check_grads(f, (x, y), order=2)
    with pytest.raises(ShapeError, match="length 3"):
        np.cross(constant(np.ones(2)), np.ones(2))


def test_vecdot_matvec_and_vecmat() -> None:
    check(np.vecdot, *draw((2, 3), (3,)))
    check(functools.partial(np.vecdot, axis=0), *draw((3, 2), (3, 1)))
    check(np.linalg.vecdot, *draw((2, 1, 3), (2, 3)))
    with pytest.raises(ShapeError, match="same length"):
        np.vecdot(constant(np.ones((2, 1))), np.ones(3))
    if hasattr(np, "matvec"):
        check(np.matvec, *draw((2, 2, 3), (2, 3)))
        check(np.vecmat, *draw((2,), (3, 2, 3)))
        with pytest.raises(ShapeError, match="matvec"):
            np.matvec(constant(np.ones((2, 1))), np.ones(3))


# -- einsum --------------------------------------------------------------------------------------------------

SUBSCRIPTS = [
    # pairs that BLAS multiplies, in every orientation
    "ij,jk->ik", "ij,jk->ki", "ji,kj->ik", "ij,kj->ik", "ij,jk", "ij,ij->", "i,i->", "ij,j->i", "i,ij->j",
    "ijk,kjl->li", "iajb,ab->ij", "ijk,jki->", "aib,bka->ik", "iaj,jbi->ab",
    # stacks
    "bij,bjk->bik", "ibj,jb->bi", "bij,bj->ib", "abij,bajk->kabi", "bij,bij->bj",
    # no sum, or nothing but a sum of products
    "i,j->ij", "i,j->ji", "ij,ij->ji", "ij,ij->i", "bi,bi->b", "b,bi->ib", "ij,kl->lkij",
    # one operand
    "ij->ji", "ij->j", "ij->", "ij", "ji", "aa->a", "aa", "aa->", "aab->b", "aba->ab", "aaa->a", "aabb->ba",
    # labels of one operand only, repeated ones
    "ij,kl->", "ij,kl->il", "ij,aa->i", "aai,i->a",
    # many operands
    "i,i,i->i", "ij,jk,kl->il", "i,ij,j->", "ij,ik,il->jkl", "bij,bjk,bk->bi", "i,ij,jk,kl,l",
    "a,b,i,j->jiba",
    # scalars
    "i,->i", ",->", "->",
]  # fmt: skip


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_einsum(subscripts: str) -> None:
    shapes = [tuple(SIZES[label] for label in term) for term in subscripts.split("->")[0].split(",")]
    args = draw(*shapes)
    f = functools.partial(np.einsum, subscripts)
    for dtype in ("f8", "f4", "i8", "c16"):
        cast = [arg.astype(dtype) for arg in args]
        assert_equal_to_numpy(f(*[constant(arg) for arg in cast]), np.einsum(subscripts, *cast))
    check_grads(f, args, order=2 if len(args) < 3 else 1)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...ij,...jk->...ik", ((2, 2, 3), (3, 2))),
        ("...ij,...j", ((2, 2, 3), (3,))),
        ("i...->...", ((2, 3, 2),)),
        ("...aa->...a", ((2, 3, 3),)),
        ("...a->a...", ((2, 3, 2),)),
        ("...,...", ((2, 1), (3,))),
        ("i...,i...->...", ((2, 3), (2, 1))),
        ("a...b,b...c->a...c", ((2, 3, 2), (2, 1, 2))),
        (" i j , j k -> i k ", ((2, 3), (3, 2))),
        ("...", ((2, 3),)),
        # axes of length 1 stand for any length
        ("ij,ij->ij", ((2, 1), (2, 3))),
        ("ij,jk->ik", ((2, 1), (3, 2))),
        ("ij,ij->j", ((1, 3), (2, 3))),
        ("...i,...i->...", ((2, 1, 3), (2, 3))),
    ],
)
def test_einsum_with_dots_and_broadcasting(subscripts: str, shapes: tuple[Shape, ...]) -> None:
    args = draw(*shapes)
    f = functools.partial(np.einsum, subscripts)
    assert_equal_to_numpy(f(*map(constant, args)), np.einsum(subscripts, *args))
    check_grads(f, args, order=1)


def test_einsum_by_lists() -> None:
    x, y = draw((2, 3), (3, 2))
    z = draw((2, 2, 3))[0]
    for before, operands in (
        ((x, [0, 1], y, [1, 2], [0, 2]), (0, 2)),
        ((x, [1, 0], y, [0, 2]), (0, 2)),
        ((z, [..., 0], y, [0, 1], [..., 1]), (0, 2)),
        ((z, [2, 2, 5], [5, 2]), (0,)),
    ):
        tensors = [constant(part) if k in operands else part for k, part in enumerate(before)]
        assert_equal_to_numpy(np.einsum(*tensors), np.einsum(*before))


@pytest.mark.parametrize(
    "optimize",
    [
        False,
        True,
        "greedy",
        "optimal",
        ("greedy", 100),
        ["einsum_path", (1, 2), (0, 1)],
        ["einsum_path", (0, 1, 2)],
    ],
    ids=str,
)
def test_einsum_in_every_order(optimize: Any) -> None:
    args = draw((2, 3), (3, 4), (4, 2))
    f = functools.partial(np.einsum, "ij,jk,kl->li", optimize=optimize)
    assert_equal_to_numpy(f(*map(constant, args)), f(*args))
    check_grads(f, args, order=1)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,kl,lm->im", ((2, 3), (3, 4), (4, 2), (2, 5))),
        ("i,ij,j->", ((3,), (3, 4), (4,))),
        ("bij,bjk,bk->bi", ((2, 3, 4), (2, 4, 3), (2, 3))),
        ("ii,ij,jk->k", ((3, 3), (3, 2), (2, 4))),
        ("...i,ij,...j->...", ((5, 2, 3), (3, 4), (2, 4))),
        ("i,i,i,i,i->i", ((4,),) * 5),
        ("ab,cd,ef->fa", ((2, 3), (2, 2), (3, 2))),
        ("ij,kj,lj->ikl", ((2, 3), (4, 3), (2, 3))),
        ("ij,j", ((2, 3), (3,))),
        ("ij,jk,kl", ((2, 3), (3, 4), (4, 2))),
    ],
)
def test_einsum_takes_every_optimize_of_numpys(subscripts: str, shapes: tuple[Any, ...]) -> None:
    args = draw(*shapes)
    path = np.einsum_path(subscripts, *args, optimize="optimal")[0]
    backwards = ["einsum_path", *[(n - 2, n - 1) for n in range(len(args), 1, -1)]]
    expected = np.einsum(subscripts, *args)
    np.testing.assert_allclose(jg.numpy.einsum(subscripts, *args), expected, rtol=1e-12)  # by default
    slopes = jg.grad(lambda *xs: np.sum(np.einsum(subscripts, *xs)), tuple(range(len(args))))(*args)
    for optimize in (False, True, "greedy", "optimal", ("greedy", 10), ("optimal", 1e6), path, tuple(path), backwards):
        f = functools.partial(np.einsum, subscripts, optimize=optimize)
        out, pullback = jg.vjp(f, *args)
        np.testing.assert_allclose(out, f(*args), rtol=1e-12)
        np.testing.assert_allclose(out, expected, rtol=1e-12)
        for bar, slope in zip(pullback(np.ones(expected.shape)), slopes, strict=True):
            np.testing.assert_allclose(bar, slope, rtol=1e-12)


@pytest.mark.parametrize(
    ("optimize", "error"),
    [
        ("best", KeyError),
        (5, TypeError),
        (["greedy"], TypeError),
        (["einsum_path", (0, 1)], RuntimeError),
        (["einsum_path", (0, 7), (0, 1)], IndexError),
        (("greedy", "much"), TypeError),
    ],
)
def test_einsum_refuses_orders_as_numpy_does(optimize: Any, error: type[Exception]) -> None:
    args = draw((2, 3), (3, 4), (4, 2))
    with pytest.raises(error):
        np.einsum("ij,jk,kl", *args, optimize=optimize)
    with pytest.raises(error):
        np.einsum("ij,jk,kl", *map(constant, args), optimize=optimize)


def test_einsum_of_other_dtypes() -> None:
    x, y = draw((2, 3), (3, 2))
    ints = np.arange(6).reshape(3, 2)
    assert_equal_to_numpy(np.einsum("ij,jk", constant(x), ints), np.einsum("ij,jk", x, ints))
    found = np.einsum("ij,jk", constant(x), y, dtype="f4")
    assert_equal_to_numpy(found, np.einsum("ij,jk", x, y, dtype="f4", casting="same_kind"))


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (("ij,jk", np.ones((2, 3))), "1 operands"),
        (("ijk", np.ones((2, 3))), "array of 2 dimensions"),
        (("...ijk", np.ones((2, 3))), "array of 2 dimensions"),
        (("i.j", np.ones((2, 3))), "no letters"),
        (("i1", np.ones((2, 3))), "no letters"),
        (("ij->ii", np.ones((2, 3))), "twice in the result"),
        (("ij->k", np.ones((2, 3))), "in no operand"),
        (("...j->j", np.ones((2, 3))), "ellipsis in the result"),
        (("ii", np.ones((2, 3))), "axes of equal length"),
        (("ij,jk", np.ones((2, 3)), np.ones((2, 3))), "for 'j'"),
        ((np.ones((2, 3)), [0, 99]), "integers from 0 to 51"),
        (("ij",), "at least one operand"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_einsum_refuses(args: tuple[Any, ...], match: str) -> None:
    tensors = [constant(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    with pytest.raises(ValueError, match=match):
        FUNCTIONS[np.einsum](*tensors)


def test_einsum_refuses_keywords() -> None:
    x = constant(np.ones((2, 3)))
    for key, value in (("out", np.ones((2, 3))), ("order", "F"), ("casting", "unsafe")):
        with pytest.raises(TypeError, match=f"takes no {key}="):
            np.einsum("ij", x, **{key: value})


# -- how it is computed --------------------------------------------------------------------------------------


def test_every_contraction_has_a_contraction_as_derivative() -> None:
    # the rule of a rule is one of the forms that the first was: no other op appears
    x, y = draw((2, 3), (3, 4))
    names: set[str] = set()

    class Watch:
        def __init__(self, op: Any) -> None:
            self.op, self.forward = op, op.forward

        def __call__(self, *args: Any, **params: Any) -> Any:
            names.add(self.op.name)
            return self.forward(*args, **params)

    watched = [Watch(op) for op in REGISTRY.values()]
    try:
        for watch in watched:
            watch.op.forward = watch
        _, pull = jg.vjp(np.matmul, x, y)
        names.clear()
        pull(np.ones((2, 4)))
    finally:
        for watch in watched:
            watch.op.forward = watch.forward
    assert names == {"contraction"}


def test_factors_of_constants_are_not_kept() -> None:
    # of x @ y with a constant x, only x is needed again
    x, y = draw((2, 3), (3, 4))
    seen = []

    def f(t: Any) -> Any:
        out = x @ t
        seen.append([kept.shape for kept in out._tape.kept.values()])
        return np.sum(out)

    jg.grad(f)(y)
    assert seen == [[(2, 3)]]


def test_large_contractions_equal_numpys() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(70, 90)), rng.normal(size=(90, 60))
    g = rng.normal(size=(70, 60))
    bars = jg.vjp(np.matmul, x, y)[1](g)
    assert_allclose(bars[0], g @ y.T, rtol=1e-12, atol=1e-11)
    assert_allclose(bars[1], x.T @ g, rtol=1e-12, atol=1e-11)
    a, b = rng.normal(size=(8, 30, 20)), rng.normal(size=(8, 20, 25))
    for subscripts in ("bij,bjk->bik", "bij,bjk->kib", "bij,bjk->ki", "bij,bjl->lbi"):
        found = contraction_op(a, b, subscripts=subscripts)
        assert_allclose(found, np.einsum(subscripts, a, b), rtol=1e-11, atol=1e-11)


# -- diagonals and triangles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 4), (3, 0)], ids=str)
@pytest.mark.parametrize("offset", [0, 1, -2, 9])
def test_diagonals_and_traces(shape: Shape, offset: int) -> None:
    (x,) = draw(shape)
    for f in (np.diagonal, np.trace):
        for axes in ((0, 1), (1, 0)) if len(shape) == 2 else ((0, 1), (-1, 0)):
            g = functools.partial(f, offset=offset, axis1=axes[0], axis2=axes[1])
            for dtype in ("f8", "f4", "i4", "?"):
                assert_equal_to_numpy(g(constant(x.astype(dtype))), g(x.astype(dtype)))
            if x.size:
                check_grads(g, (x,), order=2)
    assert_equal_to_numpy(constant(x).diagonal(offset), x.diagonal(offset))
    assert_equal_to_numpy(constant(x).trace(offset), x.trace(offset))
    assert_equal_to_numpy(np.trace(constant(x.astype("f4")), dtype="f8"), np.trace(x.astype("f4"), dtype="f8"))


@pytest.mark.parametrize("k", [0, 1, -2, 5])
def test_diag_and_triangles(k: int) -> None:
    for f, shapes in (
        (np.diag, ((3,), (3, 4), (0,))),
        (np.diagflat, ((2, 2), (3,), ())),
        (np.tril, ((3, 4), (2, 3, 3), (3,), (0, 2))),
        (np.triu, ((3, 4), (2, 3, 3), (3,), (0, 2))),
    ):
        for x in draw(*shapes):
            g = functools.partial(f, k=k)
            for dtype in ("f8", "f4", "i4"):
                assert_equal_to_numpy(g(constant(x.astype(dtype))), g(x.astype(dtype)))
            if x.size:
                check_grads(g, (x,), order=2)


def test_diagonals_refuse() -> None:
    with pytest.raises(ValueError, match="1- or 2-d"):
        np.diag(constant(np.ones((2, 2, 2))))
    with pytest.raises(ValueError, match="axis1 and axis2 cannot be the same"):
        np.diagonal(constant(np.ones((2, 2))), 0, 1, 1)
    with pytest.raises(TypeError, match="takes no out="):
        np.trace(constant(np.ones((2, 2))), out=np.array(0.0))
