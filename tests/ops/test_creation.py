"""Making arrays: tensors inside a trace, arrays outside; tensors among the values."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgrad as jg
from jitgrad.core.tensor import Tensor
from tests.ops.moves import jnp


def test_creation_inside_and_outside_of_a_trace() -> None:
    assert type(jnp.zeros(3)) is np.ndarray
    made: list[Any] = []

    def f(x: Any) -> Any:
        made.extend([make(3) for make in (jnp.zeros, jnp.ones, jnp.empty, jnp.eye, jnp.identity, jnp.arange)])
        made.append(jnp.full(3, 2.0))
        made.extend([jnp.zeros_like(np.ones(2)), np.ones_like(x), np.empty_like(x), np.full_like(x, 3.0)])
        made.append(jnp.linspace(0, 1, 5))
        made.append(jnp.array([1.0, 2.0]))
        return np.sum(x)

    jg.grad(f)(np.ones(2))
    assert all(type(a) is Tensor for a in made)
    np.testing.assert_array_equal(made[3]._value, np.eye(3))
    assert made[5].dtype == np.arange(3).dtype


def test_creation_from_tensors() -> None:
    out, pullback = jg.vjp(lambda x: jnp.array([[x[0], x[1] * 2], [3.0, x[0]]]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(out, [[1, 4], [3, 1]])
    np.testing.assert_array_equal(pullback(np.array([[1.0, 2.0], [3.0, 4.0]]))[0], [5, 4])
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(jnp.full((2, 3), x)))(2.0), 6.0)
    np.testing.assert_array_equal(jg.grad(lambda x: np.sum(jnp.full_like(np.ones(4), x)))(2.0), 4.0)
    for endpoint in (True, False):
        out, pullback = jg.vjp(lambda a, b, e=endpoint: np.linspace(a, b, 5, endpoint=e), 1.0, 4.0)
        np.testing.assert_allclose(out, np.linspace(1.0, 4.0, 5, endpoint=endpoint), rtol=1e-15)
        bars = pullback(np.arange(5.0))
        share = np.linspace(0, 1, 5, endpoint=endpoint)
        np.testing.assert_allclose(bars, [np.arange(5) @ (1 - share), np.arange(5) @ share], rtol=1e-15)
    out, step = jg.vjp(lambda a: np.linspace(a, np.ones(2), 3, retstep=True, axis=1), np.zeros(2))[0]
    np.testing.assert_array_equal(out, np.linspace(np.zeros(2), np.ones(2), 3, axis=1))
    np.testing.assert_array_equal(step, [0.5, 0.5])
