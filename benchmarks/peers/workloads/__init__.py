"""One file a workload, each with a module constant ``WORKLOAD``; loaded by name when first needed."""

import importlib

from benchmarks.peers.workload import Workload


def load(name: str) -> Workload:
    """Import ``benchmarks.peers.workloads.<name>`` and return its workload."""
    workload = importlib.import_module(f"{__name__}.{name}").WORKLOAD
    assert isinstance(workload, Workload)
    return workload
