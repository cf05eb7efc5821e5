"""The reverse replay: the tape's rows, last to first, each adding to the cotangents of its operands.

Tape order is a topological order, so there is no recursion and no sort. On arrays, runs of small elementwise and view
rows are replayed natively in one call; the other rows' rules run here. On tensors (when the gradient is itself to be
differentiated) every rule runs here, and what it does is recorded on the same tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import native
from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import CALLS, OPS, REGISTRY
from jitgrad.core.references import Contents, is_alone
from jitgrad.core.tape import Tape
from jitgrad.core.tensor import Tensor, constant, on_tape
from jitgrad.core.types import ArrayType
from jitgrad.errors import GraphFreedError, InplaceError, NoGradientError
from jitgrad.kernels import layout as L
from jitgrad.kernels import threads

__all__ = ["release", "replay_arrays", "replay_tensors"]

Array = np.ndarray[Any, Any]


def _check_versions(tape: Tape, seeds: Iterable[int], last: int) -> None:
    """Refuse a replay that needs a residual which the user has written over since."""
    stale = {
        value
        for value, (version, expected) in tape.versions.items()
        if version.count != expected and value in tape.kept
    }
    if not stale:
        return
    for at in reversed(tape.keeping_rows(seeds, last)):
        row = tape.row(at)
        keeps, result = row[L.ROW_KEEPS], row[L.ROW_RESULT]
        ids = tape.operands_of(row)
        needed = [value for k, value in enumerate(ids) if keeps & (L.KEEPS_ALL if k > 60 else L.KEEPS_ALL | 1 << k)]
        if keeps & L.KEEPS_RESULT:
            needed.extend(range(result, result + row[L.ROW_N_RESULTS]))
        for value in stale.intersection(needed):
            raise _stale(tape, at, value)


def _stale(tape: Tape, at: int, value: int) -> InplaceError:
    kind, producer = tape.types[value], tape.producer(value)
    version, expected = tape.versions[value]
    location = tape.location(at)
    if isinstance(version, Contents):
        return InplaceError.array(
            kind.shape, kind.dtype, needed_by=_node(tape, at), where=(location.file, location.line)
        )
    return InplaceError.stale(
        kind.shape,
        kind.dtype,
        op=_node(tape, producer) if producer >= 0 else None,
        needed_by=_node(tape, at),
        version=version.count,
        expected=expected,
        where=(location.file, location.line),
    )


def _node(tape: Tape, at: int) -> str:
    row = tape.row(at)
    return OPS[row[L.ROW_KERNEL] >> 1].node_name(tape, row)


def fit(contribution: Any, kind: ArrayType) -> Any:
    """Give a contribution the shape, dtype and realness of the operand whose cotangent it is.

    Sums over the axes that were broadcast; takes the real part for a real operand. Done here once for all rules.
    """
    if contribution.dtype is kind.dtype and contribution.shape == kind.shape:
        return contribution
    if contribution.dtype.kind == "c" and kind.dtype.kind == "f":
        contribution = REGISTRY["real"](contribution)
    if contribution.shape != kind.shape:
        contribution = REGISTRY["sum_to"](contribution, shape=kind.shape)
    if contribution.dtype != kind.dtype:
        contribution = REGISTRY["astype"](contribution, dtype=kind.dtype)
    return contribution


class _Bars:
    """The cotangents of a replay on arrays: some in malloc'ed memory of native code, some in arrays."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.arrays: dict[int, Array] = {}

    def add(self, value: int, contribution: Array) -> None:
        """Add to the cotangent of a value."""
        header = self.tape.header
        done = native.accumulate(header, value, contribution)
        if done == 1:
            self.arrays[value] = contribution
        elif done == 2:
            state = self.tape.bar_state(value)
            if state == L.BAR_NONE:
                kind = self.tape.types[value]
                self._give(value, np.ascontiguousarray(contribution).reshape(kind.shape), L.BAR_BORROWED)
            elif state == L.BAR_ARRAY:
                held = self.arrays[value]
                threads.elementwise(np.add, held, contribution, out=held)
            else:
                self._give(value, np.asarray(threads.elementwise(np.add, self.take(value), contribution)), L.BAR_ARRAY)

    def add_unlike(self, value: int, contribution: Any) -> None:
        """Add to the cotangent of a value what may be of another shape or dtype."""
        self.add(value, fit(contribution, self.tape.types[value]))

    def _give(self, value: int, array: Array, state: int) -> None:
        self.arrays[value] = array
        native.give(self.tape.header, value, array, state)

    def take(self, value: int) -> Array:
        """Return the cotangent of a value, and forget it."""
        tape = self.tape
        array = self.arrays.pop(value, None)
        if array is None or tape.bar_state(value) == L.BAR_OWNED:
            kind = tape.types[value]
            array = np.empty(kind.shape, kind.dtype)
        native.take(tape.header, value, array)
        return array

    def open(self, value: int) -> None:
        """Make the cotangent of a value, zeros if there is none, an array that only the replay knows."""
        kind = self.tape.types[value]
        none = self.tape.bar_state(value) == L.BAR_NONE
        self._give(value, np.zeros(kind.shape, kind.dtype) if none else self.take(value).copy(), L.BAR_ARRAY)

    def hand_out(self, value: int) -> Array:
        """Return the cotangent of a value as an array that is the caller's alone."""
        shared = self.tape.bar_state(value) == L.BAR_BORROWED
        array = self.take(value)
        # a rule may have returned its cotangent, a residual, or one array for two operands
        if shared and not is_alone(array):
            array = array.copy()
        return array

    def peek(self, value: int) -> Array:
        """Return the cotangent of a value, and keep it."""
        array = self.take(value)
        self._give(value, array, L.BAR_BORROWED)
        return array

    def end(self) -> None:
        """Free what is left: after an error, or because nothing wanted it."""
        native.end(self.tape.header)
        self.arrays.clear()


