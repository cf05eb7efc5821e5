"""A process of its own for peak memory: ``python -m benchmarks.peers.memory TOOL WORKLOAD``.

The base is what the process occupies once the library is imported, a few-element gradient is done and the
inputs are made. ``first`` is how far above it the first gradient goes (for a compiler, compilation included),
``again`` the second; the peak is reset in between, which Linux alone offers. What the first leaves behind
(buffers and caches kept for next time) counts in ``again``, since the base stays where it was.
"""

import ctypes
import gc
import json
import sys
from pathlib import Path

from benchmarks.peers import tools, workloads


def status(field: str) -> int:
    """Return a field of ``/proc/self/status``, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return 1024 * int(value.split()[0])
    raise LookupError(f"/proc/self/status has no {field}")


def reset_peak() -> None:
    """Give freed memory back and let the peak start from what is occupied now."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def main(tool_name: str, workload_name: str) -> None:
    tool = tools.load(tool_name)
    workload = workloads.load(workload_name)
    if workload.small_inputs is None:
        raise ValueError(f"the workload {workload_name!r} has no small inputs to warm up with")
    warm_up = tool.prepare(workload, workload.small_inputs())
    if warm_up is None:
        print("null")
        return
    warm_up()
    call = tool.prepare(workload, workload.inputs())
    assert call is not None
    reset_peak()
    base = status("VmRSS")
    result = call()
    first = status("VmHWM") - base
    del result
    reset_peak()
    result = call()
    again = status("VmHWM") - base
    del result
    print(json.dumps({"first": first, "again": again, "base": base}))


if __name__ == "__main__":
    main(*sys.argv[1:])
