"""The side-by-side run: ``python -m benchmarks.peers`` from the root of the repository.

Each tool runs in a process of its own; the processes take turns, so that the noise of the machine falls on
all of them alike. What is compared with what is listed in ``sections``; one file in ``workloads`` is one
function, and one class in ``tools`` is one way to differentiate it.
"""
