"""Laws of values: an op gives what NumPy gives, on arrays and on tensors, whatever the operands look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.tensor import Tensor
from tests.laws.cases import (
    Case,
    array,
    assert_near,
    assert_same,
    case_of,
    differentiable,
    every_case,
    every_op,
    is_inexact,
    of_several,
    parts,
)


def assert_equals_numpy(ours: Any, numpys: Any) -> None:
    """Assert NumPy's dtype, shape and values, these to rounding; to the last digits they are judged elsewhere."""
    for found, wanted in zip(parts(ours), parts(numpys), strict=True):
        wanted = np.asarray(wanted)
        found = array(found)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in "fc":
            tolerance = 4 * np.finfo(wanted.dtype).eps
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(found, wanted)


@every_case(where=lambda case: bool(case.op.numpy))
def test_equals_numpy(case: Case) -> None:
    for function in case.op.numpy:
        assert_equals_numpy(case.run(), function(*case.args, **case.params))


def run_on_tensors(case: Case, which: tuple[int, ...]) -> Any:
    """Run the op with some of the varying operands as tensors."""
    seen: list[Any] = []

    def f(*entered: Any) -> Any:
        point = list(case.point)
        for place, tensor in zip(which, entered, strict=True):
            point[place] = tensor
        seen.append(case.f(*point))
        return seen[0]

    jg.vjp(f, *(case.point[place] for place in which))
    return seen[0]


@every_case(where=differentiable)
def test_tensors_give_what_arrays_give(case: Case) -> None:
    expected = case.run()
    n = len(case.point)
    for which in {tuple(range(n)), *((k,) for k in range(n))}:
        for found, wanted in zip(parts(run_on_tensors(case, which)), parts(expected), strict=True):
            assert isinstance(found, Tensor)
            assert_same(found, wanted)


def broadcasts(args: tuple[Any, ...]) -> Iterator[list[Any]]:
    """Yield operands of shapes that stretch against each other in every way, made of parts of (3, 4) ones."""
    views: tuple[Callable[[Any], Any], ...] = (
        lambda x: x,
        lambda x: x[:1],
        lambda x: x[:, :1],
        lambda x: x[0],
        lambda x: x[0, 0],
        lambda x: x[:, None],
    )
    for turn in range(len(views)):
        for shift in (1, 2, 3):
            yield [views[(turn + k * shift) % len(views)](arg) for k, arg in enumerate(args)]


@every_op(Elementwise, where=of_several)
def test_broadcasts_as_numpy(op: Elementwise) -> None:
    case = case_of(op, 0)
    for args in broadcasts(tuple(np.resize(arg, (3, 4)) for arg in case.args)):
        expected = op(*(np.array(arg) for arg in np.broadcast_arrays(*args)))
        assert_equals_numpy(op(*args), expected)
        case = Case(op, tuple(args), {})
        if case.varying:
            assert_equals_numpy(run_on_tensors(case, tuple(range(len(case.varying)))), expected)
            bars = jg.vjp(case.f, *case.point)[1](case.cotangents(case.run()))
            assert [np.shape(bar) for bar in bars] == [np.shape(x) for x in case.point]


