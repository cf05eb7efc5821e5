"""The passes: each makes a program of a program, and one says in which order they run."""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.machine.passes.algebra import simplify
from jitgrad.machine.passes.aliases import without_aliases
from jitgrad.machine.passes.common import share_common
from jitgrad.machine.passes.dead_code import drop_dead
from jitgrad.machine.passes.folding import fold_constants
from jitgrad.machine.passes.fusion import fuse
from jitgrad.machine.program import Program

__all__ = ["PASSES", "Pass", "fuse", "optimised", "reduced"]

Pass = Callable[[Program], Program]

PASSES: tuple[Pass, ...] = (without_aliases, drop_dead, fold_constants, simplify, share_common, drop_dead)


def reduced(program: Program, after_each: Callable[[Pass, Program], None] | None = None) -> Program:
    """Return a program that computes the same with fewer instructions, each an operation of the registry.

    ``after_each`` is called with each pass and what it has made.
    """
    return _through(PASSES, program, after_each)


def optimised(program: Program, after_each: Callable[[Pass, Program], None] | None = None) -> Program:
    """Return a program that is ready to be planned: reduced, and with fused loops."""
    return _through((*PASSES, fuse), program, after_each)


def _through(passes: tuple[Pass, ...], program: Program, after_each: Callable[[Pass, Program], None] | None) -> Program:
    for run in passes:
        program = run(program)
        if after_each is not None:
            after_each(run, program)
    return program
