"""The parent: starts a process for each tool, checks that they agree, and lets them take turns.

A measurement is a cell ``{"median", "low", "high", "rounds", ...}``; a cell without figures says why:
``{"none": reason}``. ``low`` and ``high`` are the quartiles of the rounds.
"""

import json
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

import numpy as np

from benchmarks.peers import environment, workloads
from benchmarks.peers.sections import Row
from benchmarks.peers.tools import TOOLS

TOLERANCE = 1e-8
SETTLE = 0.05  # seconds for the threads of the tool before to go to sleep

Cell = dict[str, Any]
Advance = Callable[[str], None]


class Options(NamedTuple):
    """How long to measure."""

    rounds: int
    budget: float  # seconds for one turn of one tool
    batch: float  # least seconds for one batch of calls
    limit: float  # seconds until the first value and gradient must be there


class ToolError(Exception):
    """A tool raised; the text is its traceback."""


class Disagreement(Exception):
    """Tools do not agree about a value or a gradient."""


class Process:
    """The worker of one tool, and the line to it."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self.popen = environment.start("benchmarks.peers.worker", [tool, str(descriptor)], pass_fds=(descriptor,))
        self.connection = Connection(ours.detach())

    def request(self, method: str, argument: Any = None, timeout: float | None = None) -> Any:
        """Ask the worker; raise TimeoutError or ToolError."""
        self.connection.send((method, argument))
        if not self.connection.poll(timeout):
            raise TimeoutError
        try:
            status, answer = self.connection.recv()
        except EOFError:
            raise ToolError(f"the process of {self.tool} ended with status {self.popen.wait()}") from None
        if status == "error":
            raise ToolError(answer)
        return answer

    def close(self) -> None:
        self.connection.close()
        try:
            self.popen.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


class Processes:
    """The workers, started when first needed and again after one had to be ended."""

    def __init__(self) -> None:
        self.running: dict[str, Process] = {}

    def __getitem__(self, tool: str) -> Process:
        if tool not in self.running:
            self.running[tool] = Process(tool)
        return self.running[tool]

    def end(self, tool: str) -> None:
        process = self.running.pop(tool)
        process.popen.kill()
        process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.running.values():
            process.close()


def check(answers: Mapping[str, Mapping[str, Any]], base: str) -> None:
    """Raise Disagreement unless all values and gradients agree, each gradient to 1e-8 of its largest element.

    The reference is the first tool with a gradient that is not the base.
    """
    candidates = [tool for tool in answers if TOOLS[tool].gives_gradient]
    if not candidates:
        return
    reference = next((tool for tool in candidates if tool != base), candidates[0])
    expected = answers[reference]
    for tool, answer in answers.items():
        pairs = [("value", answer["value"], expected["value"])]
        if TOOLS[tool].gives_gradient:
            if len(answer["grads"]) != len(expected["grads"]):
                raise Disagreement(f"{tool} and {reference} return different numbers of gradients")
            pairs += [
                (f"gradient {i}", got, wanted)
                for i, (got, wanted) in enumerate(zip(answer["grads"], expected["grads"], strict=True))
            ]
        for what, got, wanted in pairs:
            got, wanted = np.asarray(got), np.asarray(wanted)
            if got.size != wanted.size:
                raise Disagreement(f"{what}: {tool} has {got.size} elements, {reference} {wanted.size}")
            error = np.max(np.abs(got.ravel() - wanted.ravel()))
            # `not <=`: NaN is a disagreement
            if not error <= TOLERANCE * np.max(np.abs(wanted)):
                raise Disagreement(f"{what}: {tool} and {reference} differ by {error:.3g}")


def summary(rounds: list[float], **details: Any) -> Cell:
    """Make a cell from one figure for each round."""
    low, _, high = statistics.quantiles(rounds, n=4) if len(rounds) > 1 else rounds * 3
    return {"median": statistics.median(rounds), "low": low, "high": high, "rounds": rounds, **details}


def turns(tools: list[str], rounds: int) -> Iterable[str]:
    """Yield the tools round by round, each round beginning with another one."""
    for n in range(rounds if tools else 0):
        shift = n % len(tools)
        yield from tools[shift:] + tools[:shift]


def measure_calls(
    row: Row, tools: list[str], base: str, options: Options, processes: Processes, advance: Advance
) -> dict[str, Cell]:
    """Time a workload in the resident processes."""
    cells: dict[str, Cell] = {}
    answers: dict[str, dict[str, Any]] = {}
    for tool in tools:
        advance(f"{row.key}: first call, {tool}")
        try:
            answer = processes[tool].request("load", row.workload, options.limit)
        except TimeoutError:
            processes.end(tool)
            cells[tool] = {"none": f"over {options.limit:g} s"}
        except ToolError as error:
            processes.end(tool)
            cells[tool] = {"none": "error", "error": str(error)}
        else:
            if answer is not None:
                answers[tool] = answer
    check(answers, base)
    numbers = {tool: processes[tool].request("warm_up", options.batch) for tool in answers}
    rounds: dict[str, list[float]] = {tool: [] for tool in answers}
    for tool in turns(list(answers), options.rounds):
        advance(f"{row.key}: {tool}")
        time.sleep(SETTLE)
        rounds[tool].append(processes[tool].request("time", options.budget))
    for tool, figures in rounds.items():
        cells[tool] = summary(figures, calls_a_batch=numbers[tool], first_call=answers[tool]["first_call"])
    return cells


def run_once(module: str, tool: str, workload: str, limit: float) -> tuple[float, Any]:
    """Run a process to its end; return the seconds that it took and the JSON that it printed."""
    begin = time.perf_counter()
    process = environment.start(module, [tool, workload], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise TimeoutError from None
    taken = time.perf_counter() - begin
    if process.returncode != 0:
        raise ToolError(errors.decode())
    return taken, json.loads(output)


def measure_processes(row: Row, tools: list[str], base: str, options: Options, advance: Advance) -> dict[str, Cell]:
    """Measure new processes: the time from start to end, or peak memory."""
    cells: dict[str, Cell] = {}
    module = f"benchmarks.peers.{row.measure}"
    answers: dict[str, Any] = {}
    for tool in tools:
        advance(f"{row.key}: first, {tool}")
        try:
            _, answer = run_once(module, tool, row.workload, options.limit)
        except TimeoutError:
            cells[tool] = {"none": f"over {options.limit:g} s"}
        except ToolError as error:
            cells[tool] = {"none": "error", "error": str(error)}
        else:
            if answer is not None:
                answers[tool] = answer
    if row.measure == "start":
        check(answers, base)
        starts: dict[str, list[float]] = {tool: [] for tool in answers}
        # The first process was the warm-up: what is cached on disk is there now.
        for tool in turns(list(answers), options.rounds):
            advance(f"{row.key}: {tool}")
            starts[tool].append(run_once(module, tool, row.workload, options.limit)[0])
        return cells | {tool: summary(figures) for tool, figures in starts.items()}
    peaks = {tool: [answer] for tool, answer in answers.items()}
    for tool in turns(list(answers), min(options.rounds, 3) - 1):  # memory hardly varies
        advance(f"{row.key}: {tool}")
        peaks[tool].append(run_once(module, tool, row.workload, options.limit)[1])
    for tool, figures in peaks.items():
        cells[tool] = summary(
            [figure["again"] for figure in figures],
            first_call=statistics.median(figure["first"] for figure in figures),
        )
    return cells


def measure(
    row: Row, tools: list[str], base: str, options: Options, processes: Processes, advance: Advance
) -> dict[str, Any]:
    """Measure one line of a table; return it as it goes into the results."""
    workload = workloads.load(row.workload)
    line: dict[str, Any] = {
        "workload": row.workload,
        "measure": row.measure,
        "title": workload.title,
        "goals": dict(row.goals),
        "remarks": dict(workload.remarks) if row.measure == "call" else {},
        "ops": workload.ops,
    }
    try:
        if row.measure == "call":
            cells = measure_calls(row, tools, base, options, processes, advance)
        else:
            cells = measure_processes(row, tools, base, options, advance)
    except Disagreement as disagreement:
        return {**line, "error": str(disagreement), "cells": {}}
    ours = cells.get(base, {}).get("rounds")
    if ours:
        for cell in cells.values():
            if "rounds" in cell:
                pairs = zip(cell["rounds"], ours, strict=True)
                cell["ratio"] = statistics.median(theirs / our for theirs, our in pairs)
    return {**line, "cells": cells}
