"""What to say of operands that NumPy could not broadcast together: looked into only once it has refused them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jitgrad.core.location import resolve, user_frame
from jitgrad.errors import ShapeError

__all__ = ["translated"]


def translated(error: ValueError, op: str, operands: Iterable[Any]) -> ValueError:
    """Return what to raise for NumPy's ``error`` of an elementwise op: ours, if the shapes are what is wrong.

    Operands may be arrays, tensors, numbers and nested lists of these; None is no operand.
    """
    try:
        shapes = [np.shape(operand) for operand in operands if operand is not None]
    except ValueError:  # lists that are no arrays, of which the error will say so
        return error
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        frame = user_frame(2)
        where = resolve(frame.f_code, frame.f_lasti)
        return ShapeError.broadcast(op, *shapes, where=(where.file, where.line))
    return error
