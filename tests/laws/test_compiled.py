"""Laws of compiled functions: whatever an op does eagerly, its replay does, on other inputs too."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import optree
import pytest

import jitgrad as jg
from jitgrad.core.op import NAMESPACE, Op
from jitgrad.machine import passes
from jitgrad.machine.passes import Pass
from jitgrad.machine.program import Program
from jitgrad.machine.verify import verify
from jitgrad.transforms import jit as jit_module
from tests.laws.cases import Case, array, assert_near, case_of, differentiable, every_case, every_op, parts


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


@every_op(where=lambda op: bool(op.rules) and differentiable(case_of(op, 0)))
def test_compiled_second_derivatives_equal_eager(op: Op) -> None:
    """On one sample of each op: the other laws have compiled the rest."""
    case = case_of(op, 0)
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


# -- the whole namespace -----------------------------------------------------------------------------------------------

_RNG = np.random.default_rng(3)
_PAIRS: dict[str, tuple[Any, Any]] = {
    "floats": (_RNG.uniform(-2, 2, (3, 4)), _RNG.uniform(-2, 2, (3, 4))),
    "integers": (_RNG.integers(1, 9, (3, 4)), _RNG.integers(1, 9, (3, 4))),
    "booleans": (_RNG.uniform(size=(3, 4)) > 0.5, _RNG.uniform(size=(3, 4)) > 0.5),
    "vectors": (np.sort(_RNG.uniform(-2, 2, 6)), np.sort(_RNG.uniform(-2, 2, 6))),
    "positions": (_RNG.integers(0, 6, 6), _RNG.integers(0, 6, 6)),
}
_NAMES = [name for name in sorted(NAMESPACE) if name not in ("empty", "empty_like")]


_REFUSALS = (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError)  # of arguments that are not for it


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arity", [1, 2])
@pytest.mark.parametrize("name", _NAMES)
def test_nothing_of_an_input_is_baked(name: str, arity: int) -> None:
    """Whatever a function of NumPy's is given, its replay on other inputs is its result on these."""
    function = NAMESPACE[name]
    ufunc = getattr(np, name, None)
    if isinstance(ufunc, np.ufunc) and ufunc.nin < arity:
        return  # what follows its operands is out=
    choices = itertools.product(_PAIRS.values(), repeat=2)
    for first, second in choices if arity == 2 else [(pair, pair) for pair in _PAIRS.values()]:
        traced = (first[0], second[0])[:arity]
        other = (first[1], second[1])[:arity]
        if _refused(function, *traced) or _refused(function, *other):
            continue
        compiled = jg.jit(function)
        if _refused(compiled, *traced):
            # not for tensors of such a dtype: then eager tensors are refused as well
            assert _refused(lambda *args: jg.vjp(lambda _: function(*map(jg.tensor, args)), 1.0), *traced), name
            continue
        for args in (other, traced):
            found, wanted = compiled(*args), function(*args)
            for one, expected in zip(optree.tree_leaves(found), optree.tree_leaves(wanted), strict=True):
                np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-12, err_msg=f"{name} of {args}")


def _refused(function: Any, *args: Any) -> bool:
    try:
        function(*args)
    except _REFUSALS:
        return True
    return False
