"""The process of one tool: loads workloads and times them when the parent asks it to.

``python -m benchmarks.peers.worker TOOL DESCRIPTOR``; the descriptor is one end of a socket pair, over which
pickled requests and answers go.
"""

import gc
import statistics
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.peers import tools, workloads
from benchmarks.peers.tools import Call, Tool


def seconds_per_call(call: Call, number: int) -> float:
    """Return the mean time of a call over a batch of ``number`` calls."""
    begin = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - begin) / number


def batch_size(call: Call, least: float) -> int:
    """Return a number of calls that takes at least ``least`` seconds; this is the warm-up too."""
    number = 1
    while (taken := seconds_per_call(call, number) * number) < least:
        number = max(2 * number, min(10 * number, int(1.2 * number * least / max(taken, 1e-7))))
    return number


class Worker:
    """What is loaded at present, and what can be asked of it."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.call: Call | None = None
        self.number = 1

    def load(self, name: str) -> dict[str, Any] | None:
        """Prepare a workload; answer with its first time, value and gradient, or None if it is not for us."""
        self.call = None
        gc.collect()
        workload = workloads.load(name)
        inputs = workload.inputs()
        begin = time.perf_counter()
        self.call = self.tool.prepare(workload, inputs)
        if self.call is None:
            return None
        value, grads = self.call()
        first = time.perf_counter() - begin
        to_numpy = self.tool.to_numpy
        return {
            "first_call": first,
            "value": float(to_numpy(value)),
            "grads": [np.array(to_numpy(grad), dtype=np.float64) for grad in grads],
        }

    def warm_up(self, least: float) -> int:
        """Call until the tool is warm, and choose how many calls make a batch."""
        assert self.call is not None
        self.number = batch_size(self.call, least)
        return self.number

    def time(self, budget: float) -> float:
        """Return the median time of a call over batches that fill the budget (one at least).

        The garbage collector runs, as it does for users: tapes with cycles in them pay for it.
        """
        assert self.call is not None
        gc.collect()
        batches: list[float] = []
        end = time.perf_counter() + budget
        while not batches or time.perf_counter() < end:
            batches.append(seconds_per_call(self.call, self.number))
        return statistics.median(batches)


def serve(name: str, connection: Connection) -> None:
    """Answer requests ``(method, argument)`` until the parent hangs up."""
    worker = None
    while True:
        try:
            method, argument = connection.recv()
        except EOFError:
            return
        try:
            if worker is None:
                worker = Worker(tools.load(name))
            answer = worker.tool.versions if method == "versions" else getattr(worker, method)(argument)
        except Exception:  # the parent raises it again, with this text
            connection.send(("error", traceback.format_exc()))
        else:
            connection.send(("ok", answer))


if __name__ == "__main__":
    serve(sys.argv[1], Connection(int(sys.argv[2])))
