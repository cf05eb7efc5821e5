"""What the figures were measured on: processor, memory, system, Python; no name of the host."""

import datetime
import os
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import cores
from benchmarks.peers.tools import THREADS


def processor() -> str:
    """Return the processor's own name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe() -> dict[str, Any]:
    """Return a description that goes into the results."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "logical_processors": os.cpu_count(),
        "threads_for_each_tool": THREADS,
        "pinned_to": sorted(cores() or ()),
        "memory_gib": round(pages / 2**30, 1),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "load_before": round(os.getloadavg()[0], 2),
    }
