"""Eager value and gradient: whole workloads, and the cost of one recorded operation by extent."""

from functools import partial

import numpy as np

import jitgrad as jg
from benchmarks.peers import workloads

WORKLOADS = ["chain", "rosenbrock", "rosenbrock_loop", "lotka_volterra", "scalar_loop", "mlp", "elementwise"]


class Workload:
    """The workloads of the comparison with other tools."""

    params = WORKLOADS
    param_names = ("workload",)
    timeout = 120

    @staticmethod
    def transform(loss, argnums):
        return jg.value_and_grad(loss, argnums)

    def setup(self, name):
        workload = workloads.load(name)
        self.inputs = workload.inputs()
        self.value_and_grad = self.transform(partial(workload.loss, jg.numpy), workload.argnums)
        self.value_and_grad(*self.inputs)
        self.value_and_grad(*self.inputs)

    def time_value_and_grad(self, name):
        self.value_and_grad(*self.inputs)

    def peakmem_value_and_grad(self, name):
        self.value_and_grad(*self.inputs)


class Operation:
    """A chain of 100 products: what one operation costs, recorded and replayed, or on arrays that record nothing."""

    params = (1, 10, 1_000, 100_000)
    param_names = ("extent",)

    def setup(self, extent):
        self.x = np.linspace(0.99, 1.01, extent)
        self.gradient = jg.elementwise_grad(self.chain)
        self.gradient(self.x)

    @staticmethod
    def chain(x):
        y = x
        for _ in range(100):
            y = y * x
        return y

    def time_gradient(self, extent):
        self.gradient(self.x)

    def time_numpy_forward(self, extent):
        self.chain(self.x)


class Imperative:
    """The same chain on a tensor, with ``backward()``."""

    def setup(self):
        self.x = jg.tensor(np.linspace(0.99, 1.01, 10), requires_grad=True)

    def time_backward(self):
        y = self.x
        for _ in range(100):
            y = y * self.x
        y.sum().backward()
        self.x.grad = None
