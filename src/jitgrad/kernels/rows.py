"""Kernels of compiled rows beside the elementwise ones, and the loop that walks a plan.

All have the signature of NumPy's inner loops, ``(char **args, intp *dims, intp *steps, void *data)``; a plan has the
arrays that the last three point to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.kernels import layout as L
from jitgrad.kernels.entries.elementwise import call_over
from jitgrad.kernels.entries.objects import (
    ARRAY_DATA,
    as_int,
    from_int,
    inline,
    nothing,
    restore_thread,
    save_thread,
)
from jitgrad.kernels.entries.totals import _sum_f4, _sum_f8
from jitgrad.kernels.intrinsics import (
    call_gemm,
    call_kernel,
    load,
    pointer_f4,
    pointer_f8,
    pointer_i4,
    pointer_u1,
    scratch,
    store,
)

__all__ = ["KERNELS", "add_up", "bind", "bind_slot", "part", "replay", "run"]


# -- the loop ------------------------------------------------------------------------------------------------


@inline
def _differ(x, y, n):
    p = pointer_u1(x)
    q = pointer_u1(y)
    i = 0
    while i < n and p[i] == q[i]:
        i += 1
    return i < n


@inline
def _run_chunks(row, first, end):
    """Run a row's chunks from ``first`` to before ``end``. What they sum is kept apart, so that any may come first."""
    here = scratch(40)  # MAX_POINTERS, as a literal
    length = scratch(1)
    pointers = load(row + 8 * L.STEP_POINTERS)
    extent = load(load(row + 8 * L.STEP_DIMS))
    steps = load(row + 8 * L.STEP_STEPS)
    chunk = load(row + 8 * L.STEP_CHUNK)
    n_sums = load(row + 8 * L.STEP_SUMS)
    n_walked = load(row + 8 * L.STEP_N_OPERANDS) - 2 * n_sums
    for number in range(first, end):
        start = number * chunk
        store(length, min(chunk, extent - start))
        for k in range(n_walked):
            store(here + 8 * k, load(pointers + 8 * k) + start * load(steps + 8 * k))
        for k in range(n_sums):
            part = load(pointers + 8 * (n_walked + n_sums + k)) + 8 * number
            pointer_f8(part)[0] = 0.0
            store(here + 8 * (n_walked + k), part)
        call_kernel(load(row + 8 * L.STEP_KERNEL), here, length, steps, load(row + 8 * L.STEP_DATA))


@inline
def _add_up(row, n_chunks):
    """Add what the chunks have summed, in their order. Float32 sums lie in the first half of their places."""
    pointers = load(row + 8 * L.STEP_POINTERS)
    n_sums = load(row + 8 * L.STEP_SUMS)
    n_walked = load(row + 8 * L.STEP_N_OPERANDS) - 2 * n_sums
    single = load(row + 8 * L.STEP_DATA) == L.SINGLE
    for k in range(n_sums):
        total = load(pointers + 8 * (n_walked + k))
        parts = load(pointers + 8 * (n_walked + n_sums + k))
        for number in range(n_chunks):
            if single:
                pointer_f4(total)[0] = pointer_f4(total)[0] + pointer_f4(parts + 8 * number)[0]
            else:
                pointer_f8(total)[0] = pointer_f8(total)[0] + pointer_f8(parts + 8 * number)[0]


@inline
def _n_chunks(row):
    chunk = load(row + 8 * L.STEP_CHUNK)
    return (load(load(row + 8 * L.STEP_DIMS)) + chunk - 1) // chunk


