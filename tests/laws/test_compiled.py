"""Laws of compiled functions: whatever an op does eagerly, its replay does, on other inputs too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.machine import passes
from jitgrad.machine.passes import Pass
from jitgrad.machine.program import Program
from jitgrad.machine.verify import verify
from jitgrad.transforms import jit as jit_module
from tests.laws.cases import Case, array, assert_near, differentiable, every_case, parts


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the verifier after every pass."""

    def check(_: Pass, program: Program) -> None:
        verify(program)

    def optimised(program: Program) -> Program:
        verify(program)
        return passes.optimised(program, check)

    monkeypatch.setattr(jit_module, "optimised", optimised)


def moved(case: Case) -> tuple[Any, ...]:
    """Another point near the sample's, where no branch is taken otherwise."""
    return tuple(np.asarray(x * (1 + 1e-6), dtype=x.dtype) for x in case.point)


def agree(found: Any, wanted: Any, what: str) -> None:
    for one, other in zip(parts(found), parts(wanted), strict=True):
        assert_near(array(one), array(other), 1e-12 if array(other).dtype.itemsize >= 8 else 3e-6, what)


def replays(f: Any, case: Case) -> None:
    """Compare a function with its compiled self on the sample and on another point."""
    compiled = jg.jit(f)
    agree(compiled(*case.point), f(*case.point), "traced")
    agree(compiled(*case.point), f(*case.point), "replayed")
    other = moved(case)
    agree(compiled(*other), f(*other), "replayed on another input")
    info = compiled.cache_info()
    assert info.misses == 1, f"traced again: {info}"


@every_case(where=differentiable)
def test_replay_equals_eager(case: Case) -> None:
    replays(case.f, case)


@every_case(where=differentiable)
def test_compiled_reverse_equals_eager(case: Case) -> None:
    cotangents = case.cotangents(case.f(*case.point))
    replays(lambda *point: tuple(jg.vjp(case.f, *point)[1](cotangents)), case)


@every_case(where=differentiable)
def test_compiled_forward_equals_eager(case: Case) -> None:
    tangents = case.tangents()
    replays(lambda *point: jg.jvp(case.f, point, tangents)[1], case)


@every_case(where=differentiable)
def test_compiled_second_derivatives_equal_eager(case: Case) -> None:
    cotangents = case.cotangents(case.f(*case.point))
    tangents = case.tangents()

    def second(*point: Any) -> Any:
        return jg.jvp(lambda *p: tuple(jg.vjp(case.f, *p)[1](cotangents)), point, tangents)[1]

    replays(second, case)


@every_case(where=lambda case: not case.op.rules)
def test_ops_without_rules_are_replayed(case: Case) -> None:
    """On integers and booleans, too: all operands are inputs."""
    arrays = [k for k, arg in enumerate(case.args) if isinstance(arg, np.ndarray)]

    def f(*inputs: Any) -> Any:
        args = list(case.args)
        for k, x in zip(arrays, inputs, strict=True):
            args[k] = x
        return case.op(*args, **case.params)

    compiled = jg.jit(f)
    given = [case.args[k] for k in arrays]
    for _ in range(3):
        for one, other in zip(parts(compiled(*given)), parts(f(*given)), strict=True):
            np.testing.assert_array_equal(array(one), array(other))
            assert array(one).dtype == array(other).dtype
    assert compiled.cache_info().misses == 1
