"""The law of empty arrays: an op takes those that NumPy takes, and gradients have their shapes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.laws.cases import Case, differentiable, every_case, parts


def emptied(case: Case) -> Iterator[Case]:
    """Yield the case with all axes of one length, whichever operand they are of, made empty."""
    if "bounds" in case.params:
        return  # which hold the lengths of the operands
    arrays = [arg for arg in case.args if isinstance(arg, np.ndarray)]
    for length in sorted({n for arg in arrays for n in arg.shape}):
        args = []
        for arg in case.args:
            if isinstance(arg, np.ndarray):
                arg = arg[tuple(slice(0, 0) if n == length else slice(None) for n in arg.shape)]
            args.append(arg)
        yield Case(case.op, tuple(args), case.params)


def gradient(case: Case, cotangents: Any, *point: Any) -> Any:
    """Return the cotangents of the operands."""
    return jg.vjp(case.f, *point)[1](cotangents)


@every_case(where=differentiable)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, as of the mean of nothing
def test_empty_operands(case: Case) -> None:
    for empty in emptied(case):
        try:
            expected = empty.run()
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error)):
                jg.vjp(empty.f, *empty.point)
            continue
        out, pullback = jg.vjp(empty.f, *empty.point)
        for found, wanted in zip(parts(out), parts(expected), strict=True):
            assert (np.asarray(found).dtype, np.shape(found)) == (np.asarray(wanted).dtype, np.shape(wanted))
        bars = pullback(empty.cotangents(out))
        assert [(np.asarray(b).dtype, np.shape(b)) for b in bars] == [(x.dtype, x.shape) for x in empty.point]
        moved = jg.jvp(empty.f, empty.point, empty.tangents())[1]
        for tangent, value in zip(parts(moved), parts(out), strict=True):
            assert np.shape(tangent) == np.shape(value)
        second = jg.vjp(functools.partial(gradient, empty, empty.cotangents(out)), *empty.point)[1](bars)
        assert [np.shape(b) for b in second] == [x.shape for x in empty.point]