def part(self, args, n_args):
    """``(plan, index, share, shares)``: run one of so many shares of a row's chunks, without the interpreter lock."""
    plan = load(load(args) + ARRAY_DATA)
    row = load(plan + 8 * L.PLAN_ROWS) + 8 * L.STEP_WIDTH * as_int(load(args + 8))
    share = as_int(load(args + 16))
    shares = as_int(load(args + 24))
    n_chunks = _n_chunks(row)
    state = save_thread()
    _run_chunks(row, n_chunks * share // shares, n_chunks * (share + 1) // shares)
    restore_thread(state)
    return nothing(load(self + ARRAY_DATA))


def add_up(self, args, n_args):
    """``(plan, index)``: add what the chunks of a row have summed, after the last `part`."""
    plan = load(load(args) + ARRAY_DATA)
    row = load(plan + 8 * L.PLAN_ROWS) + 8 * L.STEP_WIDTH * as_int(load(args + 8))
    _add_up(row, _n_chunks(row))
    return nothing(load(self + ARRAY_DATA))


@inline
def run(plan, first):
    """Run the rows of a plan until one needs Python, or a guard does not hold; returns its index.

    The number of rows comes back when all have run.
    """
    rows = load(plan + 8 * L.PLAN_ROWS)
    n_rows = load(plan + 8 * L.PLAN_N_ROWS)
    shared = load(plan + 8 * L.PLAN_SHARED)
    for index in range(first, n_rows):
        row = rows + 8 * L.STEP_WIDTH * index
        address = load(row + 8 * L.STEP_KERNEL)
        pointers = load(row + 8 * L.STEP_POINTERS)
        dims = load(row + 8 * L.STEP_DIMS)
        if address == 0:
            return index
        if address == 1:
            if _differ(load(pointers), load(pointers + 8), load(dims)):
                return index
        elif load(row + 8 * L.STEP_CHUNK) != 0:
            if shared != 0:
                return index
            n_chunks = _n_chunks(row)
            _run_chunks(row, 0, n_chunks)
            _add_up(row, n_chunks)
        else:
            call_kernel(address, pointers, dims, load(row + 8 * L.STEP_STEPS), load(row + 8 * L.STEP_DATA))
    return n_rows


def replay(self, args, n_args):
    """``(plan, first)``: run rows, see `run`."""
    plan = load(load(args) + ARRAY_DATA)
    first = as_int(load(args + 8))
    state = save_thread()
    stopped = run(plan, first)
    restore_thread(state)
    return from_int(stopped)


@inline
def bind_slot(plan, slot, address):
    """Let a slot of a plan be at an address."""
    pointers = load(plan + 8 * L.PLAN_POINTERS)
    patches = load(plan + 8 * L.PLAN_PATCHES)
    first = load(plan + 8 * L.PLAN_FIRST_PATCH)
    for at in range(load(first + 8 * slot), load(first + 8 * (slot + 1))):
        patch = patches + 16 * at
        store(pointers + 8 * load(patch), address + load(patch + 8))


def bind(self, args, n_args):
    """``(plan, first, *arrays)``: let consecutive slots of a plan be where the arrays are."""
    plan = load(load(args) + ARRAY_DATA)
    slot = as_int(load(args + 8))
    for k in range(n_args - 2):
        bind_slot(plan, slot + k, load(load(args + 8 * (2 + k)) + ARRAY_DATA))
    return nothing(load(self + ARRAY_DATA))


# -- loops and copies ----------------------------------------------------------------------------------------


def _over():
    def over(args, dims, steps, data):
        """Call the kernel at ``data`` for every line; dims are (axes, pointers, lengths of the axes)."""
        call_over(data, args, steps, load(dims + 8), dims + 16, load(dims), L.STORE)

    return over


def _copy(pointer, itemsize):
    def copy(args, dims, steps, data):
        x, out = load(args), load(args + 8)
        sx, so = load(steps), load(steps + 8)
        n = load(dims)
        if sx == itemsize and so == itemsize:
            source, target = pointer(x), pointer(out)
            for i in range(n):
                target[i] = source[i]
        elif sx == 0 and so == itemsize:
            target = pointer(out)
            value = pointer(x)[0]
            for i in range(n):
                target[i] = value
        else:
            for i in range(n):
                pointer(out + so * i)[0] = pointer(x + sx * i)[0]

    return copy


# -- reductions: all add to what is there already -----------------------------------------------------------------


def _sum_line(pointer, itemsize, contiguous):
    def line(args, dims, steps, data):
        x, out = load(args), pointer(load(args + 8))
        step, n = load(steps), load(dims)
        if step == itemsize:
            out[0] = out[0] + contiguous(x, n)
        else:
            total = 0.0
            for i in range(n):
                total += pointer(x + step * i)[0]
            out[0] = out[0] + total

    return line


def _line(pointer, combine):
    def line(args, dims, steps, data):
        x, out = load(args), pointer(load(args + 8))
        step, n = load(steps), load(dims)
        best = out[0]
        for i in range(n):
            best = combine(best, pointer(x + step * i)[0])
        out[0] = best

    return line


def _row(pointer, itemsize, combine):
    def row(args, dims, steps, data):
        x, out = load(args), load(args + 8)
        sx, so = load(steps), load(steps + 8)
        n = load(dims)
        if sx == itemsize and so == itemsize:
            source, target = pointer(x), pointer(out)
            for i in range(n):
                target[i] = combine(target[i], source[i])
        else:
            for i in range(n):
                target = pointer(out + so * i)
                target[0] = combine(target[0], pointer(x + sx * i)[0])

    return row


@inline
def _plus(a, x):
    return a + x


@inline
def _times(a, x):
    return a * x


@inline
def _greater(a, x):
    return x if (x > a) | (x != x) else a


@inline
def _lesser(a, x):
    return x if (x < a) | (x != x) else a


# -- matrix products ---------------------------------------------------------------------------------------------


def _gemm(itemsize):
    def gemm(args, dims, steps, data):
        """Matrix product by the BLAS routine at ``data``.

        dims are (m, n, k), lengths of the result's rows and columns and of the sum; steps are the leading dimension of
        each of x, y and out, and whether x and y lie transposed. BLAS takes columns first, so it gets y before x.
        """
        words = scratch(12)
        letters = pointer_u1(words)
        letters[0] = 84 if load(steps + 32) != 0 else 78
        letters[8] = 84 if load(steps + 24) != 0 else 78
        lengths = pointer_i4(words)
        lengths[4] = load(dims + 8)
        lengths[6] = load(dims)
        lengths[8] = load(dims + 16)
        lengths[10] = load(steps + 8)
        lengths[12] = load(steps)
        lengths[14] = load(steps + 16)
        if itemsize == 8:
            pointer_f8(words + 64)[0] = 1.0
            pointer_f8(words + 72)[0] = 0.0
        else:
            pointer_f4(words + 64)[0] = 1.0
            pointer_f4(words + 72)[0] = 0.0
        call_gemm(
            data,
            words,
            words + 8,
            words + 16,
            words + 24,
            words + 32,
            words + 64,
            load(args + 8),
            words + 40,
            load(args),
            words + 48,
            words + 72,
            load(args + 16),
            words + 56,
        )

    return gemm


def _both(name: str, make: Callable[[Any, int, int], Any]) -> dict[str, Callable[[], Any]]:
    return {
        f"{name}_f8": lambda: make(pointer_f8, 8, 0),
        f"{name}_f4": lambda: make(pointer_f4, 4, 1),
    }


KERNELS: dict[str, Callable[[], Any]] = {
    "over": _over,
    "copy_8": lambda: _copy(pointer_f8, 8),
    "copy_4": lambda: _copy(pointer_f4, 4),
    "copy_1": lambda: _copy(pointer_u1, 1),
    "sum_line_f8": lambda: _sum_line(pointer_f8, 8, _sum_f8),
    "sum_line_f4": lambda: _sum_line(pointer_f4, 4, _sum_f4),
    **_both("sum_row", lambda pointer, itemsize, _: _row(pointer, itemsize, _plus)),
    **_both("prod_line", lambda pointer, itemsize, _: _line(pointer, _times)),
    **_both("prod_row", lambda pointer, itemsize, _: _row(pointer, itemsize, _times)),
    **_both("max_line", lambda pointer, itemsize, _: _line(pointer, _greater)),
    **_both("max_row", lambda pointer, itemsize, _: _row(pointer, itemsize, _greater)),
    **_both("min_line", lambda pointer, itemsize, _: _line(pointer, _lesser)),
    **_both("min_row", lambda pointer, itemsize, _: _row(pointer, itemsize, _lesser)),
    **_both("gemm", lambda pointer, itemsize, _: _gemm(itemsize)),
}
