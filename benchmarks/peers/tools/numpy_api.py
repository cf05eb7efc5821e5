"""The tools that run a workload's one NumPy source as it stands: jitgrad, autograd and NumPy itself."""

import importlib
import importlib.metadata
from typing import Any

from benchmarks.peers.tools import Call
from benchmarks.peers.workload import Inputs, Workload


class Jitgrad:
    """jitgrad's eager engine."""

    def __init__(self) -> None:
        self.package = importlib.import_module("jitgrad")
        self.namespace = importlib.import_module("jitgrad.numpy")
        try:
            version = importlib.metadata.version("jitgrad")
        except importlib.metadata.PackageNotFoundError:  # on the path, not installed
            version = "(checkout)"
        self.versions = {"jitgrad": version}

    def transform(self, workload: Workload) -> Any:
        namespace, loss = self.namespace, workload.loss

        def function(*args: Any) -> Any:
            return loss(namespace, *args)

        return self.package.value_and_grad(function, argnums=workload.argnums)

    def prepare(self, workload: Workload, inputs: Inputs) -> Call:
        value_and_grad = self.transform(workload)
        return lambda: value_and_grad(*inputs)

    def to_numpy(self, array: Any) -> Any:
        return array


class JitgradJit(Jitgrad):
    """``jitgrad.jit(jitgrad.value_and_grad(...))``, from the second call on."""

    def transform(self, workload: Workload) -> Any:
        return self.package.jit(super().transform(workload))


class Autograd:
    """HIPS autograd."""

    def __init__(self) -> None:
        self.package = importlib.import_module("autograd")
        self.namespace = importlib.import_module("autograd.numpy")
        self.versions = {"autograd": importlib.metadata.version("autograd")}

    def prepare(self, workload: Workload, inputs: Inputs) -> Call:
        namespace, loss = self.namespace, workload.loss

        def function(*args: Any) -> Any:
            return loss(namespace, *args)

        value_and_grad = self.package.value_and_grad(function, workload.argnums)
        return lambda: value_and_grad(*inputs)

    def to_numpy(self, array: Any) -> Any:
        return array


class Numpy:
    """NumPy computes the value alone: what no eager tool on top of it can beat."""

    def __init__(self) -> None:
        self.namespace = importlib.import_module("numpy")
        self.versions = {"numpy": self.namespace.__version__}

    def prepare(self, workload: Workload, inputs: Inputs) -> Call:
        namespace, loss = self.namespace, workload.loss
        return lambda: (loss(namespace, *inputs), ())

    def to_numpy(self, array: Any) -> Any:
        return array
