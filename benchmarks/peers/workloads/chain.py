"""A chain of 100 operations on arrays of length 10: nothing but the cost of an operation."""

from typing import Any

import numpy as np

from benchmarks.peers.workload import Inputs, Workload

LINKS = 20


def inputs() -> Inputs:
    return (np.linspace(0.3, 1.2, 10),)


def links(xp: Any, x: Any) -> Any:
    y = x
    for _ in range(LINKS):  # five operations a link
        y = xp.sin(y * x)
        y = xp.tanh(y + x)
        y = y - 0.25
    return y


def loss(xp: Any, x: Any) -> Any:
    return xp.sum(links(xp, x))


def casadi_loss(ca: Any, x: Any) -> Any:
    return ca.sum1(links(ca, x))


def numba_value_and_grad(nb: Any) -> Any:
    @nb.njit
    def value_and_grad(x):  # type: ignore[no-untyped-def]
        total = 0.0
        grad = np.empty_like(x)
        ys = np.empty(LINKS)
        cosines = np.empty(LINKS)
        tanhs = np.empty(LINKS)
        for i in range(len(x)):
            y = x[i]
            for k in range(LINKS):
                ys[k] = y
                product = y * x[i]
                cosines[k] = np.cos(product)
                tanhs[k] = np.tanh(np.sin(product) + x[i])
                y = tanhs[k] - 0.25
            total += y
            bar_y = 1.0
            bar_x = 0.0
            for k in range(LINKS - 1, -1, -1):
                bar_sum = bar_y * (1.0 - tanhs[k] * tanhs[k])
                bar_product = bar_sum * cosines[k]
                bar_x += bar_sum + bar_product * ys[k]
                bar_y = bar_product * x[i]
            grad[i] = bar_x + bar_y
        return total, grad

    return value_and_grad


WORKLOAD = Workload(
    title="chain of 100 ops, length 10",
    inputs=inputs,
    loss=loss,
    ops=5 * LINKS,
    casadi=casadi_loss,
    numba=numba_value_and_grad,
)
