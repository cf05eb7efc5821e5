"""Laws of recording and replay: by whichever way a derivative is come by, it is the same."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np

import jitgrad as jg
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.tensor import Tensor
from jitgrad.kernels import layout as L
from tests.laws.cases import (
    Case,
    array,
    assert_near,
    assert_same,
    case_of,
    differentiable,
    every_case,
    every_op,
    parts,
    random_like,
    recorded,
    seeded,
)


@every_case(where=differentiable)
def test_numeric_replay_equals_recorded_replay(case: Case) -> None:
    out, pullback = jg.vjp(case.f, *case.point)
    cotangents = case.cotangents(out)
    inside: list[Any] = []

    def nested(*point: Any) -> Any:
        inside.append(jg.vjp(case.f, *point)[1](cotangents))
        inside.append(jg.jvp(case.f, point, case.tangents())[1])
        return inside[0]

    jg.vjp(nested, *case.point)
    for found, wanted in zip(inside[0], pullback(cotangents), strict=True):
        assert isinstance(found, Tensor)
        assert_near(found, wanted, 1e-14, "reverse")
    moved = jg.jvp(case.f, case.point, case.tangents())[1]
    for found, wanted in zip(parts(inside[1]), parts(moved), strict=True):
        assert_near(found, wanted, 1e-14, "forward")


@every_op(Elementwise, where=lambda op: bool(op.rules))
def test_small_rows_equal_large_rows(op: Elementwise) -> None:
    """Around where native rows end, and at odd extents, whose ends vector loops leave to scalar code."""
    sample = case_of(op, 0)
    n = 2 * L.SMALL + 7
    rng = seeded(op.name)
    args = [np.resize(arg, n) if isinstance(arg, np.ndarray) and arg.ndim else arg for arg in sample.args]
    large = Case(op, tuple(args), {})
    cotangent = random_like(rng, large.run())
    out, pullback = jg.vjp(large.f, *large.point)
    bars = pullback(cotangent)
    edges = [0, 1, 8, 8 + L.SMALL, n - 5, n]
    for start, end in itertools.pairwise(edges):
        pieces = [arg[start:end] if isinstance(arg, np.ndarray) and arg.ndim else arg for arg in args]
        small = Case(op, tuple(pieces), {})
        piece, pull = jg.vjp(small.f, *small.point)
        assert_same(piece, out[start:end])
        for found, wanted in zip(pull(cotangent[start:end].copy()), bars, strict=True):
            assert_near(found, wanted[start:end], 1e-15)


@every_case(where=differentiable)
def test_runs_are_equal_bit_for_bit(case: Case) -> None:
    def everything() -> list[Any]:
        out, pullback = jg.vjp(case.f, *case.point)
        cotangents = case.cotangents(out)
        return [
            *parts(out),
            *pullback(cotangents),
            *pullback(cotangents),
            *parts(jg.jvp(case.f, case.point, case.tangents())[1]),
        ]

    first = everything()
    n = len(case.point)
    n_out = len(first) - 2 * n
    for found, wanted in zip(everything(), first, strict=True):
        assert_same(found, wanted)
    for k in range(n):
        assert_same(first[n_out // 2 + k], first[n_out // 2 + n + k], "a pullback called twice")


@every_case(where=differentiable)
def test_only_what_the_rules_name_is_kept(case: Case) -> None:
    n = len(case.point)
    for which in {tuple(range(n)), *((k,) for k in range(n))}:

        def f(*entered: Any, which: tuple[int, ...] = which) -> Any:
            point = list(case.point)
            for place, tensor in zip(which, entered, strict=True):
                point[place] = tensor
            return case.f(*point)

        tape, _ = recorded(f, [case.point[place] for place in which])
        assert len(tape) == 1, "an op is one instruction"
        row = tape.row(0)
        ids = tape.operands_of(row)
        moving = {case.varying[place] for place in which}
        wanted, keeps_result, _ = case.op.needs(tuple(k in moving for k in range(len(ids))))
        missing = [k for k in wanted if ids[k] < 0 and isinstance(case.args[k], np.ndarray)]
        assert not missing, "a rule would look in vain for a constant operand"
        expected = {ids[k] for k in wanted if ids[k] >= 0}
        if keeps_result:
            expected |= set(range(row[L.ROW_RESULT], row[L.ROW_RESULT] + row[L.ROW_N_RESULTS]))
        assert set(tape.kept) == expected
        for k in wanted:
            if ids[k] >= 0:
                np.testing.assert_array_equal(tape.kept[ids[k]], case.args[k])


@every_case(where=differentiable)
def test_what_is_kept_of_results_is_no_copy_and_of_small_constants_is_one(case: Case) -> None:
    """The user may write to a constant before the replay, but not to a result that a tensor holds."""
    tape, out = recorded(case.f, case.point)
    results = [array(part) for part in parts(out)]
    for vid, kept in tape.kept.items():
        if kept.ndim and kept.size:
            if tape.producer(vid) >= 0:
                assert any(np.shares_memory(kept, x) for x in results)
            elif vid >= len(case.point):
                assert not any(np.shares_memory(kept, x) for x in case.args if np.ndim(x))


@every_case(where=differentiable)
def test_instructions_know_the_line_that_made_them(case: Case) -> None:
    line = -1

    def record(*point: Any) -> Any:
        nonlocal line
        args = case.filled(point)
        line = sys._getframe().f_lineno + 1
        return case.op(*args, **case.params)

    tape, _ = recorded(record, case.point)
    location = tape.location(0)
    assert location.file == __file__
    assert (location.line, location.function.rpartition(".")[2]) == (line, "record")


@every_case(where=differentiable)
def test_rows_of_a_recorded_gradient_know_the_line_of_the_primal(case: Case) -> None:
    line = -1

    def record(*point: Any) -> Any:
        nonlocal line
        args = case.filled(point)
        line = sys._getframe().f_lineno + 1
        return case.op(*args, **case.params)

    cotangents = case.cotangents(case.run())
    tape, _ = recorded(lambda *point: jg.vjp(record, *point)[1](cotangents), case.point)
    assert {tape.location(at).file for at in range(len(tape))} == {__file__}
    made = [tape.location(at) for at in range(len(tape)) if tape.location(at).function.endswith(".record")]
    assert {location.line for location in made} == {line}
