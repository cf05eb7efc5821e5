"""JAX on the CPU in float64: operation by operation, and under ``jax.jit``."""

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers.tools import Call
from benchmarks.peers.workload import Inputs, Workload

jax.config.update("jax_enable_x64", True)


class Jax:
    """``jax.value_and_grad`` without ``jit``."""

    def __init__(self) -> None:
        self.versions = {"jax": jax.__version__, "jaxlib": jax.lib.__version__}

    def transform(self, workload: Workload) -> Any:
        loss = workload.loss
        return jax.value_and_grad(lambda *args: loss(jnp, *args), workload.argnums)

    def prepare(self, workload: Workload, inputs: Inputs) -> Call:
        value_and_grad = self.transform(workload)
        args = [jnp.asarray(value) for value in inputs]
        return lambda: jax.block_until_ready(value_and_grad(*args))

    def to_numpy(self, array: Any) -> Any:
        return jax.device_get(array)


class JaxJit(Jax):
    """``jax.jit(jax.value_and_grad(...))``, from the second call on."""

    def transform(self, workload: Workload) -> Any:
        if workload.jax_jit is None:
            return jax.jit(super().transform(workload))
        loss = workload.jax_jit
        return jax.jit(jax.value_and_grad(lambda *args: loss(jax, *args), workload.argnums))
