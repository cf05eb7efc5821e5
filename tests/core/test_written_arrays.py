"""NumPy arrays of the user's that are written to between forward and reverse: never a wrong gradient in silence."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.errors import InplaceError
from jitgrad.kernels.layout import SMALL

LARGE = 3 * SMALL


def test_a_buffer_may_be_used_over_and_over() -> None:
    def f(x):
        buffer = np.empty(3)
        y = 0.0
        for k in range(3):
            buffer[:] = k
            y = y + np.sum(x * buffer)
        return y

    assert jg.grad(f)(2.0) == 9.0


@pytest.mark.parametrize("op", [np.multiply, np.matmul, np.maximum, lambda x, y: jg.numpy.where(y > 0, x * y, y)])
def test_small_constants_are_kept_as_they_were(op) -> None:
    x, constant = np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])
    expected = jg.grad(lambda x: np.sum(op(x, constant.copy())))(x)

    def f(x):
        y = op(x, constant)
        constant[:] = 100.0
        return np.sum(y)

    np.testing.assert_array_equal(jg.grad(f)(x), expected)


def test_an_argument_may_be_written_to_after_vjp() -> None:
    a = np.ones(3)
    _, pull = jg.vjp(lambda x: x * x, a)
    a[:] = 7.0
    np.testing.assert_array_equal(pull(np.ones(3))[0], np.full(3, 2.0))


@pytest.mark.parametrize("write", [slice(None), 0, -1, slice(100, 1000)])
def test_a_large_constant_that_was_written_to_is_refused(write) -> None:
    constant = np.linspace(1.0, 2.0, LARGE)

    def f(x):
        y = x * constant
        constant[write] = 5.0
        return np.sum(y)

    with pytest.raises(InplaceError, match=rf"modified by an inplace operation: .float64 .{LARGE}.., a NumPy array"):
        jg.grad(f)(np.ones(LARGE))


def test_a_large_argument_that_was_written_to_is_refused() -> None:
    a = np.ones(LARGE)
    _, pull = jg.vjp(lambda x: x * x, a)
    a += 1.0
    with pytest.raises(InplaceError, match="a NumPy array"):
        pull(np.ones(LARGE))


def test_what_no_rule_needs_may_be_written_to() -> None:
    constant = np.linspace(1.0, 2.0, LARGE)

    def f(x):
        y = x + constant
        constant[:] = 5.0
        return np.sum(y)

    np.testing.assert_array_equal(jg.grad(f)(np.ones(LARGE)), np.ones(LARGE))