def scalars(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield operands among which are scalars of every kind."""
    firsts = [np.asarray(arg).flat[0] for arg in args]
    kinds: tuple[Callable[[Any], Any], ...] = (np.asarray, lambda x: x, lambda x: x.item())
    for kind in kinds:
        yield tuple(kind(first) for first in firsts)
        for k in range(len(args) if len(args) > 1 else 0):
            for dtype in (np.float64, np.float32):
                others = [np.asarray(arg).astype(dtype) if is_inexact(arg) else arg for arg in args]
                yield (*others[:k], kind(firsts[k]), *others[k + 1 :])


@every_op(Elementwise, where=lambda op: bool(op.numpy))
def test_scalars_promote_as_in_numpy(op: Elementwise) -> None:
    case = case_of(op, 0)
    for args in scalars(case.args):
        expected = op.numpy[0](*args)
        found = op(*args)
        assert np.result_type(found) == np.result_type(expected), args
        assert np.shape(found) == np.shape(expected)
        if any(isinstance(arg, np.ndarray) and arg.ndim and is_inexact(arg) for arg in args):
            inside: list[Any] = []
            jg.vjp(lambda *xs: inside.append(op(*fill(args, xs))) or xs, *filter(tensorable, args))  # noqa: B023
            assert (inside[0].dtype, inside[0].shape) == (array(expected).dtype, array(expected).shape)
            np.testing.assert_array_equal(array(inside[0]), array(found))


def tensorable(arg: Any) -> bool:
    """Tell arrays of floats from scalars and the rest."""
    return isinstance(arg, np.ndarray) and arg.ndim > 0 and is_inexact(arg)


def fill(args: tuple[Any, ...], replaced: tuple[Any, ...]) -> list[Any]:
    """Return the arguments, with its arrays of floats replaced."""
    rest = iter(replaced)
    return [next(rest) if tensorable(arg) else arg for arg in args]


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint32, np.float16, np.complex128])
@every_op(Elementwise, where=lambda op: bool(op.numpy))
def test_other_dtypes_promote_as_in_numpy(op: Elementwise, dtype: type[np.generic]) -> None:
    args = tuple(np.asarray(arg).astype(dtype) for arg in case_of(op, 0).args)
    for function in op.numpy:
        with np.errstate(all="ignore"):
            try:
                expected = function(*args)
            except TypeError:
                with pytest.raises(TypeError):
                    op(*args)
                continue
            found = op(*args)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)


@every_case(where=lambda case: any(np.asarray(x).dtype == np.float64 for x in case.point))
def test_float32_stays_float32(case: Case) -> None:
    if case.params.get("dtype") is not None:
        pytest.skip("the dtype of the result is a parameter")
    point = [np.asarray(x, np.float32) if x.dtype == np.float64 else x for x in case.point]
    out, pullback = jg.vjp(case.f, *point)
    for found, wanted in zip(parts(out), parts(case.run()), strict=True):
        if np.asarray(wanted).dtype == np.float64:
            assert np.asarray(found).dtype == np.float32
            assert_near(np.float64(found), wanted, 1e-5)
    bars = pullback(case.cotangents(out))
    exact = jg.vjp(case.f, *(np.asarray(x, np.float64) if x.dtype == np.float32 else x for x in point))[1](
        tuple(np.float64(c) if c.dtype == np.float32 else c for c in parts(case.cotangents(out)))
        if isinstance(out, tuple)
        else array(np.float64(case.cotangents(out)))
    )
    for x, bar, reference in zip(point, bars, exact, strict=True):
        assert np.asarray(bar).dtype == x.dtype
        assert_near(np.asarray(bar).astype(np.float64), reference, 1e-4)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "fortran": lambda x: np.array(x, order="F"),
    "reversed": lambda x: np.array(x[(slice(None, None, -1),) * x.ndim])[(slice(None, None, -1),) * x.ndim],
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "padded": lambda x: np.pad(x, [(1, 2)] * x.ndim)[(slice(1, -2),) * x.ndim] if x.ndim else x,
    "readonly": lambda x: np.lib.stride_tricks.as_strided(x, writeable=False),
    "swapped": lambda x: np.swapaxes(np.array(np.swapaxes(x, 0, -1)), 0, -1) if x.ndim else x,
}


@every_case(where=differentiable)
def test_layout_does_not_matter(case: Case) -> None:
    out, pullback = jg.vjp(case.f, *case.point)
    bars = pullback(case.cotangents(out))
    for name, layout in LAYOUTS.items():
        point = [layout(x) for x in case.point]
        again, pull = jg.vjp(case.f, *point)
        for found, wanted in zip(parts(again), parts(out), strict=True):
            assert_near(found, wanted, 1e-14, name)
        cotangents = case.cotangents(out)
        moved = tuple(layout(c) for c in cotangents) if isinstance(cotangents, tuple) else layout(cotangents)
        for found, wanted in zip(pull(moved), bars, strict=True):
            assert_near(found, wanted, 1e-14, name)


@every_case(where=differentiable)
def test_broadcast_views_are_operands_as_any(case: Case) -> None:
    constant = [np.broadcast_to(x.flat[0], x.shape) if x.size else x for x in case.point]
    copied = [np.array(x) for x in constant]
    out, pullback = jg.vjp(case.f, *constant)
    expected, pull = jg.vjp(case.f, *copied)
    for found, wanted in zip(parts(out), parts(expected), strict=True):
        assert_near(found, wanted, 1e-14)
    cotangents = case.cotangents(out)
    for found, wanted in zip(pullback(cotangents), pull(cotangents), strict=True):
        assert_near(found, wanted, 1e-14)


@every_case(where=differentiable)
def test_operands_are_not_written_to(case: Case) -> None:
    before = [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in case.args]
    out, pullback = jg.vjp(case.f, *case.point)
    cotangents = case.cotangents(out)
    kept = [np.array(c) for c in parts(cotangents)]
    value = [np.array(part) for part in parts(out)]
    pullback(cotangents)
    pullback(cotangents)
    jg.jvp(case.f, case.point, case.tangents())
    for arg, copy in zip(case.args, before, strict=True):
        if isinstance(arg, np.ndarray):
            assert_same(arg, copy)
    for c, copy in zip(parts(cotangents), kept, strict=True):
        assert_same(c, copy)
    for part, copy in zip(parts(out), value, strict=True):
        assert_same(part, copy)
