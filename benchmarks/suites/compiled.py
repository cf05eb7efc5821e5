"""Compiled value and gradient: whole workloads, the price of tracing, and replay by the number of instructions."""

import numpy as np

import jitgrad as jg
from benchmarks.suites import eager


class Workload(eager.Workload):
    """The workloads of the comparison with other tools, replayed."""

    @staticmethod
    def transform(loss, argnums):
        return jg.jit(eager.Workload.transform(loss, argnums))


class Length:
    """A loop over single numbers: tracing and replay take time in proportion to the instructions."""

    params = (10, 100, 1_000)
    param_names = ("operations",)
    timeout = 120

    def setup(self, operations):
        def loop(x):
            y = x
            for _ in range(operations // 2):
                y = y * x - 0.5
            return y

        self.function = jg.grad(loop)
        self.compiled = jg.jit(self.function)
        self.compiled(0.5)
        self.compiled(0.5)

    def time_trace(self, operations):
        jg.jit(self.function)(0.5)

    def time_replay(self, operations):
        self.compiled(0.5)


class Extent:
    """One fused loop, by its number of elements."""

    params = (10, 1_000, 100_000, 1_000_000)
    param_names = ("elements",)

    def setup(self, elements):
        self.x = np.linspace(-1.0, 1.0, elements)
        self.compiled = jg.jit(jg.value_and_grad(lambda x: np.sum(np.exp(-x * x) * np.tanh(x))))
        self.compiled(self.x)
        self.compiled(self.x)

    def time_replay(self, elements):
        self.compiled(self.x)
