"""A loop over value and gradient written by hand and compiled by Numba: what there is to reach."""

from typing import Any

import llvmlite
import numba

from benchmarks.peers.tools import THREADS, Call
from benchmarks.peers.workload import Inputs, Workload


class Numba:
    """Hand-written Numba."""

    def __init__(self) -> None:
        numba.set_num_threads(THREADS)
        self.versions = {"numba": numba.__version__, "llvmlite": llvmlite.__version__}

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        if workload.numba is None:
            return None
        value_and_grad = workload.numba(numba)

        def call() -> tuple[Any, tuple[Any, ...]]:
            value, *grads = value_and_grad(*inputs)
            return value, tuple(grads)

        return call

    def to_numpy(self, array: Any) -> Any:
        return array
