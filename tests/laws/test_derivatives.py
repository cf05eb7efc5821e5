"""Laws of derivatives: forward mode against differences, reverse mode against forward mode, second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.elementwise import Elementwise
from jitgrad.errors import NoGradientError
from jitgrad.testing import check_grads, numerical_jvp
from tests.laws.cases import (
    Case,
    array,
    assert_near,
    case_of,
    differentiable,
    every_case,
    every_op,
    inner,
    parts,
    random_like,
    seeded,
)

REAL = np.dtype(np.float64)


@every_case(where=differentiable)
def test_forward_mode_equals_differences(case: Case) -> None:
    n = len(case.point)
    tangents = case.tangents()
    # in all operands at once, and in each by itself: a term must not be made up for by another
    masks = {tuple(range(n)), *((k,) for k in range(n))}
    for mask in masks:
        directions = tuple(u if k in mask else np.zeros_like(u) for k, u in enumerate(tangents))
        out, moved = jg.jvp(case.f, case.point, directions)
        numerical = numerical_jvp(case.f, case.point, directions)
        for value, found, wanted in zip(parts(out), parts(moved), parts(numerical), strict=True):
            assert np.shape(found) == np.shape(value)
            if np.asarray(value).dtype.kind in "fc":
                assert np.asarray(found).dtype == np.asarray(value).dtype
                scale = np.max(np.abs(value), initial=0.0) + np.max(np.abs(wanted), initial=1e-3)
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * scale)


@every_case(where=differentiable)
def test_adjoint_identity(case: Case) -> None:
    out, moved = jg.jvp(case.f, case.point, case.tangents())
    cotangents = case.cotangents(out)
    bars = jg.vjp(case.f, *case.point)[1](cotangents)
    assert [(np.asarray(b).dtype, np.shape(b)) for b in bars] == [(x.dtype, x.shape) for x in case.point]
    left, left_scale = inner(cotangents, moved)
    right, right_scale = inner(bars, case.tangents())
    assert abs(left - right) <= 1e-12 * max(left_scale, right_scale)


@every_case(where=differentiable)
def test_a_zero_cotangent_stays_zero(case: Case) -> None:
    out, pullback = jg.vjp(case.f, *case.point)
    zeros = tuple(np.zeros_like(part) for part in parts(out))
    for bar in pullback(zeros if isinstance(out, tuple) else zeros[0]):
        np.testing.assert_array_equal(bar, np.zeros_like(bar))


@every_case(where=differentiable)
def test_operands_on_the_tape_one_by_one(case: Case) -> None:
    """An operand's derivative is the same whether or not the others are differentiated by too."""
    out, pullback = jg.vjp(case.f, *case.point)
    cotangents = case.cotangents(out)
    together = pullback(cotangents)
    for k, x in enumerate(case.point):

        def alone(moving: Any, k: int = k) -> Any:
            point = list(case.point)
            point[k] = moving
            return case.f(*point)

        (bar,) = jg.vjp(alone, x)[1](cotangents)
        assert_near(bar, together[k], 1e-14)


@every_case(where=differentiable)
def test_second_order_equals_differences_of_first(case: Case) -> None:
    scale = max(float(np.max(np.abs(part), initial=1.0)) for part in map(array, parts(case.run())))
    check_grads(case.f, case.point, order=2, atol=1e-8 * scale, rtol=1e-8)


@every_case(where=lambda case: differentiable(case) and all(x.dtype == REAL for x in case.point))
def test_second_derivatives_are_symmetric(case: Case) -> None:
    """Of f contracted with a cotangent, H u by three ways, and u' H w by both orders."""
    out = case.run()
    if any(np.asarray(part).dtype.kind == "c" for part in parts(out)):
        pytest.skip("the contraction below is of real functions")
    cotangents = case.cotangents(out)
    rng = seeded(case.op.name + "/second")
    u = tuple(random_like(rng, x) for x in case.point)
    w = tuple(random_like(rng, x) for x in case.point)

    def gradient(*point: Any) -> Any:
        return jg.vjp(case.f, *point)[1](cotangents)

    forward_over_reverse = jg.jvp(gradient, case.point, u)[1]
    first, pullback = jg.vjp(gradient, *case.point)
    reverse_over_reverse = pullback(u)
    pushed_twice = jg.jvp(lambda *point: jg.jvp(case.f, point, u)[1], case.point, w)[1]
    size = float(sum(np.sum(np.abs(array(g))) for g in first)) + 1
    for one, other in zip(forward_over_reverse, reverse_over_reverse, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13 * size)
    contracted, scale = inner(forward_over_reverse, w)
    exchanged, _ = inner(pullback(w), u)
    assert abs(contracted - exchanged) <= 1e-12 * (scale + size)
    pushed, pushed_scale = inner(cotangents, pushed_twice)
    assert abs(contracted - pushed) <= 1e-12 * (scale + pushed_scale + size)


@every_op(Elementwise, where=lambda op: bool(op.numpy and op.rules))
def test_complex_operands_are_differentiated_rightly_or_refused(op: Elementwise) -> None:
    """Cotangents pair with tangents by the real part of their product, without conjugation."""
    sample = case_of(op, 0)
    rng = seeded(op.name + "/complex")
    args = [np.asarray(arg) * (1 + 0.3j) if k in sample.varying else arg for k, arg in enumerate(sample.args)]
    try:
        op.numpy[0](*args)
    except TypeError:
        with pytest.raises(TypeError):
            op(*args)
        return
    case = Case(op, tuple(args), {})
    u = tuple(random_like(rng, x) for x in case.point)
    try:
        out, moved = jg.jvp(case.f, case.point, u)
    except (NoGradientError, TypeError):
        with pytest.raises((NoGradientError, TypeError)):
            jg.vjp(case.f, *case.point)[1](case.cotangents(case.run()))
        return
    numerical = numerical_jvp(case.f, case.point, u)
    assert np.asarray(moved).dtype == np.asarray(out).dtype
    np.testing.assert_allclose(moved, numerical, rtol=1e-9, atol=1e-9)
    cotangents = case.cotangents(out)
    left, scale = inner(cotangents, moved)
    right, _ = inner(jg.vjp(case.f, *case.point)[1](cotangents), u)
    assert abs(left - right) <= 1e-12 * scale
