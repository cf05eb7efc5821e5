"""The environment that every measured process starts in: two threads, the same two cores, no overrides."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.tools import THREADS

ROOT = Path(__file__).resolve().parents[2]

# Overrides that make OpenBLAS choose kernels or block sizes for another processor.
REMOVED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

# OpenMP threads that wait for work by spinning hold up the other thread for whole time slices as soon as
# anything else runs on the machine. Sleeping costs PyTorch microseconds, spinning up to tens of milliseconds.
SET = {
    "OMP_WAIT_POLICY": "passive",
    "JAX_PLATFORMS": "cpu",
    **{
        variable: str(THREADS)
        for variable in (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "VECLIB_MAXIMUM_THREADS",
            "NUMBA_NUM_THREADS",
            "JITGRAD_NUM_THREADS",
            "NPROC",  # XLA's thread pool
        )
    },
}


def child_environment() -> dict[str, str]:
    """Return the environment for a measured process."""
    kept = {name: value for name, value in os.environ.items() if name not in REMOVED}
    return kept | SET


def start(module: str, arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start ``python -m module arguments`` from the root of the repository."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=child_environment(), **options)


def cores() -> set[int] | None:
    """Return as many logical processors as there are threads, on different cores if possible."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    first_of_core = []
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        first = siblings.read_text().replace("-", ",").split(",")[0] if siblings.exists() else cpu
        if int(first) == cpu:
            first_of_core.append(cpu)
    return set((first_of_core + [cpu for cpu in allowed if cpu not in first_of_core])[:THREADS])


def pin() -> None:
    """Confine this process, and what it starts, to the cores that all tools share."""
    chosen = cores()
    if chosen is not None:
        os.sched_setaffinity(0, chosen)
