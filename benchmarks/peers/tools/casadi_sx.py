"""CasADi: a function built once from SX symbols, called through its buffer interface (its quickest)."""

from typing import Any

import casadi
import numpy as np

from benchmarks.peers.tools import Call
from benchmarks.peers.workload import Inputs, Workload


class Casadi:
    """A CasADi SX function of value and gradient."""

    def __init__(self) -> None:
        self.versions = {"casadi": casadi.__version__}

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        if workload.casadi is None:
            return None
        arrays = [np.ascontiguousarray(value, dtype=np.float64) for value in inputs]
        symbols = [casadi.SX.sym(f"x{i}", array.size) for i, array in enumerate(arrays)]
        value = workload.casadi(casadi, *symbols)
        outputs = [value, *(casadi.gradient(value, symbols[i]) for i in workload.argnums)]
        function = casadi.Function("value_and_grad", symbols, [casadi.densify(output) for output in outputs])
        buffer, evaluate = function.buffer()
        results = [np.empty(()), *(np.empty(arrays[i].shape) for i in workload.argnums)]
        for i, array in enumerate(arrays):
            buffer.set_arg(i, memoryview(array))
        for i, result in enumerate(results):
            buffer.set_res(i, memoryview(result))
        keep = (function, buffer, arrays)  # `evaluate` owns none of them

        def call(keep: Any = keep) -> tuple[Any, tuple[Any, ...]]:
            evaluate()
            return results[0], tuple(results[1:])

        return call

    def to_numpy(self, array: Any) -> Any:
        return array.copy()
