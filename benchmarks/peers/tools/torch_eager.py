"""PyTorch in eager mode, float64, leaves made once as in a training loop."""

from typing import Any

import torch

from benchmarks.peers.tools import THREADS, Call
from benchmarks.peers.workload import Inputs, Workload


class Torch:
    """PyTorch eager."""

    def __init__(self) -> None:
        torch.set_num_threads(THREADS)
        torch.set_default_dtype(torch.float64)
        self.versions = {"torch": torch.__version__}

    def prepare(self, workload: Workload, inputs: Inputs) -> Call:
        loss = workload.torch or workload.loss
        args = [torch.tensor(value) for value in inputs]
        leaves = [args[i].requires_grad_() for i in workload.argnums]

        def call() -> tuple[Any, tuple[Any, ...]]:
            value = loss(torch, *args)
            # Measured to be no slower than value.backward() with the gradients reset, and nothing to reset.
            return value.detach(), torch.autograd.grad(value, leaves)

        return call

    def to_numpy(self, array: Any) -> Any:
        return array.numpy()
