"""The native entry points of a tape: run an op and append its instruction, and replay instructions in reverse.

Written in Numba over plain addresses. Each function that is exported here is compiled once, kept in the kernel cache,
and called as a built-in function: its arguments are the Python objects themselves (``args`` points at them), its result
is a new reference, or 0 after a Python exception has been set. ``self`` is an array: an op's context for `operate`,
`total`, `item` and `put`, what is known of the process for all others.
"""

from jitgrad.kernels.entries.cotangents import accumulate, give, state, take
from jitgrad.kernels.entries.elementwise import operate
from jitgrad.kernels.entries.joins import gather, join
from jitgrad.kernels.entries.reverse import begin, end, release, reverse
from jitgrad.kernels.entries.rows import append, attach, define, room
from jitgrad.kernels.entries.rules import run
from jitgrad.kernels.entries.totals import total
from jitgrad.kernels.entries.views import derive, item, view
from jitgrad.kernels.entries.writes import put

__all__ = [
    "accumulate",
    "append",
    "attach",
    "begin",
    "define",
    "derive",
    "end",
    "gather",
    "give",
    "item",
    "join",
    "operate",
    "put",
    "release",
    "reverse",
    "room",
    "run",
    "state",
    "take",
    "total",
    "view",
]