def _gather(n_results: int, result: int, types: Sequence[ArrayType], fetch: Callable[[int], Any]) -> Any:
    """The cotangent of a row: of several results, a tuple, with zeros for those that nothing has reached."""
    if n_results == 1:
        return fetch(result)
    bars = [fetch(result + k) for k in range(n_results)]
    if all(bar is None for bar in bars):
        return None
    return tuple(
        np.zeros(types[result + k].shape, types[result + k].dtype) if bar is None else bar for k, bar in enumerate(bars)
    )


def _contributions(
    tape: Tape, row: Sequence[int], g: Any, is_active: Callable[[int], bool], value_of: Callable[[int], Any]
) -> Iterable[tuple[int, Any]]:
    """Run the rules of a row's active operands."""
    op = OPS[row[L.ROW_KERNEL] >> 1]
    ids = tape.operands_of(row)
    result, n_results = row[L.ROW_RESULT], row[L.ROW_N_RESULTS]
    if tape.freed(row):
        raise GraphFreedError.second_backward(op=op.node_name(tape, row))
    all_types = tape.types
    values = [value_of(value) if value >= 0 else None for value in ids]
    if L.IMMEDIATE in ids:
        values[ids.index(L.IMMEDIATE)] = tape.immediate(row)
    types = [all_types[value] if value >= 0 else None for value in ids]
    out = value_of(result) if n_results == 1 else tuple(value_of(result + k) for k in range(n_results))
    params = tape.params_of(row)
    for k, value in enumerate(ids):
        if value < 0 or not is_active(value):
            continue
        rule = op.rule_of(k)
        if rule is None:
            if op.is_discrete(k):
                continue
            raise NoGradientError.op(op.name, op.operands[k] if op.operands else None)
        contribution = rule.call(k, g, values, types, out, params)
        if contribution is not None:
            yield value, fit(contribution, all_types[value])


def _compile_missing(tape: Tape, row: Sequence[int]) -> bool:
    """Compile the VJP kernels of a row that native code has stopped at. Tell whether there were any."""
    op = OPS[row[L.ROW_KERNEL] >> 1]
    if row[L.ROW_KIND] not in L.KINDS_OF_KERNELS or not isinstance(op, Elementwise):
        return False
    for k, value in enumerate(tape.operands_of(row)):
        if value >= 0 and tape.is_active(value):
            if op.rule_of(k) is None:
                raise NoGradientError.op(op.name, (op.operands or ())[k])
            op.vjp_address(k, row[L.ROW_KERNEL] & 1)
    return True


