"""From an instruction to rows: what the ops' own declarations (`Op.rows`) are written in.

A `Builder` has one method for each thing that native code can do to strided memory. Where an op has no rows, or they do
not apply (another dtype), the instruction is a step in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.elementwise import Elementwise
from jitgrad.kernels import layout as L
from jitgrad.kernels.fused import LONGEST_UNROLLED, Loop, Operation, Reference
from jitgrad.kernels.fused import address_of as fused_address
from jitgrad.machine import kernels
from jitgrad.machine.memory import Place

__all__ = ["FLOATS", "Builder", "Row"]

Array = np.ndarray[Any, Any]
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Row(NamedTuple):
    """One native call."""

    address: int  # of the kernel; 1 for a guard
    operands: tuple[Place, ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    data: int
    chunk: int = 0  # elements that are done at a time, in a row that threads may share
    n_sums: int = 0  # operands before the last as many, which hold what each chunk adds


CHUNK = 1 << 15  # elements
SHARED = 1 << 17  # elements of the shortest row that is done in chunks


def coalesced(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Merge axes that all operands walk through as one, and leave out those of length 1."""
    axes: list[list[Any]] = []  # length, strides
    for d, length in enumerate(shape):
        if length == 1:
            continue
        here = [s[d] for s in strides]
        if axes and all(outer == length * inner for outer, inner in zip(axes[-1][1], here, strict=True)):
            axes[-1] = [axes[-1][0] * length, here]
        else:
            axes.append([length, here])
    if not axes:
        axes = [[1, [0] * len(strides)]]
    return tuple(length for length, _ in axes), [tuple(each[k] for _, each in axes) for k in range(len(strides))]


def _strides(array: Array, shape: tuple[int, ...]) -> Sequence[int]:
    if array.shape == shape:
        return array.strides
    return np.broadcast_to(array, shape).strides


@functools.cache
def _scalar_address(op: Elementwise, letters: str) -> int:
    """The kernel of an elementwise op on one element; ``letters`` are the dtypes of the operands and of the result."""
    operands, letter = letters[:-1], letters[-1]
    references: tuple[Reference, ...] = tuple([("input", k) for k in range(len(operands))])
    symbol, fingerprint, make = op.assembly(letter)
    select = op.name == "where"
    operation = Operation("select" if select else "call", "" if select else symbol, references, letter)
    loop = Loop(tuple([(kind, "s") for kind in operands]), (operation,), ((0, "c"),), (), 1)
    return fused_address(loop, {} if select else {symbol: (fingerprint, make)})


