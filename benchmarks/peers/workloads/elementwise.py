"""``sum(tanh(x*y) + exp(-x*x)*y)`` over a million elements: memory traffic and transcendental functions."""

from typing import Any

import numpy as np

from benchmarks.peers.workload import Inputs, Workload


def make_inputs(n: int) -> Inputs:
    rng = np.random.default_rng(1)
    return rng.normal(size=n), rng.normal(size=n)


def inputs() -> Inputs:
    return make_inputs(1_000_000)


def small_inputs() -> Inputs:
    return make_inputs(8)


def loss(xp: Any, x: Any, y: Any) -> Any:
    return xp.sum(xp.tanh(x * y) + xp.exp(-x * x) * y)


def numba_value_and_grad(nb: Any) -> Any:
    @nb.njit(parallel=True)
    def value_and_grad(x, y):  # type: ignore[no-untyped-def]
        grad_x = np.empty_like(x)
        grad_y = np.empty_like(y)
        total = 0.0
        for i in nb.prange(len(x)):
            t = np.tanh(x[i] * y[i])
            e = np.exp(-x[i] * x[i])
            total += t + e * y[i]
            bar_product = 1.0 - t * t
            grad_x[i] = bar_product * y[i] - 2.0 * x[i] * e * y[i]
            grad_y[i] = bar_product * x[i] + e
        return total, grad_x, grad_y

    return value_and_grad


WORKLOAD = Workload(
    title="elementwise, 1M",
    inputs=inputs,
    loss=loss,
    argnums=(0, 1),
    numba=numba_value_and_grad,
    small_inputs=small_inputs,
)