def _open_large(tape: Tape, row: Sequence[int], bars: _Bars) -> bool:
    """Give a row that native code has stopped at the large array that it adds to. Tell whether it wanted one."""
    if row[L.ROW_KIND] not in (L.KIND_VIEW, L.KIND_GATHER):
        return False
    base = tape.operands_of(row)[0]
    if tape.types[base].size <= L.SMALL or tape.bar_state(base) not in (L.BAR_NONE, L.BAR_BORROWED):
        return False
    bars.open(base)
    return True


def _hooked_rows(tape: Tape, last: int, first_row: int) -> list[int]:
    """Return the rows whose results' cotangents the user wants to see before they go on, last to first."""
    rows = {tape.producer(value) for value in tape.hooks or ()}
    return sorted((row for row in rows if first_row <= row <= last), reverse=True)


def _hooked(tape: Tape, value: int, bar: Any) -> Any:
    """Return the cotangent of a value after the user's hooks have seen it."""
    for hook in list((tape.hooks or {}).get(value, {}).values()):
        bar = hook(bar)
    return bar


def replay_arrays(
    tape: Tape,
    seeds: dict[int, Array],
    wanted: Sequence[int],
    first_row: int = 0,
    first_value: int = 0,
    retain: bool = False,
) -> dict[int, Array]:
    """Propagate cotangents from ``seeds`` back to the ``wanted`` values, on arrays.

    Parameters
    ----------
    tape : Tape
        The tape. Rows before ``first_row`` and values before ``first_value`` take no part.
    seeds : dict
        Cotangents of results, by value id; each of its value's shape and dtype.
    wanted : sequence of int
        The values whose cotangents are returned.
    retain : bool
        Keep the residuals for another replay. Otherwise each is dropped as soon as its row is done.

    Returns
    -------
    dict
        Cotangents by value id; a wanted value that nothing reached is missing.
    """
    if tape.lock is None:
        return _replay_arrays(tape, seeds, wanted, first_row, first_value, retain)
    with tape.lock:
        return _replay_arrays(tape, seeds, wanted, first_row, first_value, retain)


def _replay_arrays(
    tape: Tape, seeds: dict[int, Array], wanted: Sequence[int], first_row: int, first_value: int, retain: bool
) -> dict[int, Array]:
    last = max(map(tape.producer, seeds), default=-1)
    native.begin(tape.header, first_value, first_row, last, *wanted)
    if tape.versions:
        _check_versions(tape, seeds, last)
    bars = _Bars(tape)
    held = set(wanted)
    kept = tape.kept
    shared = tape.handles is not None  # other graphs may stand on the same tape and need what this one drops
    if shared and not retain:
        tape.begin_release(seeds, last)
    try:
        for value, seed in seeds.items():
            if tape.is_active(value):
                bars.add(value, seed)

        def fetch(value: int) -> Array | None:
            if tape.bar_state(value) == L.BAR_NONE:
                return None
            return bars.peek(value) if value in held else bars.take(value)

        at = last
        stops = _hooked_rows(tape, last, first_row) if tape.hooks else []
        while True:
            floor = stops[0] + 1 if stops else first_row
            if at >= floor:
                at = native.reverse(tape.header, floor, at, CALLS, bars.add_unlike)
            if stops and at == stops[0]:
                row = tape.row(stops.pop(0))
                for value in range(row[L.ROW_RESULT], row[L.ROW_RESULT] + row[L.ROW_N_RESULTS]):
                    if value in (tape.hooks or ()) and tape.bar_state(value) != L.BAR_NONE:
                        bars.add(value, _hooked(tape, value, bars.take(value)))
                continue
            if at < first_row:
                break
            row = tape.row(at)
            result, n_results = row[L.ROW_RESULT], row[L.ROW_N_RESULTS]
            if not tape.freed(row) and (_compile_missing(tape, row) or _open_large(tape, row, bars)):
                continue
            opcode = row[L.ROW_KERNEL] >> 1
            if CALLS[opcode] is None:
                CALLS[opcode] = OPS[opcode].calls  # from now on, native code calls them

            g = _gather(n_results, result, tape.types, fetch)
            if tape.is_active(result):
                for value, contribution in _contributions(tape, row, g, tape.is_active, kept.get):
                    bars.add(value, contribution)
                    del contribution  # hand_out asks who else holds it
            del g
            if not retain:
                for value in range(result, result + n_results):
                    if value in kept and not (shared and not tape.may_drop(value)):
                        del kept[value]
            at -= 1
        return {value: bars.hand_out(value) for value in wanted if tape.bar_state(value) != L.BAR_NONE}
    finally:
        bars.end()
        if shared and not retain:
            tape.end_release()


