"""The registry is complete: what an op declares is there, and what it answers for is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.core.op import FUNCTIONS, NAMESPACE, OPS, REGISTRY, Op
from jitgrad.core.tensor import Tensor
from jitgrad.numpy import linalg
from tests.laws.cases import case_of, every_op, is_inexact, parts, recorded, seeded

X = np.array([0.5, 1.5, 2.5])


def test_names_and_numbers_are_one_to_one() -> None:
    assert [op.index for op in OPS] == list(range(len(OPS)))
    assert [op.name for op in OPS] == list(REGISTRY)


@every_op()
def test_has_samples(op: Op) -> None:
    assert op.samples is not None
    samples = list(op.samples(seeded(op.name)))
    assert samples
    for args, params in samples:
        out = op(*args, **params)
        assert not any(isinstance(part, Tensor) for part in parts(out))
        if op.operands is not None:
            assert len(args) == len(op.operands)


@every_op(where=lambda op: bool(op.rules))
def test_each_rule_is_reached_by_a_sample(op: Op) -> None:
    """So that no rule goes untested."""
    reached: set[int] = set()
    n = len(op.operands) if op.operands is not None else 0
    for index in range(len(list(op.samples(seeded(op.name))))):  # type: ignore[misc, arg-type]
        case = case_of(op, index)
        reached.update(case.varying)
    if op.operands is None:
        assert len(reached) > 1
    else:
        assert reached == {k for k in range(n) if op.rule_of(k) is not None}


@every_op(where=lambda op: bool(op.numpy))
def test_is_found_by_numpys_function(op: Op) -> None:
    case = case_of(op, 0)
    for function in op.numpy:
        assert FUNCTIONS[function] is getattr(op, "call", op)
        assert NAMESPACE[function.__name__] is FUNCTIONS[function]
        results: list[Any] = []
        jg.vjp(lambda *xs: results.append(function(*case.filled(xs), **case.params)) or xs, *case.point)  # noqa: B023
        for found, wanted in zip(parts(results[0]), parts(case.run()), strict=True):
            assert isinstance(found, Tensor)
            np.testing.assert_array_equal(found._value, wanted)
            if op.rules and is_inexact(wanted):
                assert found._vid >= 0, "the result is not on the tape"


@pytest.mark.parametrize("name", sorted(NAMESPACE))
def test_public_functions_are_documented(name: str) -> None:
    function = NAMESPACE[name]
    assert callable(function)
    assert (function.__doc__ or "").strip()


@pytest.mark.parametrize("function", [pytest.param(f, id=getattr(f, "__name__", str(f))) for f in FUNCTIONS])
def test_what_answers_for_numpys_function_is_in_the_namespace(function: Any) -> None:
    answer = FUNCTIONS[function]
    assert answer in NAMESPACE.values() or getattr(linalg, function.__name__, None) is answer


@every_op(where=lambda op: not op.rules)
def test_an_op_without_rules_is_not_recorded(op: Op) -> None:
    case = case_of(op, 0)
    tape, out = recorded(lambda x: op(*(x if is_inexact(arg) else arg for arg in case.args), **case.params), [X])
    assert len(tape) == 0
    for part in parts(out):
        assert not isinstance(part, Tensor) or part._vid < 0
