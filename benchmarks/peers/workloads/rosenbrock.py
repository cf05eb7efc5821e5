"""Rosenbrock's function of 10 variables, written with slices."""

from typing import Any

import numpy as np

from benchmarks.peers.workload import Inputs, Workload


def inputs() -> Inputs:
    return (np.linspace(-1.0, 1.3, 10),)


def loss(xp: Any, x: Any) -> Any:
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def casadi_loss(ca: Any, x: Any) -> Any:
    return ca.sum1(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def numba_value_and_grad(nb: Any) -> Any:
    @nb.njit(cache=True)  # the start of a new process is measured too
    def value_and_grad(x):  # type: ignore[no-untyped-def]
        total = 0.0
        grad = np.zeros_like(x)
        for i in range(len(x) - 1):
            bend = x[i + 1] - x[i] * x[i]
            gap = 1.0 - x[i]
            total += 100.0 * bend * bend + gap * gap
            grad[i] -= 400.0 * bend * x[i] + 2.0 * gap
            grad[i + 1] += 200.0 * bend
        return total, grad

    return value_and_grad


WORKLOAD = Workload(
    title="Rosenbrock n=10, slices",
    inputs=inputs,
    loss=loss,
    casadi=casadi_loss,
    numba=numba_value_and_grad,
)
