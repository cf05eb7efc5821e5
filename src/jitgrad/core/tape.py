"""The tape: instructions and values as rows of integers, in the order in which they ran.

Native code appends to it and replays it (`jitgrad.kernels.entries`); `jitgrad.kernels.layout` says what each column
holds. Beside the integers stand the few Python objects that instructions need: static parameters, types, and the
arrays that a VJP rule has asked to keep.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.core import native
from jitgrad.core.location import Location, resolve, user_frame
from jitgrad.core.references import Contents, holders
from jitgrad.core.types import ArrayType, type_of
from jitgrad.kernels import layout as L

if TYPE_CHECKING:
    from jitgrad.core.capture import Capture
    from jitgrad.core.tensor import Tensor, Version

__all__ = ["Anchor", "Tape"]

Array = np.ndarray[Any, Any]

# kinds of rows whose data is the index of their static parameters
_WITH_PARAMS = (L.KIND_RULE, L.KIND_VIEW, L.KIND_PUT, L.KIND_JOIN, L.KIND_GATHER)
_FIRST_ROWS = 128
_FIRST_TRACKED_ROWS = 1024  # compacting has a fixed cost, too
_FIRST_BYTES = 64 << 20

# Storage of tapes that have ended: to find addresses of arrays costs more than a small gradient.
_SPARE: list[tuple[Any, ...]] = []
_MAX_SPARE = 8
_MAX_SPARE_ROWS = 1 << 14


class Anchor:
    """A place on a tape that is still the same when the tape has been compacted, for what is no tensor."""

    __slots__ = ("__weakref__", "_tape", "_vid", "node")

    _leaf = None  # of a tensor

    def __init__(self, tape: Tape, vid: int) -> None:
        self._tape = tape
        self._vid = vid
        self.node: weakref.ref[Any] | None = None  # what the imperative face shows of it


class Tape:
    """A list of instructions over numbered values.

    Parameters
    ----------
    tracks_handles : bool
        Whether the tape knows which tensors stand for its values, and so can drop instructions that nothing can
        reach any more (``compact``). The imperative face needs that; a transform's tape lives too briefly.
    """

    __slots__ = (
        "__weakref__",
        "_operands",
        "_rows",
        "_values",
        "anchors",
        "capture",
        "codes",
        "due",
        "ended",
        "handles",
        "header",
        "hooks",
        "inputs",
        "kept",
        "lock",
        "locked",
        "overdue",
        "params",
        "retained",
        "thread",
        "types",
        "versions",
    )

    def __init__(self, *, tracks_handles: bool = False) -> None:
        if not tracks_handles and _SPARE:
            self.header, self._rows, self._operands, self._values = _SPARE.pop()
        else:
            self.header = np.zeros(L.H_WIDTH, dtype=np.int64)
            self.header[L.H_BYTE_LIMIT] = _FIRST_BYTES if tracks_handles else 1 << 62
            n_rows = _FIRST_TRACKED_ROWS if tracks_handles else _FIRST_ROWS
            self._allocate(n_rows, 3 * n_rows, 2 * n_rows)
        self.types: list[ArrayType] = []  # of each value
        self.kept: dict[int, np.ndarray[Any, Any]] = {}  # residuals, by value
        self.params: list[dict[str, Any]] = []
        self.codes: dict[int, CodeType] = {}  # keeps the code objects alive whose addresses stand in the rows
        self.inputs: dict[int, Tensor | Anchor] = {}  # what entered from outside: leaves, or results on other tapes
        self.versions: dict[
            int, tuple[Version | Contents, int]
        ] = {}  # of memory that may be written to, and its count then
        self.handles: dict[int, weakref.ref[Tensor]] | None = {} if tracks_handles else None
        # Of the imperative face: places that are referred to, functions to call with cotangents, tensors that want
        # theirs, and the right to replay or compact, which threads may contend for.
        self.anchors: dict[int, weakref.ref[Anchor]] | None = None
        self.hooks: dict[int, dict[int, Callable[[Any], Any]]] | None = None
        self.retained: weakref.WeakValueDictionary[int, Tensor] | None = None  # by id()
        self.lock = threading.RLock() if tracks_handles else None
        self.capture: Capture | None = None  # if the tape is to be replayed on other inputs
        self.thread = threading.get_ident()  # which records on it
        self.ended = False
        self.locked = 0  # by how many: while a replay walks the rows, they keep their numbers
        self.overdue = False  # whether it would have been compacted, had it not been locked
        self.due = _FIRST_TRACKED_ROWS // 2  # the length from which on `catch_up` compacts it
        native.attach(self.header, self.kept, self.types, self.codes, self.handles, self.params, True)

    def capture_all(self, capture: Capture) -> None:
        """Record everything, and in Python: native code keeps nothing that only a later replay needs."""
        self.capture = capture
        self.header[L.H_THREAD] = 0

    def _publish(self) -> None:
        """Tell native code where the tape's Python objects are: to be called when one has been replaced."""
        native.attach(self.header, self.kept, self.types, self.codes, self.handles, self.params)

    @property
    def count(self) -> int:
        """Number of values so far."""
        return int(self.header[L.H_N_VALUES])

    def _allocate(self, n_rows: int, n_operands: int, n_values: int) -> None:
        """Give the tape room for so many; what it holds stays."""
        header = self.header
        old = (self._rows, self._operands, self._values) if header[L.H_ROWS] else None
        self._rows = np.empty((n_rows, L.ROW_WIDTH), dtype=np.int64)
        self._operands = np.empty(n_operands, dtype=np.int64)
        self._values = np.empty((n_values, L.VALUE_WIDTH), dtype=np.int64)
        if old is not None:
            for new, filled, length in zip(
                (self._rows, self._operands, self._values),
                old,
                (header[L.H_N_ROWS], header[L.H_N_OPERANDS], header[L.H_N_VALUES]),
                strict=True,
            ):
                new[:length] = filled[:length]
        header[L.H_ROWS] = self._rows.ctypes.data
        header[L.H_ROW_CAPACITY] = n_rows
        header[L.H_OPERANDS] = self._operands.ctypes.data
        header[L.H_OPERAND_CAPACITY] = n_operands
        header[L.H_VALUES] = self._values.ctypes.data
        header[L.H_VALUE_CAPACITY] = n_values

    def __len__(self) -> int:
        """Return the number of instructions."""
        return int(self.header[L.H_N_ROWS])

    def reserve(self, n_operands: int, n_values: int) -> None:
        """Make room for one instruction more, by dropping dead ones where that frees enough, else by growing.

        Ids of values are good until the next call: dropping instructions numbers the values anew.
        """
        header = self.header
        if native.room(header, n_operands, n_values):
            return
        full = self._lacks(n_operands, n_values)
        if self.handles is not None and not self.locked:
            self.compact()
            header[L.H_BYTE_LIMIT] = _FIRST_BYTES
            # What is more than half full would soon be full again, and compacting is not for nothing.
            full = full and self._lacks(n_operands, n_values, share=2)
        elif self.locked:
            self.overdue = True
        header[L.H_BYTE_LIMIT] = max(int(header[L.H_BYTE_LIMIT]), 2 * int(header[L.H_BYTES]))
        if full:
            self._allocate(
                2 * int(header[L.H_ROW_CAPACITY]),
                max(2 * int(header[L.H_OPERAND_CAPACITY]), int(header[L.H_N_OPERANDS]) + n_operands),
                max(2 * int(header[L.H_VALUE_CAPACITY]), int(header[L.H_N_VALUES]) + n_values),
            )

    def _lacks(self, n_operands: int, n_values: int, share: int = 1) -> bool:
        """Tell whether one instruction more would fill more than the share's part of what is allocated."""
        header = self.header
        return bool(
            share * (header[L.H_N_ROWS] + 1) > header[L.H_ROW_CAPACITY]
            or share * (header[L.H_N_OPERANDS] + n_operands) > header[L.H_OPERAND_CAPACITY]
            or share * (header[L.H_N_VALUES] + n_values) > header[L.H_VALUE_CAPACITY]
        )

    # -- recording ---------------------------------------------------------------------------------------------

    def define(self, array: np.ndarray[Any, Any], kind: ArrayType | None = None) -> int:
        """Enter an input and return its id."""
        kind = type_of(array) if kind is None else kind
        try:
            value = native.define(self.header, array)
            while value is None:
                self._allocate(len(self._rows), len(self._operands), 2 * len(self._values))
                value = native.define(self.header, array)
            self.types.append(kind)
        except BaseException:
            self.mend([kind])
            raise
        return int(value)

    def mend(self, kinds: Sequence[ArrayType]) -> None:
        """Enter the types of values that were about to be entered, if a ^C has come between the values and them."""
        if self.count > len(self.types):
            self.types.extend(kinds)

    def define_users(self, array: Array) -> tuple[int, Array]:
        """Enter an array of the user's that a rule may need again; return its id, and the array to be kept.

        The user may write to it before the replay, as to a buffer that is used over and over. A small one is copied;
        of a large or strided one a sample is remembered, and a replay that needs it refuses if that has changed.
        """
        if array.size <= L.COPIED and array.flags.forc:  # what is done to it may depend on its layout
            array = array.copy(order="K")
            value = self.define(array)
        else:
            value = self.define(array)
            contents = Contents(array)
            self.versions[value] = (contents, contents.count)
        return value, array

    def append(
        self,
        opcode: int,
        kind: int,
        operands: Sequence[int],
        results: tuple[np.ndarray[Any, Any], ...],
        params: dict[str, Any] | None = None,
        dtype: int = 0,
        immediate: int = 0,
        keeps: int = 0,
    ) -> int:
        """Append an instruction that has run already; return the id of its first result.

        Room for it must have been reserved before the ids of its operands were taken.
        """
        frame = user_frame(3)
        code = frame.f_code
        self.codes[id(code)] = code
        data = immediate
        if params is not None:
            data = len(self.params)
            self.params.append(params)
        kernel = 2 * opcode + dtype
        kinds = [type_of(result) for result in results]
        try:
            first = native.append(self.header, kernel, kind, data, keeps, code, frame.f_lasti, results, *operands)
            if first is None:
                raise RuntimeError("no room was reserved on the tape")
            self.types.extend(kinds)
        except BaseException:
            self.mend(kinds)
            raise
        return int(first)

    def relocate(self, first_row: int, code: int, lasti: int) -> None:
        """Say that the instructions from ``first_row`` on stand for one place in the user's code."""
        self._rows[first_row : len(self), L.ROW_CODE] = code
        self._rows[first_row : len(self), L.ROW_LASTI] = lasti

    # -- reading -----------------------------------------------------------------------------------------------

    def row(self, index: int) -> list[int]:
        """Return one instruction's columns."""
        columns: list[int] = self._rows[index].tolist()
        return columns

    def operands_of(self, row: Sequence[int]) -> list[int]:
        """Return the ids of an instruction's operands."""
        first = row[L.ROW_OPERANDS]
        n = L.N_IDS.get(row[L.ROW_KIND], row[L.ROW_N_OPERANDS])
        ids: list[int] = self._operands[first : first + n].tolist()
        return ids

    def immediate(self, row: Sequence[int]) -> float:
        """Return the Python scalar that stands in an instruction."""
        bits = np.array([row[L.ROW_DATA]], dtype=np.int64)
        return float(bits.view(np.float32 if row[L.ROW_KERNEL] & 1 else np.float64)[0])

    def params_of(self, row: Sequence[int]) -> dict[str, Any]:
        """Return an instruction's static parameters."""
        kind = row[L.ROW_KIND]
        if kind == L.KIND_TOTAL:
            ndim = self.types[self._operands[row[L.ROW_OPERANDS]]].ndim
            return {"axes": tuple(range(ndim)), "keepdims": False}
        return self.params[row[L.ROW_DATA]] if kind in _WITH_PARAMS else {}

    def producer(self, value: int) -> int:
        """Return the row that made a value, -1 for an input."""
        return int(self._values[value, L.VALUE_ROW])

    def location(self, index: int) -> Location:
        """Return the line of user code at which an instruction was recorded."""
        row = self.row(index)
        return resolve(self.codes[row[L.ROW_CODE]], row[L.ROW_LASTI])

    def freed(self, row: Sequence[int]) -> bool:
        """Tell whether a reverse replay has dropped what this instruction had kept."""
        return row[L.ROW_FREED] == L.FREED

    def anchor(self, value: int) -> Anchor:
        """Return the anchor of a value, which is the same for as long as something refers to it."""
        if self.anchors is None:
            self.anchors = {}
        reference = self.anchors.get(value)
        found = None if reference is None else reference()
        if found is None:
            found = Anchor(self, value)
            self.anchors[value] = weakref.ref(found)
        return found

    # -- marks for the replays ------------------------------------------------------------------------------

    def is_active(self, value: int) -> bool:
        """Tell whether the running replay wants what flows through a value."""
        return bool(native.state(self.header, value) & 8)

    def active_flags(self) -> list[int]:
        """Return the marks of all values."""
        flags: list[int] = self._values[: self.count, L.VALUE_ACTIVE].tolist()
        return flags

    def bar_state(self, value: int) -> int:
        """Return where the cotangent of a value is, one of the BAR constants of the layout."""
        return int(native.state(self.header, value) & 7)

    def begin_release(self, seeds: Iterable[int], last_row: int) -> None:
        """Find out what a replay from ``seeds`` may drop: see ``may_drop``."""
        self._values[: self.count, L.VALUE_NEEDED] = 0
        for value in seeds:
            self._values[value, L.VALUE_NEEDED] = 2
        native.release(self.header, last_row)

    def keeping_rows(self, seeds: Iterable[int], last_row: int) -> list[int]:
        """Return the rows that a replay from ``seeds`` reaches and that keep values, among those that it has marked."""
        self.begin_release(seeds, last_row)
        marks = self._rows[: last_row + 1, L.ROW_FREED]
        found = np.flatnonzero(marks == L.BEING_FREED)
        marks[found] = 0
        rows: list[int] = found.tolist()
        return rows

    def may_drop(self, value: int) -> bool:
        """Tell whether no row beyond the running replay's needs a value again."""
        return not self._values[value, L.VALUE_NEEDED]

    def end_release(self) -> None:
        """Drop all residuals that only rows of the replay that ran had kept, and mark those rows."""
        freed = self._rows[: len(self), L.ROW_FREED]
        freed[freed == L.BEING_FREED] = L.FREED
        kept = self.kept
        if kept:
            needed = self._values[:, L.VALUE_NEEDED]
            for value in [value for value in kept if not needed[value]]:
                del kept[value]

    # -- lifetime ------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Refuse further instructions: the transform that traced the function is over."""
        self.ended = True
        self.header[L.H_ROW_CAPACITY] = 0

    def recycle(self) -> None:
        """Hand the storage of an ended tape, to which nothing else refers, on to the next one."""
        if len(_SPARE) < _MAX_SPARE and len(self._rows) <= _MAX_SPARE_ROWS:
            self.header[L.H_ROW_CAPACITY] = len(self._rows)
            _SPARE.append((self.header, self._rows, self._operands, self._values))

    def catch_up(self) -> None:
        """Compact the tape if it has doubled: called by the thread that records on it, when a replay or trace is over.

        Where all that is recorded is recorded while the tape is locked, there would be no other occasion.
        """
        if self.handles is not None and not self.locked and (self.overdue or len(self) > self.due):
            self.compact()
            self.header[L.H_BYTE_LIMIT] = max(_FIRST_BYTES, 2 * int(self.header[L.H_BYTES]))

    def compact(self) -> None:
        """Drop every instruction and value from which no tensor can be reached, and number the rest anew.

        Costs time in proportion to the tape's length. It runs when the tape is full, and afterwards the tape is
        let grow to twice what was alive: so its share of each operation is constant.
        """
        handles = self.handles
        if handles is None or self.lock is None:
            raise RuntimeError("this tape does not know its tensors and cannot be compacted")
        with self.lock:
            self._compact(handles)
        self.overdue = False
        self.due = max(_FIRST_TRACKED_ROWS // 2, 2 * len(self))

    def _compact(self, handles: dict[int, weakref.ref[Tensor]]) -> None:
        tensors: dict[int, Tensor] = self._living(handles)
        anchors: dict[int, Anchor] = self._living(self.anchors or {})
        captive = self._captives(tensors)
        live, keep_row = self._mark({*tensors, *anchors}, captive)
        for value in captive:
            del tensors[value]
        new_id = np.cumsum(live) - 1
        survivors = np.flatnonzero(live)
        new_row = np.cumsum(keep_row) - 1
        kept_rows, operands, params = self._moved(np.flatnonzero(keep_row), new_id)
        values = self._values[survivors]
        made = values[:, L.VALUE_ROW] >= 0
        values[made, L.VALUE_ROW] = new_row[values[made, L.VALUE_ROW]]

        types = [self.types[value] for value in survivors.tolist()]

        def renumber(table: dict[int, Any]) -> dict[int, Any]:
            return {int(new_id[value]): entry for value, entry in table.items() if live[value]}

        moves: list[tuple[Any, int]] = [(tensor, int(new_id[value])) for value, tensor in tensors.items()]
        moves += [(anchor, int(new_id[value])) for value, anchor in anchors.items()]
        moves += [  # a leaf leaves the tape, and may come back
            (source, int(new_id[value]) if live[value] else -1)
            for value, source in self.inputs.items()
            if source._tape is self and source._vid == value
        ]
        inputs, versions, kept = renumber(self.inputs), renumber(self.versions), renumber(self.kept)
        moved_handles = {int(new_id[value]): handles[value] for value in tensors}
        moved_anchors = None if self.anchors is None else renumber(self.anchors)
        hooks = None if self.hooks is None else renumber(self.hooks)
        n_bytes = sum(array.nbytes for array in kept.values())
        addresses = set(kept_rows[:, L.ROW_CODE].tolist())
        codes = {address: code for address, code in self.codes.items() if address in addresses}

        def commit() -> None:
            for place, value in moves:
                place._vid = value
            self._rows[: len(kept_rows)] = kept_rows
            self._operands[: len(operands)] = operands
            self._values[: len(values)] = values
            self.header[L.H_N_ROWS] = len(kept_rows)
            self.header[L.H_N_OPERANDS] = len(operands)
            self.header[L.H_N_VALUES] = len(values)
            self.header[L.H_BYTES] = n_bytes
            self.types, self.params, self.codes = types, params, codes
            self.inputs, self.versions, self.kept = inputs, versions, kept
            self.handles, self.anchors, self.hooks = moved_handles, moved_anchors, hooks
            self._publish()

        try:
            commit()
        except BaseException:  # a ^C, which must not leave half of the values renumbered
            commit()
            raise

    def _mark(self, roots: set[int], captive: dict[int, int]) -> tuple[list[bool], list[bool]]:
        """Find the values and the rows that lead to ``roots``. What is not free after all leaves ``captive``."""
        rows = self._rows[: len(self)]
        results, counts = rows[:, L.ROW_RESULT].tolist(), rows[:, L.ROW_N_RESULTS].tolist()
        live = [False] * self.count
        keep_row = [False] * len(rows)
        for value in roots:
            live[value] = value not in captive
        while True:
            for index in range(len(rows) - 1, -1, -1):
                first, n = results[index], counts[index]
                if live[first] if n == 1 else any(live[first : first + n]):
                    if keep_row[index]:
                        continue
                    keep_row[index] = True
                    for k in range(first, first + n):
                        live[k] = True  # results of one row have consecutive ids
                    for operand in self.operands_of(self.row(index)):
                        if operand >= 0:
                            live[operand] = True
            reached = [value for value, leaf in captive.items() if live[leaf]]
            if not reached:
                return live, keep_row
            for value in reached:
                live[value] = True
                del captive[value]

    def _moved(self, kept: Array, new_id: Array) -> tuple[Array, Array, list[dict[str, Any]]]:
        """Return the rows that are kept, their operands and their parameters, with everything numbered anew."""
        rows = self._rows[kept]
        lengths, starts = rows[:, L.ROW_N_OPERANDS], rows[:, L.ROW_OPERANDS]
        new_starts = np.cumsum(lengths) - lengths
        place = np.arange(lengths.sum()) - np.repeat(new_starts, lengths)  # of each operand in its row
        operands = self._operands[place + np.repeat(starts, lengths)]
        kinds = rows[:, L.ROW_KIND]
        n_ids = lengths.copy()
        for kind, n in L.N_IDS.items():
            n_ids[kinds == kind] = n
        ids = (place < np.repeat(n_ids, lengths)) & (operands >= 0)
        operands[ids] = new_id[operands[ids]]
        rows[:, L.ROW_OPERANDS] = new_starts
        rows[:, L.ROW_RESULT] = new_id[rows[:, L.ROW_RESULT]]
        has_params = np.isin(kinds, _WITH_PARAMS)
        params = [self.params[index] for index in rows[has_params, L.ROW_DATA].tolist()]
        rows[has_params, L.ROW_DATA] = np.arange(len(params))
        return rows, operands, params

    def _living(self, references: dict[int, weakref.ref[Any]]) -> dict[int, Any]:
        """Return what is alive of the objects that stand for values."""
        living = {}
        for value, reference in references.items():
            place = reference()
            if place is not None and place._tape is self and place._vid == value:
                living[value] = place
        return living

    def _captives(self, tensors: dict[int, Tensor]) -> dict[int, int]:
        """Find the gradients with a graph that only their own leaf refers to, and the leaf that only the tape does.

        A leaf whose gradient was recorded holds its gradient, whose graph holds the leaf. Neither keeps the graph
        alive if nothing else does. By the gradient's value id, the leaf's.
        """
        found: dict[int, int] = {}
        times = Counter(map(id, self.inputs.values()))
        for value in self.inputs:  # not its items(): that iterator holds what it yields
            leaf = self.inputs[value]
            grad = None if leaf._leaf is None else leaf._leaf.grad
            if grad is None or tensors.get(grad._vid) is not grad:
                continue
            # Beside the variables here: the leaf stands in the inputs, its gradient in the Leaf and in `tensors`.
            if holders(leaf) == times[id(leaf)] + 1 and holders(grad) == 3:
                found[grad._vid] = value
        return found


native.introduce_tape(Tape)
