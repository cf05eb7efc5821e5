"""Threads for large elementwise operations: each runs the kernel over its part of the elements.

Kernels release the interpreter lock, so a pool of Python threads is enough. It has neither the fault of Numba's
workqueue, which aborts when two threads launch at once, nor that of libgomp, which does not survive a fork. What an
element's result is does not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

import numpy as np

from jitgrad.kernels import memory

__all__ = ["LARGE", "elementwise", "get_num_threads", "set_num_threads", "share_out"]

LARGE = 1 << 16  # elements from which on a second thread is worth waking
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def _available() -> int:
    chosen = os.environ.get("JITGRAD_NUM_THREADS", "").strip()
    if chosen:
        if not (chosen.isascii() and chosen.isdecimal()) or int(chosen) < 1:
            raise ValueError(f"JITGRAD_NUM_THREADS must be a positive integer, not {chosen!r}")
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Threads:
    """The pool, made when it is first needed: this thread is one of its threads."""

    __slots__ = ("count", "pool")

    def __init__(self) -> None:
        self.count = _available()
        self.pool: ThreadPoolExecutor | None = None

    def helpers(self) -> ThreadPoolExecutor:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.count - 1, thread_name_prefix="jitgrad")
        return self.pool

    def forget(self) -> None:
        """In a forked child, which has none of its parent's threads."""
        self.pool = None


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)


def get_num_threads() -> int:
    """Return how many threads large elementwise operations are shared out to.

    By default as many as there are processors for this process, or what the environment variable
    ``JITGRAD_NUM_THREADS`` says.
    """
    return _threads.count


def set_num_threads(count: int) -> None:
    """Set how many threads large elementwise operations are shared out to.

    Parameters
    ----------
    count : int
        At least 1, which is the calling thread alone. Results do not depend on it.

    Examples
    --------
    >>> import jitgrad as jg
    >>> before = jg.get_num_threads()
    >>> jg.set_num_threads(1)
    >>> jg.get_num_threads()
    1
    >>> jg.set_num_threads(before)
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
        raise TypeError(f"set_num_threads needs an integer, not {type(count).__name__}")
    if count < 1:
        raise ValueError(f"set_num_threads needs a positive integer, not {count}")
    pool, _threads.pool = _threads.pool, None
    _threads.count = int(count)
    if pool is not None:
        pool.shutdown(wait=False)


def elementwise(ufunc: Callable[..., Any], *args: Any, out: np.ndarray[Any, Any] | None = None) -> Any:
    """Call a ufunc whose result has its operands' dtype, on several threads where they are large and alike.

    Alike are contiguous arrays of floats of one shape and dtype, and Python numbers. ``out`` must then be so, too.
    """
    model: np.ndarray[Any, Any] | None = None
    for arg in args:
        if type(arg) is np.ndarray:
            if arg.size < LARGE or not arg.flags.c_contiguous:
                return ufunc(*args, out=out)
            if model is None:
                if arg.dtype not in _FLOATS:
                    return ufunc(*args, out=out)
                model = arg
            elif arg.shape != model.shape or arg.dtype is not model.dtype:
                return ufunc(*args, out=out)
        elif type(arg) is not float and type(arg) is not int:
            return ufunc(*args, out=out)
    if model is None:
        return ufunc(*args, out=out)
    if out is None:
        out = memory.empty(model.shape, model.dtype)
    count = _threads.count
    parts = [arg.reshape(-1) if type(arg) is np.ndarray else arg for arg in (*args, out)]
    bounds = [model.size * k // count for k in range(count + 1)]

    def run(k: int) -> None:
        *pieces, result = [p[bounds[k] : bounds[k + 1]] if type(p) is np.ndarray else p for p in parts]
        ufunc(*pieces, out=result)

    share_out(run, count)
    return out


def share_out(work: Callable[[int], object], shares: int) -> None:
    """Call ``work`` with each number below ``shares``, on as many threads, and return when all have ended."""
    # in the caller's context: it says what is done about an overflow (np.errstate)
    pending = [_threads.helpers().submit(copy_context().run, work, k) for k in range(1, shares)]
    try:
        work(0)
    finally:  # an interrupt must not leave threads that write to what is ours no more
        wait(pending)
    for task in pending:
        task.result()
