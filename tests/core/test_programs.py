"""Random programs: the value is NumPy's, and the derivatives are a complex step's, by every transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as jg
import jitgrad.numpy as jnp
from jitgrad.testing import numerical_jvp
from tests.programs import FUNCTIONS, Program, complex_step, programs

seeds = st.integers(0, 2**16)
thorough = settings(max_examples=150, deadline=None, derandomize=True, database=None)


def directions(program: Program, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed + 1)
    return [rng.standard_normal(shape) for shape in program.shapes]


def inner(left: Any, right: Any) -> tuple[float, float]:
    terms = [np.asarray(a) * np.asarray(b) for a, b in zip(left, right, strict=True)]
    return float(sum(np.sum(t) for t in terms)), float(sum(np.sum(np.abs(t)) for t in terms))


@thorough
@given(programs(), seeds)
def test_derivatives_are_those_of_a_complex_step(program: Program, seed: int) -> None:
    check_first_derivatives(program, seed)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(programs(large=True), seeds)
def test_derivatives_of_large_programs_are_those_of_a_complex_step(program: Program, seed: int) -> None:
    check_first_derivatives(program, seed)


def check_first_derivatives(program: Program, seed: int) -> None:
    inputs, u = program.inputs(seed), directions(program, seed)
    everything = tuple(range(len(inputs)))
    expected_value = program.run(np, *inputs)
    expected = complex_step(program, inputs, u)
    value, gradient = jg.value_and_grad(lambda *xs: program.run(np, *xs), everything)(*inputs)
    assert [g.shape for g in gradient] == list(program.shapes)
    np.testing.assert_allclose(value, expected_value, rtol=1e-12, atol=1e-12)
    found, scale = inner(gradient, u)
    assert abs(found - expected) <= 1e-11 * (1.0 + scale), str(program)
    value, tangent = jg.jvp(lambda *xs: program.run(np, *xs), inputs, u)
    np.testing.assert_allclose(value, expected_value, rtol=1e-12, atol=1e-12)
    assert abs(tangent - expected) <= 1e-11 * (1.0 + scale), str(program)


@thorough
@given(programs(), seeds)
def test_second_derivatives_are_symmetric_and_those_of_a_complex_step(program: Program, seed: int) -> None:
    inputs, u = program.inputs(seed), directions(program, seed)
    everything = tuple(range(len(inputs)))

    def gradient(*xs: Any) -> Any:
        return jg.grad(lambda *ys: program.run(np, *ys), everything)(*xs)

    w = directions(program, seed + 7)
    forward_over_reverse = jg.jvp(gradient, inputs, u)[1]
    reverse_over_reverse = jg.vjp(gradient, *inputs)[1](tuple(u))
    one, scale = inner(forward_over_reverse, w)
    other, _ = inner(reverse_over_reverse, w)
    assert abs(one - other) <= 1e-11 * (1.0 + scale), str(program)
    # the gradient of the pushforward, differentiated in turn
    pushed = jg.jvp(lambda *xs: jg.jvp(lambda *ys: program.run(np, *ys), xs, u)[1], inputs, w)[1]
    assert abs(one - pushed) <= 1e-11 * (1.0 + scale), str(program)
    # and against differences of the gradient, which share no second derivative with it
    numerical = numerical_jvp(lambda *xs: inner(gradient(*xs), w)[0], inputs, u)
    assert abs(one - numerical) <= 1e-7 * (1.0 + scale), str(program)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(programs(), seeds)
def test_our_namespace_equals_numpys(program: Program, seed: int) -> None:
    inputs = program.inputs(seed)
    everything = tuple(range(len(inputs)))
    expected = jg.value_and_grad(lambda *xs: program.run(np, *xs), everything)(*inputs)
    found = jg.value_and_grad(lambda *xs: program.run(jnp, *xs), everything)(*inputs)
    for ours, theirs in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(program.run(jnp, *inputs), program.run(np, *inputs), rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(programs(), seeds)
def test_float32_programs_stay_float32(program: Program, seed: int) -> None:
    inputs = program.inputs(seed, np.float32)
    everything = tuple(range(len(inputs)))
    value, gradient = jg.value_and_grad(lambda *xs: program.run(np, *xs), everything)(*inputs)
    assert value.dtype == program.run(np, *inputs).dtype == np.float32
    assert {g.dtype for g in gradient} == {np.dtype(np.float32)}
    assert all(np.all(np.isfinite(g)) for g in gradient)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_drawn(name: str) -> None:
    """The generator reaches all that it claims to."""
    seen = drawn_functions()
    assert name in seen


_SEEN: set[str] = set()


def drawn_functions() -> set[str]:
    if not _SEEN:

        @settings(max_examples=300, deadline=None, derandomize=True, database=None)
        @given(programs())
        def draw(program: Program) -> None:
            _SEEN.update(step.function for step in program.steps)

        draw()
    return _SEEN
