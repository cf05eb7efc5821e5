"""What the laws run on: every sample of every op in the registry."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgrad  # noqa: F401  (declares the ops)
from jitgrad.core.op import REGISTRY, Op
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, on_tape
from jitgrad.core.trace import tracing

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """One sample of one op, made anew for each test: whatever a test does to it stays there."""

    op: Op
    args: tuple[Any, ...]
    params: dict[str, Any]

    @property
    def varying(self) -> tuple[int, ...]:
        """Positions of the operands that derivatives are taken by."""
        return tuple(k for k, arg in enumerate(self.args) if is_inexact(arg) and self.op.rule_of(k) is not None)

    @property
    def point(self) -> tuple[Array, ...]:
        """The operands that derivatives are taken by."""
        return tuple(np.asarray(self.args[k]) for k in self.varying)

    def filled(self, replaced: tuple[Any, ...] | list[Any]) -> list[Any]:
        """Return the operands, with the varying ones replaced."""
        args = list(self.args)
        for k, value in zip(self.varying, replaced, strict=True):
            args[k] = value
        return args

    def f(self, *point: Any) -> Any:
        """Run the op as a function of the varying operands."""
        return self.op(*self.filled(point), **self.params)

    def run(self) -> Any:
        """Run the op on the arrays of the sample."""
        return self.op(*self.args, **self.params)

    def rng(self) -> np.random.Generator:
        """Return a generator whose numbers depend on nothing but the op's name."""
        return seeded(self.op.name + "/law")

    def tangents(self) -> tuple[Array, ...]:
        """Return a random direction for each varying operand."""
        rng = self.rng()
        return tuple(random_like(rng, x) for x in self.point)

    def cotangents(self, out: Any) -> Any:
        """Return a random cotangent for each result."""
        rng = seeded(self.op.name + "/cotangents")
        drawn = tuple(random_like(rng, part) for part in parts(out))
        return drawn if isinstance(out, tuple) else drawn[0]


def recorded(f: Callable[..., Any], point: Sequence[Any]) -> tuple[Tape, Any]:
    """Run a function on a tape of its own; return the tape and the result."""
    tape = Tape()
    with tracing(tape):
        out = f(*(on_tape(x, tape, tape.define(x)) for x in point))
    return tape, out


def seeded(name: str) -> np.random.Generator:
    """Return a generator that is the same in every run."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def is_inexact(value: Any) -> bool:
    """Tell floats and complex numbers, and arrays and tensors of them, from everything else."""
    if isinstance(value, Tensor):
        return value.dtype.kind in "fc"
    return isinstance(value, (np.ndarray, np.generic, float, complex)) and np.asarray(value).dtype.kind in "fc"


def parts(value: Any) -> tuple[Any, ...]:
    """Return the results of an op of one or several."""
    return value if isinstance(value, tuple) else (value,)


def array(value: Any) -> Array:
    """Return the array that a value is, or that a tensor holds."""
    return value._value if isinstance(value, Tensor) else np.asarray(value)


def random_like(rng: np.random.Generator, value: Any) -> Array:
    """Return normally distributed numbers of the shape and dtype of a value; zeros for integers."""
    value = array(value)
    if value.dtype.kind not in "fc":
        return np.zeros(value.shape, value.dtype)
    drawn: Any = rng.standard_normal(value.shape)
    if value.dtype.kind == "c":
        drawn = drawn + 1j * rng.standard_normal(value.shape)
    return np.asarray(drawn, dtype=value.dtype)


def inner(left: Any, right: Any) -> tuple[float, float]:
    """Return the real inner product of a cotangent with a tangent, and the sum of its terms' magnitudes."""
    terms = [np.real(array(a) * array(b)) for a, b in zip(parts(left), parts(right), strict=True)]
    return float(sum(np.sum(t) for t in terms)), float(sum(np.sum(np.abs(t)) for t in terms))


def assert_same(ours: Any, expected: Any, what: str = "") -> None:
    """Assert the same dtype, shape and bits, with all NaNs alike."""
    found, wanted = array(ours), array(expected)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    np.testing.assert_array_equal(found, wanted, err_msg=what, strict=True)
    if wanted.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number], err_msg=what)


def assert_near(ours: Any, expected: Any, rtol: float, what: str = "") -> None:
    """Assert the same dtype and shape, and elements that differ by little in proportion to the largest."""
    found, wanted = array(ours), array(expected)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    scale = float(np.max(np.abs(wanted), initial=0.0))
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale, err_msg=what)


@functools.cache
def _n_samples(op: Op) -> int:
    return sum(1 for _ in op.samples(seeded(op.name))) if op.samples is not None else 0


def case_of(op: Op, index: int) -> Case:
    """Return a fresh copy of one sample."""
    assert op.samples is not None
    args, params = list(op.samples(seeded(op.name)))[index]
    fresh = tuple(np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args)
    return Case(op, fresh, dict(params))


def all_ops(kind: type[Op] = Op) -> list[Any]:
    """Return the registered ops of a kind, in the order of their declaration."""
    return [op for op in REGISTRY.values() if isinstance(op, kind)]


def every_case(kind: type[Op] = Op, where: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    """Parametrise a law over all samples of all ops that it applies to, as the fixture ``case``."""
    return pytest.mark.parametrize("case", list(_cases(kind, where)), indirect=True)


def every_op(kind: type[Op] = Op, where: Callable[[Any], bool] = lambda op: True) -> pytest.MarkDecorator:
    """Parametrise a law over all ops that it applies to, as ``op``."""
    return pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in all_ops(kind) if where(op)])


def _cases(kind: type[Op], where: Callable[[Case], bool]) -> Iterator[Any]:
    for op in all_ops(kind):
        for index in range(_n_samples(op)):
            if where(case_of(op, index)):
                yield pytest.param((op, index), id=f"{op.name}-{index}")


def differentiable(case: Case) -> bool:
    """Tell whether there is a derivative to test."""
    return bool(case.varying)


def of_several(op: Op) -> bool:
    """Tell whether an op has two operands or more."""
    return len(op.operands or ()) > 1
