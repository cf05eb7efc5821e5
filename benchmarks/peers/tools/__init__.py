"""The tools that are compared. Each file imports its library only when the tool is made.

A ``Tool`` turns a workload into a call without arguments that returns the value and the gradient in the
tool's own kind of array, and waits until they are there.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from benchmarks.peers.workload import Inputs, Workload

THREADS = 2

Call = Callable[[], tuple[Any, tuple[Any, ...]]]


class Tool(Protocol):
    """One way to evaluate a workload together with its gradient."""

    versions: dict[str, str]

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        """Return the call to be timed, or None if the workload has no flavour for this tool."""

    def to_numpy(self, array: Any) -> Any:
        """Return a result as NumPy array."""


class ToolInfo(NamedTuple):
    """A tool before it is loaded: what it is called, and where it is."""

    label: str
    requires: tuple[str, ...]
    factory: str  # module:class, below this package
    gives_gradient: bool = True
    records: bool = False  # operation by operation at every call


TOOLS = {
    "jitgrad": ToolInfo("jitgrad", ("jitgrad",), "numpy_api:Jitgrad", records=True),
    "jitgrad_jit": ToolInfo("jitgrad.jit", ("jitgrad",), "numpy_api:JitgradJit"),
    "autograd": ToolInfo("autograd", ("autograd",), "numpy_api:Autograd", records=True),
    "torch": ToolInfo("PyTorch eager", ("torch",), "torch_eager:Torch", records=True),
    "jax": ToolInfo("JAX un-jitted", ("jax",), "jax_cpu:Jax", records=True),
    "jax_jit": ToolInfo("jax.jit", ("jax",), "jax_cpu:JaxJit"),
    "casadi": ToolInfo("CasADi SX function", ("casadi",), "casadi_sx:Casadi"),
    "numba": ToolInfo("Numba by hand", ("numba", "scipy"), "numba_by_hand:Numba"),
    "numpy": ToolInfo("NumPy, value only", ("numpy",), "numpy_api:Numpy", gives_gradient=False),
}


def missing(name: str) -> list[str]:
    """Return the packages that the tool needs and this Python does not have."""
    return [package for package in TOOLS[name].requires if importlib.util.find_spec(package) is None]


def load(name: str) -> Tool:
    """Import the tool and its library."""
    module, _, factory = TOOLS[name].factory.partition(":")
    tool: Tool = getattr(importlib.import_module(f"{__name__}.{module}"), factory)()
    return tool
