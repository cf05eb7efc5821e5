"""200 steps of the classical Runge-Kutta method on the Lotka-Volterra equations, scalars in a Python loop."""

from typing import Any

import numpy as np

from benchmarks.peers.workload import Inputs, Workload

STEPS = 200
H = 0.02


def inputs() -> Inputs:
    return (np.array([1.1, 0.4, 0.1, 0.4, 2.0, 1.0]),)  # two growth rates, two couplings, the initial state


def rates(a: Any, b: Any, c: Any, d: Any, prey: Any, hunters: Any) -> Any:
    meetings = prey * hunters
    return a * prey - b * meetings, c * meetings - d * hunters


def step(a: Any, b: Any, c: Any, d: Any, u: Any, v: Any) -> Any:
    k1, l1 = rates(a, b, c, d, u, v)
    k2, l2 = rates(a, b, c, d, u + 0.5 * H * k1, v + 0.5 * H * l1)
    k3, l3 = rates(a, b, c, d, u + 0.5 * H * k2, v + 0.5 * H * l2)
    k4, l4 = rates(a, b, c, d, u + H * k3, v + H * l3)
    return u + H / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), v + H / 6 * (l1 + 2.0 * l2 + 2.0 * l3 + l4)


def loss(xp: Any, p: Any) -> Any:
    a, b, c, d, u, v = p[0], p[1], p[2], p[3], p[4], p[5]
    for _ in range(STEPS):
        u, v = step(a, b, c, d, u, v)
    return u * u + v * v


def jax_jit_loss(jax: Any, p: Any) -> Any:
    a, b, c, d, u, v = p
    u, v = jax.lax.scan(lambda s, _: (step(a, b, c, d, *s), None), (u, v), None, length=STEPS)[0]
    return u * u + v * v


def numba_value_and_grad(nb: Any) -> Any:
    rates_njit = nb.njit(rates)

    @nb.njit
    def pull_rates(bar, p, u, v, bar_k, bar_l):  # type: ignore[no-untyped-def]
        """Add to bar[:4]; return the cotangents of u and v."""
        meetings = u * v
        bar[0] += bar_k * u
        bar[1] -= bar_k * meetings
        bar[2] += bar_l * meetings
        bar[3] -= bar_l * v
        bar_meetings = bar_l * p[2] - bar_k * p[1]
        return bar_k * p[0] + bar_meetings * v, bar_meetings * u - bar_l * p[3]

    @nb.njit
    def value_and_grad(p):  # type: ignore[no-untyped-def]
        us = np.empty((STEPS, 4))  # the points where the rates were taken
        vs = np.empty((STEPS, 4))
        u = p[4]
        v = p[5]
        for n in range(STEPS):
            us[n, 0], vs[n, 0] = u, v
            k1, l1 = rates_njit(p[0], p[1], p[2], p[3], u, v)
            us[n, 1], vs[n, 1] = u + 0.5 * H * k1, v + 0.5 * H * l1
            k2, l2 = rates_njit(p[0], p[1], p[2], p[3], us[n, 1], vs[n, 1])
            us[n, 2], vs[n, 2] = u + 0.5 * H * k2, v + 0.5 * H * l2
            k3, l3 = rates_njit(p[0], p[1], p[2], p[3], us[n, 2], vs[n, 2])
            us[n, 3], vs[n, 3] = u + H * k3, v + H * l3
            k4, l4 = rates_njit(p[0], p[1], p[2], p[3], us[n, 3], vs[n, 3])
            u += H / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            v += H / 6 * (l1 + 2.0 * l2 + 2.0 * l3 + l4)
        bar = np.zeros(6)
        bar_u = 2.0 * u
        bar_v = 2.0 * v
        for n in range(STEPS - 1, -1, -1):
            w = H / 6
            u4, v4 = pull_rates(bar, p, us[n, 3], vs[n, 3], w * bar_u, w * bar_v)
            u3, v3 = pull_rates(bar, p, us[n, 2], vs[n, 2], 2.0 * w * bar_u + H * u4, 2.0 * w * bar_v + H * v4)
            u2, v2 = pull_rates(
                bar, p, us[n, 1], vs[n, 1], 2.0 * w * bar_u + 0.5 * H * u3, 2.0 * w * bar_v + 0.5 * H * v3
            )
            u1, v1 = pull_rates(bar, p, us[n, 0], vs[n, 0], w * bar_u + 0.5 * H * u2, w * bar_v + 0.5 * H * v2)
            bar_u += u1 + u2 + u3 + u4
            bar_v += v1 + v2 + v3 + v4
        bar[4] = bar_u
        bar[5] = bar_v
        return u * u + v * v, bar

    return value_and_grad


WORKLOAD = Workload(
    title="Lotka-Volterra, 200 RK4 steps",
    inputs=inputs,
    loss=loss,
    ops=6 + STEPS * 54 + 3,
    jax_jit=jax_jit_loss,
    casadi=loss,
    numba=numba_value_and_grad,
    remarks={"jax_jit": "written with `lax.scan`, since XLA takes too long over the unrolled loop"},
)
