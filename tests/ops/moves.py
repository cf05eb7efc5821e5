"""What tests of ops that only move elements share: a check of value, both modes and second order at once."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgrad as jg
from jitgrad.core.op import NAMESPACE

__all__ = ["check_moves", "jnp", "traced"]


class _Namespace:
    """Attributes are the functions of jitgrad.numpy."""

    def __getattr__(self, name: str) -> Any:
        return NAMESPACE[name]


jnp = _Namespace()


def traced(f: Any, *args: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """The value of a function on tensors, and its vector-Jacobian product with numbers that differ."""
    out, pullback = jg.vjp(f, *args)
    bar = np.asarray(np.arange(1.0, np.size(out) + 1).reshape(np.shape(out)), dtype=out.dtype)
    return out, pullback(bar)


def check_moves(f: Any, x: np.ndarray[Any, Any]) -> None:
    """Value as on arrays, VJP as by unit vectors, JVP and second derivatives."""
    out, (bar,) = traced(f, x)
    expected = np.asarray(f(x))
    np.testing.assert_array_equal(out, expected)
    assert out.shape == expected.shape
    assert out.dtype == expected.dtype
    assert bar.shape == x.shape
    assert bar.dtype == x.dtype
    positions = np.asarray(f(np.arange(float(x.size)).reshape(x.shape)).ravel(), dtype=int)
    counted = np.bincount(positions, np.arange(1.0, expected.size + 1), minlength=x.size).reshape(x.shape)
    np.testing.assert_array_equal(bar, counted)
    tangent = np.cos(np.arange(float(x.size))).reshape(x.shape).astype(x.dtype)
    _, pushed = jg.jvp(f, (x,), (tangent,))
    np.testing.assert_array_equal(pushed, f(tangent))
    # of sum(f(x)^3): the gradient's own derivative goes through the rule of the rule
    weights = np.bincount(positions, minlength=x.size).reshape(x.shape)
    (hvp,) = jg.hvp(lambda y: np.sum(f(y) * f(y) * f(y)), (x,), (tangent,))
    np.testing.assert_allclose(hvp, 6 * weights * x * tangent, rtol=1e-5 if x.dtype == np.float32 else 1e-12)
