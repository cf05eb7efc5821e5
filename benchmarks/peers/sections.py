"""What is compared with what: a section is a table, with our tool as base, its peers, and the goals."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Measure = Literal["call", "start", "memory"]

SUFFIX: dict[Measure, str] = {
    "call": "",
    "start": ": import and first gradient, kernels cached",
    "memory": ": peak memory",
}


class Row(NamedTuple):
    """One line of a table: a workload, what is measured of it, and the least ratio peer/ours by peer."""

    workload: str
    measure: Measure = "call"
    goals: Mapping[str, float] = {}

    @property
    def key(self) -> str:
        return self.workload if self.measure == "call" else f"{self.workload}:{self.measure}"


class Section(NamedTuple):
    """A table."""

    title: str
    base: str
    tools: tuple[str, ...]
    rows: tuple[Row, ...]


SECTIONS = {
    "eager": Section(
        title="Eager value and gradient, float64",
        base="jitgrad",
        tools=("jitgrad", "autograd", "torch", "jax", "jax_jit", "casadi", "numba", "numpy"),
        rows=(
            Row("chain", goals={"autograd": 5.0, "torch": 1.0}),
            Row("rosenbrock", goals={"autograd": 5.0, "torch": 1.0}),
            Row("rosenbrock_loop", goals={"autograd": 5.0, "torch": 1.0}),
            Row("lotka_volterra", goals={"autograd": 5.0, "torch": 1.0}),
            Row("scalar_loop", goals={"autograd": 5.0, "torch": 1.0}),
            Row("mlp", goals={"torch": 1 / 1.3}),
            Row("elementwise", goals={"autograd": 2.0, "torch": 1.0}),
            Row("rosenbrock", "start", goals={"jax": 1.0}),
            Row("mlp", "memory", goals={"torch": 1.0}),
            Row("elementwise", "memory", goals={"torch": 1.0}),
        ),
    ),
    "compiled": Section(
        title="Compiled value and gradient, float64",
        base="jitgrad_jit",
        tools=("jitgrad_jit", "jax_jit", "torch", "casadi", "numba", "numpy"),
        rows=(
            Row("rosenbrock", goals={"jax_jit": 10.0, "casadi": 0.5, "numba": 0.4}),
            Row("chain", goals={"jax_jit": 4.0}),
            Row("lotka_volterra", goals={"torch": 200.0, "casadi": 1.0}),
            Row("scalar_loop", goals={"torch": 200.0, "casadi": 1.0}),
            Row("elementwise", goals={"jax_jit": 2.0, "numba": 1 / 1.3}),
            Row("mlp", goals={"jax_jit": 1.1, "torch": 1.1}),
            Row("rosenbrock", "start", goals={"jax_jit": 1.0}),
            Row("elementwise", "memory", goals={"jax_jit": 1.0}),
        ),
    ),
}