def replay_tensors(
    tape: Tape,
    seeds: dict[int, Tensor],
    wanted: Sequence[int],
    *,
    first_row: int = 0,
    first_value: int = 0,
) -> dict[int, Tensor]:
    """Propagate cotangents as `replay_arrays` does, on tensors: what it computes is recorded.

    It is recorded on the same tape, or, if that tape's trace is over, on the tape of the seeds.
    """
    if tape.lock is None:
        return _replay_tensors(tape, seeds, wanted, first_row, first_value)
    with tape.lock:
        return _replay_tensors(tape, seeds, wanted, first_row, first_value)


def _replay_tensors(
    tape: Tape, seeds: dict[int, Tensor], wanted: Sequence[int], first_row: int, first_value: int
) -> dict[int, Tensor]:
    last = max(map(tape.producer, seeds), default=-1)
    native.begin(tape.header, first_value, first_row, last, *wanted)
    if tape.versions:
        _check_versions(tape, seeds, last)
    active = tape.active_flags()
    held = set(wanted)
    bars: dict[int, Tensor] = {value: seed for value, seed in seeds.items() if active[value]}
    handles = tape.handles or {}

    def value_of(value: int) -> Any:
        array = tape.kept.get(value)
        if array is None or tape.ended:  # residuals of a finished trace are constants to a later one
            return array
        reference = handles.get(value)
        handle = tape.inputs.get(value) if reference is None else reference()
        if type(handle) is Tensor and handle._tape is tape and handle._vid == value:
            return handle
        if tape.handles is not None and tape.producer(value) < 0 and value not in tape.inputs:
            return array  # kept for a rule, but nothing that a derivative is asked of
        return on_tape(array, tape, value)

    def flag(value: int) -> bool:
        return value >= first_value and bool(active[value])

    def fetch(value: int) -> Tensor | None:
        return bars.get(value) if value in held else bars.pop(value, None)

    tape.locked += 1
    try:
        for at in range(last, first_row - 1, -1):
            row = tape.row(at)
            result, n_results = row[L.ROW_RESULT], row[L.ROW_N_RESULTS]
            if not any(result + k in bars for k in range(n_results)):
                continue

            if tape.hooks:
                for value in range(result, result + n_results):
                    if value in bars:
                        bars[value] = _hooked(tape, value, bars[value])
            g = _gather(n_results, result, tape.types, fetch)
            if not active[result]:
                continue
            before = len(tape)
            for value, contribution in _contributions(tape, row, g, flag, value_of):
                other = bars.get(value)
                if type(contribution) is not Tensor:
                    contribution = constant(np.asarray(contribution))
                bars[value] = contribution if other is None else REGISTRY["add"](other, contribution)
            if not tape.ended:
                tape.relocate(before, row[L.ROW_CODE], row[L.ROW_LASTI])
        return {value: bars[value] for value in wanted if value in bars}
    finally:
        tape.locked -= 1


def release(tape: Tape, seeds: Sequence[int], wanted: Sequence[int]) -> None:
    """Drop the residuals that only a replay from ``seeds`` needs, as one without ``retain`` would have."""
    last = max(map(tape.producer, seeds), default=-1)
    native.begin(tape.header, 0, 0, last, *wanted)
    tape.begin_release(seeds, last)
    native.end(tape.header)
    tape.end_release()
