"""Views: tensors that share memory, as NumPy's views do, and know of each other.

A view's ``_base`` is the tensor that it is a view of, with the op and the parameters that make it; a base's
``_views`` are weak references to its views. So a write to either can be carried to the other
(`jitgrad.ops.writing`).
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from jitgrad.core import native
from jitgrad.core.op import OPS, Array, Op, recorded, recording_tape
from jitgrad.core.tensor import Tensor, constant, sweep
from jitgrad.kernels import layout as L

__all__ = ["Origin", "live_views", "origin", "root", "view"]

Origin = tuple[Tensor, Op, dict[str, Any]]


def view(op: Op, x: Tensor, out: Array, params: dict[str, Any]) -> Tensor:
    """Record that ``op`` has made ``out`` of the value of ``x``; link the two if they share memory."""
    derived = native.derive(op.index, x, out, params)
    if derived is not None:
        return derived  # type: ignore[no-any-return]
    tape = recording_tape((x,))
    if tape is None or not recorded(tape, out):
        handle = constant(out)
    else:
        handle = op.record(tape, (x,), [x._value], out, params)
    if np.may_share_memory(out, x._value):
        handle._base = (x, op, params)
        _remember(x, handle)
    return handle


def _remember(base: Tensor, handle: Tensor) -> None:
    views: Any = getattr(base, "_views", None)
    reference = weakref.ref(handle)
    if views is None:
        base._views = [reference]
        return
    views.append(reference)
    n = len(views)
    if n >= 16 and n & (n - 1) == 0:  # at powers of two: dropping dead references costs O(1) a view
        sweep(views)


def origin(x: Tensor) -> Origin | None:
    """Return what a tensor is a view of, and how; None if it is no view."""
    base = getattr(x, "_base", None)
    if type(base) is Tensor:  # made by native code, which leaves the how to the tape
        tape = x._tape
        if tape is None:
            raise RuntimeError("a view that native code has recorded is on no tape")
        row = tape.row(tape.producer(x._vid))
        base = x._base = (base, OPS[row[L.ROW_KERNEL] >> 1], tape.params_of(row))
    return base


def root(x: Tensor) -> Tensor:
    """Return the tensor whose memory a view is part of: itself for any other."""
    while (found := origin(x)) is not None:
        x = found[0]
    return x


def live_views(x: Tensor) -> list[Tensor]:
    """Return the views of a tensor that someone still holds."""
    views = [reference() for reference in getattr(x, "_views", ())]
    return [handle for handle in views if handle is not None and (found := origin(handle)) and found[0] is x]