class Builder:
    """Collects the rows of one instruction."""

    def __init__(self, number: Callable[[float, np.dtype[Any]], Place], buffer: Callable[[Array], Place]) -> None:
        self.rows: list[Row] = []
        self._number = number
        self._buffer = buffer

    def number(self, value: float, like: Place) -> Place:
        """Return a number, in the dtype of ``like``."""
        return self._number(value, like.array.dtype)

    def loop(self, address: int, places: Sequence[Place], shape: tuple[int, ...]) -> None:
        """Call a kernel over all positions of ``shape``; operands are broadcast to it."""
        if 0 in shape:
            return
        lengths, strides = coalesced(shape, [_strides(place.array, shape) for place in places])
        if len(lengths) == 1:
            self.rows.append(Row(address, tuple(places), lengths, tuple(s[0] for s in strides), L.STORE))
            return
        steps = tuple(step for each in strides for step in each)
        dims = (len(lengths), len(places), *lengths)
        self.rows.append(Row(kernels.address_of("over"), tuple(places), dims, steps, address))

    def elementwise(self, op: Elementwise, xs: Sequence[Place], out: Place) -> bool:
        """Run an elementwise op on operands of the result's dtype, or of booleans."""
        dtype = out.array.dtype
        dtypes = [np.dtype(np.bool_) if masked else dtype for masked in op.masks]
        if dtype not in FLOATS or any(x.array.dtype != wanted for x, wanted in zip(xs, dtypes, strict=True)):
            return False
        if out.array.size == 1:
            self._scalar(op, xs, out)
        else:
            self.loop(op.forward_address(FLOATS.index(dtype)), (*xs, out), out.array.shape)
        return True

    def _scalar(self, op: Elementwise, xs: Sequence[Place], out: Place) -> None:
        """Run an elementwise op on one element: without the tests and the loops of its kernel for any layout."""
        letters = "".join([x.array.dtype.char for x in xs]) + out.array.dtype.char
        self.rows.append(Row(_scalar_address(op, letters), (*xs, out), (1,), (), L.STORE))

    def copy(self, x: Place, out: Place) -> bool:
        """Copy, with broadcasting, between arrays of one dtype."""
        if x.array.dtype != out.array.dtype or out.array.dtype.itemsize not in (1, 4, 8):
            return False
        self.loop(kernels.address_of(f"copy_{out.array.dtype.itemsize}"), (x, out), out.array.shape)
        return True

    def reduce(self, kind: str, x: Place, out: Place, axes: tuple[int, ...]) -> bool:
        """Combine ("sum", "prod", "max" or "min") the elements of ``x`` along axes with what is in ``out``."""
        dtype = x.array.dtype
        if dtype not in FLOATS or out.array.dtype != dtype:
            return False
        shape = x.array.shape
        kept = out.array.reshape([1 if d in axes else length for d, length in enumerate(shape)])
        target = np.broadcast_to(kept, shape)
        if 0 in shape:
            return True
        lengths, (sx, so) = coalesced(shape, [x.array.strides, target.strides])
        kernel = kernels.address_of(f"{kind}_{'line' if so[-1] == 0 else 'row'}", dtype)
        places = (x, out.view(target))
        if len(lengths) == 1:
            self.rows.append(Row(kernel, places, lengths, (*sx, *so), L.STORE))
        else:
            dims = (len(lengths), 2, *lengths)
            self.rows.append(Row(kernels.address_of("over"), places, dims, (*sx, *so), kernel))
        return True

    def buffer(self, shape: Sequence[int], like: Place) -> Place:
        """Return memory for the instruction that is being lowered, of the dtype of ``like``."""
        return self._buffer(np.empty(tuple(shape), like.array.dtype))

    def reshaped(self, place: Place, shape: Sequence[int], write: bool = False) -> Place:
        """Return a place in another shape: a view, or a copy in a buffer; to be written to, a buffer without one."""
        array = place.array.reshape(shape)
        if np.may_share_memory(array, place.array) or not array.size:
            return place.view(array)
        buffer = self._buffer(array)
        if not write:
            self.copy(place, buffer.view(array.reshape(place.array.shape)))
        return buffer

    def fused(self, xs: Sequence[Place], outs: Sequence[Place], sums: Sequence[Place], params: dict[str, Any]) -> None:
        """Run a fused loop; its sums are added to what is there."""
        shape: tuple[int, ...] = params["shape"]
        for place in sums:
            self.copy(self.number(0.0, place), place)
        if 0 in shape:
            return
        places = (*xs, *outs, *sums)
        walked = [_strides(place.array, shape) for place in (*xs, *outs)] + [(0,) * len(shape)] * len(sums)
        lengths, strides = coalesced(shape, walked)
        inner = [s[-1] for s in strides]
        extent = lengths[-1] if lengths[-1] <= LONGEST_UNROLLED else 0
        operations = params["operations"]
        loop = Loop(
            tuple(
                [(x.array.dtype.char, layout_of(step, x.array.itemsize)) for x, step in zip(xs, inner, strict=False)]
            ),
            operations,
            tuple(
                [
                    (number, layout_of(step, out.array.itemsize) if lengths[-1] > 1 else "c")
                    for number, out, step in zip(params["outputs"], outs, inner[len(xs) :], strict=False)
                ]
            ),
            params["sums"],
            extent,
        )
        address = fused_address(loop, params["scalars"])
        if len(lengths) == 1:
            data = L.SINGLE if any(place.array.dtype.itemsize == 4 for place in sums) else L.STORE
            chunk = CHUNK if lengths[0] >= SHARED else 0
            if chunk:
                n_chunks = -(-lengths[0] // chunk)
                places += tuple([self._buffer(np.empty(n_chunks)) for _ in sums])
            self.rows.append(Row(address, places, lengths, tuple(inner), data, chunk, len(sums)))
        else:
            steps = tuple(step for each in strides for step in each)
            dims = (len(lengths), len(places), *lengths)
            self.rows.append(Row(kernels.address_of("over"), places, dims, steps, address))

    def matmuls(self, x: Place, y: Place, out: Place) -> bool:
        """Multiply stacks of matrices, one after another."""
        if len(out.array) > 256:
            return False
        return all(
            self.matmul(x.view(x.array[k]), y.view(y.array[k]), out.view(out.array[k])) for k in range(len(out.array))
        )

    def matmul(self, x: Place, y: Place, out: Place) -> bool:
        """Multiply two matrices whose strides BLAS can read into a third, which is contiguous."""
        dtype = out.array.dtype
        if dtype not in FLOATS or x.array.dtype != dtype or y.array.dtype != dtype or 0 in x.array.shape:
            return False
        if not out.array.flags.c_contiguous:
            if not out.array.T.flags.c_contiguous:
                return False
            return self.matmul(y.view(y.array.T), x.view(x.array.T), out.view(out.array.T))
        (m, k), n = x.array.shape, y.array.shape[1]
        left, right = _blas_layout(x.array), _blas_layout(y.array)
        if left is None or right is None or 0 in (m, n, k):
            return False
        steps = (left[0], right[0], n, left[1], right[1])
        address = kernels.address_of("gemm", dtype)
        self.rows.append(Row(address, (x, y, out), (m, n, k), steps, kernels.gemm_routine(dtype)))
        return True


def layout_of(step: int, itemsize: int) -> str:
    """Name how an operand is walked through, see `jitgrad.kernels.fused.Loop`."""
    return "s" if step == 0 else "c" if step == itemsize else "g"


def _blas_layout(x: Array) -> tuple[int, int] | None:
    """The leading dimension of a matrix, and whether it lies transposed; None where BLAS cannot read it."""
    rows, columns = x.shape
    row, column = x.strides
    item = x.itemsize
    if column == item or columns == 1:
        leading = row // item if rows > 1 else columns
        if leading >= columns and (rows == 1 or row % item == 0):
            return max(leading, 1), 0
    if row == item or rows == 1:
        leading = column // item if columns > 1 else rows
        if leading >= rows and (columns == 1 or column % item == 0):
            return max(leading, 1), 1
    return None
