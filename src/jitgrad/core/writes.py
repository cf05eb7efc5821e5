"""What a write in place to a tensor's memory means for what tapes have recorded of it.

Residuals that it overwrites are stale: a replay that needs one refuses. What is recorded from now on has to do
with the new contents, and so gets new value ids.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from jitgrad.core import trace
from jitgrad.core.op import REGISTRY
from jitgrad.core.references import holders
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Leaf, Tensor, Version

__all__ = ["own", "written"]

_OVERWRITTEN = Version(1)


def own(tensor: Tensor) -> Leaf:
    """Make a tensor one whose memory may be written to in place, and return its `Leaf`."""
    leaf = tensor._leaf
    if leaf is None:
        tape = tensor._tape
        recorded = tape is not None and tensor._vid >= 0
        value = tensor._value
        if not (recorded or hasattr(tensor, "_base") or hasattr(tensor, "_views")) and holders(value) > 2:
            # Until now, whoever else has the array could be sure that it does not change.
            tensor._value = value.copy()
        leaf = tensor._leaf = Leaf()
        if recorded and tape is not None:
            _enter(leaf.version, tensor, tape)
    return leaf


def _enter(version: Version, tensor: Tensor, tape: Tape) -> None:
    tape.versions[tensor._vid] = (version, version.count)
    version.enter(tensor)


def written(tensor: Tensor) -> None:
    """Note that the memory of a tensor, one that `own` was called with, has been written to."""
    leaf = tensor._leaf
    if leaf is None:
        raise RuntimeError("a tensor that does not own its memory was written to in place")
    version = leaf.version
    version.count += 1
    if not version.noticed:
        return
    value = tensor._value
    if value.base is not None or holders(value) > 2:
        for tape in {trace.imperative_tape(), trace.current_trace(), tensor._tape}:
            if tape is not None:
                _mark(tape, value, version)
    entered, version.entered = version.entered, []
    for reference in entered:
        sharer = reference()
        if sharer is not None:
            _renew(sharer, version)


def _mark(tape: Tape, value: np.ndarray[Any, Any], version: Version) -> None:
    """Mark the residuals that have been overwritten, but for those that the version itself tells of."""
    for vid, array in list(tape.kept.items()):
        if array is not value and array.base is None and value.base is None:
            continue
        known = tape.versions.get(vid)
        if (known is None or known[0] is not version) and np.may_share_memory(array, value):
            tape.versions[vid] = (_OVERWRITTEN, 0)


def _renew(tensor: Tensor, version: Version) -> None:
    """Let a tensor stand for a new value: a leaf when it is used next, a result at once."""
    tape = tensor._tape
    if tensor._leaf is not None and tensor._leaf.requires_grad:
        tensor._vid = -1
    elif tape is not None and tensor._vid >= 0 and not tape.ended:
        with trace.recording(True):
            renewed = REGISTRY["alias"](tensor)
        tensor._tape, tensor._vid = renewed._tape, renewed._vid
        if tensor._tape is not None:
            if tensor._tape.handles is not None:
                tensor._tape.handles[tensor._vid] = weakref.ref(tensor)
            _enter(version, tensor, tensor._tape)
