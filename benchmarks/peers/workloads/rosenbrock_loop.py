"""Rosenbrock's function of 10 variables, written as a Python loop over the elements."""

from typing import Any

from benchmarks.peers.workload import Workload
from benchmarks.peers.workloads.rosenbrock import inputs, numba_value_and_grad


def loss(xp: Any, x: Any) -> Any:
    total = 0.0
    for i in range(9):
        total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


WORKLOAD = Workload(
    title="Rosenbrock n=10, Python loop",
    inputs=inputs,
    loss=loss,
    casadi=loss,
    numba=numba_value_and_grad,
)
