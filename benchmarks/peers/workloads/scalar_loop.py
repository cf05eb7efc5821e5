"""A Python loop of 2,000 operations on scalars."""

from typing import Any

import numpy as np

from benchmarks.peers.workload import Inputs, Workload

TURNS = 500


def inputs() -> Inputs:
    return 0.9, 0.3


def loss(xp: Any, a: Any, b: Any) -> Any:
    y = b
    for _ in range(TURNS):  # four operations a turn
        y = xp.sin(a * y + b) * 0.9
    return y


def jax_jit_loss(jax: Any, a: Any, b: Any) -> Any:
    return jax.lax.scan(lambda y, _: (jax.numpy.sin(a * y + b) * 0.9, None), b, None, length=TURNS)[0]


def numba_value_and_grad(nb: Any) -> Any:
    @nb.njit
    def value_and_grad(a, b):  # type: ignore[no-untyped-def]
        ys = np.empty(TURNS)
        cosines = np.empty(TURNS)
        y = b
        for k in range(TURNS):
            ys[k] = y
            angle = a * y + b
            cosines[k] = np.cos(angle)
            y = np.sin(angle) * 0.9
        bar_a = 0.0
        bar_b = 0.0
        bar_y = 1.0
        for k in range(TURNS - 1, -1, -1):
            bar_angle = bar_y * 0.9 * cosines[k]
            bar_a += bar_angle * ys[k]
            bar_b += bar_angle
            bar_y = bar_angle * a
        return y, bar_a, bar_b + bar_y

    return value_and_grad


WORKLOAD = Workload(
    title="Python loop of 2,000 scalar ops",
    inputs=inputs,
    loss=loss,
    argnums=(0, 1),
    ops=4 * TURNS,
    jax_jit=jax_jit_loss,
    casadi=loss,
    numba=numba_value_and_grad,
    remarks={"jax_jit": "written with `lax.scan`, since XLA takes too long over the unrolled loop"},
)
