"""The forward replay: the tape's rows, first to last, each mapping tangents of its operands to its result's.

It reads the same rules as the reverse replay: an elementwise op's partials, a linear op itself, and for every other
op the transpose of its VJP rule, which is linear in the cotangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core import trace
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import OPS, REGISTRY, Op
from jitgrad.core.reverse import fit, replay_arrays, replay_tensors
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, constant, on_tape
from jitgrad.core.types import ArrayType
from jitgrad.errors import NoGradientError
from jitgrad.kernels import layout as L

__all__ = ["replay_tangents"]


def replay_tangents(
    tape: Tape,
    tangents: dict[int, Any],
    *,
    first_row: int,
    end_row: int,
    tensors: bool,
) -> dict[int, Any]:
    """Propagate tangents forward through the rows from ``first_row`` up to ``end_row``.

    Parameters
    ----------
    tape : Tape
        The tape, with all residuals still kept.
    tangents : dict
        Tangents of inputs, by value id; the results' are added to it.
    tensors : bool
        Whether to compute on tensors and record it, so that the tangents can be differentiated.

    Returns
    -------
    dict
        ``tangents``; a value that no tangent reaches is missing.
    """

    def value_of(value: int) -> Any:
        array = tape.kept.get(value)
        return on_tape(array, tape, value) if tensors and array is not None else array

    tape.locked += 1
    try:
        for at in range(first_row, end_row):
            row = tape.row(at)
            ids = tape.operands_of(row)
            active = [k for k, value in enumerate(ids) if value in tangents]
            if not active:
                continue
            op = OPS[row[L.ROW_KERNEL] >> 1]
            before = len(tape)
            results = _push(tape, op, row, ids, active, tangents, value_of, tensors)
            for k, tangent in enumerate(results):
                if tangent is not None:
                    value = row[L.ROW_RESULT] + k
                    tangents[value] = fit(tangent, tape.types[value])  # of float32 beside float64, say
            tape.relocate(before, row[L.ROW_CODE], row[L.ROW_LASTI])
    finally:
        tape.locked -= 1
    return tangents


def _zeros(kind: ArrayType) -> Any:
    return np.zeros(kind.shape, kind.dtype)


def _push(
    tape: Tape,
    op: Op,
    row: Sequence[int],
    ids: Sequence[int],
    active: Sequence[int],
    tangents: dict[int, Any],
    value_of: Any,
    tensors: bool,
) -> Sequence[Any]:
    result, n_results = row[L.ROW_RESULT], row[L.ROW_N_RESULTS]
    values = [tape.immediate(row) if value == L.IMMEDIATE else value_of(value) if value >= 0 else None for value in ids]
    out_types = tape.types[result : result + n_results]
    params = tape.params_of(row)
    for k in active:
        if op.rule_of(k) is None and not op.is_discrete(k):
            raise NoGradientError.op(op.name, op.operands[k] if op.operands else None)
    if isinstance(op, Elementwise):
        operands = op.operands or ()
        pool = dict(zip(operands, values, strict=True))
        pool["out"] = value_of(result)
        total: Any = None
        for k in active:
            residuals = [pool[name] for name in op.residuals[operands[k]]]
            term = op.contribution(k, tangents[ids[k]], residuals)
            if term.shape != out_types[0].shape:
                term = REGISTRY["broadcast_to"](term, shape=out_types[0].shape)
            total = term if total is None else REGISTRY["add"](total, term)
        return (total,)
    if op.linear == "jointly":
        filled = [
            tangents[value] if k in active else _zeros(tape.types[value]) if value >= 0 else value
            for k, value in enumerate(ids)
        ]
        if not any(type(piece) is int for piece in filled):
            out = op(*filled, **params)
            return out if isinstance(out, tuple) else (out,)
    elif op.linear == "each" and all(
        values[j] is not None for k in active for j in range(len(ids)) if j != k
    ):  # each active operand's term needs the values of all the others
        total = None
        for k in active:
            term = op(*(tangents[ids[k]] if j == k else values[j] for j in range(len(ids))), **params)
            total = term if total is None else REGISTRY["add"](total, term)
        return total if isinstance(total, tuple) else (total,)
    return _transposed(tape, op, row, ids, active, values, tangents, out_types, params, tensors)


def _transposed(
    tape: Tape,
    op: Op,
    row: Sequence[int],
    ids: Sequence[int],
    active: Sequence[int],
    values: Sequence[Any],
    tangents: dict[int, Any],
    out_types: Sequence[ArrayType],
    params: dict[str, Any],
    tensors: bool,
) -> Sequence[Any]:
    """Transpose the VJP rule: record it as a linear function of a cotangent, and replay that in reverse."""
    scratch = tape if tensors else Tape()
    first_row, first_value = len(scratch), scratch.count
    inputs = []
    for kind in out_types:
        zeros = _zeros(kind)
        value = scratch.define(zeros)
        if scratch.capture is not None:
            scratch.capture.constants[value] = zeros
        inputs.append(on_tape(zeros, scratch, value, kind))
    g = tuple(inputs) if len(inputs) > 1 else inputs[0]
    types = [tape.types[value] if value >= 0 else None for value in ids]
    result, n_results = row[L.ROW_RESULT], row[L.ROW_N_RESULTS]
    kept = [tape.kept.get(result + k) for k in range(n_results)]
    if tensors:
        kept = [None if a is None else on_tape(a, tape, result + k) for k, a in enumerate(kept)]  # type: ignore[misc]
    out = kept[0] if n_results == 1 else tuple(kept)
    seeds: dict[int, Any] = {}
    with trace.tracing(scratch):
        for k in active:
            rule = op.rule_of(k)
            contribution = None if rule is None else rule.call(k, g, values, types, out, params)
            if type(contribution) is not Tensor or contribution._tape is not scratch or contribution._vid < first_value:
                continue
            kind = tape.types[ids[k]]
            contribution = fit(contribution, kind)
            tangent = tangents[ids[k]]
            held = seeds.get(contribution._vid)
            seeds[contribution._vid] = tangent if held is None else REGISTRY["add"](held, tangent)
        wanted = [handle._vid for handle in inputs]
        if not seeds:
            return [None] * n_results
        if tensors:
            seeds = {k: t if type(t) is Tensor else constant(np.asarray(t)) for k, t in seeds.items()}
            bars: dict[int, Any] = dict(
                replay_tensors(scratch, seeds, wanted, first_row=first_row, first_value=first_value)
            )
        else:
            bars = dict(replay_arrays(scratch, seeds, wanted, first_row=first_row, first_value=first_value))
    return [bars.get(value) for value in wanted]
