"""A process of its own for the first gradient: ``python -m benchmarks.peers.start TOOL WORKLOAD``.

The parent measures the time from before the interpreter starts until it has gone. Prints value and gradient.
"""

import json
import sys

from benchmarks.peers import tools, workloads


def main(tool_name: str, workload_name: str) -> None:
    tool = tools.load(tool_name)
    workload = workloads.load(workload_name)
    call = tool.prepare(workload, workload.inputs())
    if call is None:
        print("null")
        return
    value, grads = call()
    answer = {"value": float(tool.to_numpy(value)), "grads": [tool.to_numpy(g).tolist() for g in grads]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
