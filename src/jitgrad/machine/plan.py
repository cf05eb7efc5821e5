"""The plan: a program as a table of native calls over memory that is there before the first of them.

Values of the program are laid out once: results in one arena, which buffers share by turns, or in the arrays that
a call will return; views where what they are views of lies. `Plan.run` binds the caller's arrays and walks the table;
it stops only at steps that need Python, and at guards.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.elementwise import Elementwise
from jitgrad.core.op import Op
from jitgrad.kernels import layout as L
from jitgrad.kernels import memory, threads
from jitgrad.machine import kernels
from jitgrad.machine.lowering import FLOATS, Builder, Row
from jitgrad.machine.memory import ALIGNMENT, Place, Storage, assign, contiguous
from jitgrad.machine.program import FUSED, GUARD, Instruction, Program

__all__ = ["Instance", "Missed", "Plan"]

Array = np.ndarray[Any, Any]


class Missed(Exception):
    """A guard did not hold: ``step`` is the guard's instruction, ``found`` what its value was."""

    def __init__(self, step: Instruction, found: Array) -> None:
        super().__init__(step.location)
        self.step = step
        self.found = found


class _PythonStep:
    """An instruction that runs in Python."""

    __slots__ = ("instruction", "n_results", "operands", "results")

    def __init__(self, instruction: Instruction, operands: list[Any], results: list[Place]) -> None:
        self.instruction = instruction
        self.operands = operands  # a `Place`, or what it is if it never changes
        self.results = results


class Plan:
    """How a program runs. Immutable; each call has an `Instance` of it, with memory of its own.

    Parameters
    ----------
    program : Program
        What is to be run. Its inputs are contiguous arrays.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: list[Row | _PythonStep | Instruction] = []
        self.storages: list[Storage] = []
        self._places: dict[int, Place] = {}
        self._numbers: dict[tuple[str, np.dtype[Any]], Place] = {}  # Python numbers, in an array's dtype
        self._held: list[Array] = []  # constants
        self.addresses: dict[int, int] = {}  # of what never moves, by slot
        self.guards: dict[int, Instruction] = {}  # by step
        self.n_inputs = len(program.inputs)
        for value in program.inputs:
            self._places[value] = self._empty("input", value)
        for value, array in program.arrays.items():
            self._places[value] = self._fixed(array)
        for value, constant in program.constants.items():
            self._places[value] = self._fixed(np.asarray(constant))
        self._outputs = self._output_values()
        for instruction in program.instructions:
            self._lower(instruction)
        self._finish()
        self._free: list[Instance] = []
        self._lock = threading.Lock()

    # -- layout ------------------------------------------------------------------------------------------------

    def _storage(self, kind: str, n_bytes: int) -> Storage:
        storage = Storage(kind, len(self.storages), n_bytes, len(self.steps))
        self.storages.append(storage)
        return storage

    def _empty(self, kind: str, value: int) -> Place:
        """A new place for a value, contiguous."""
        described = self.program.types[value]
        array = np.empty(described.shape, described.dtype)
        return Place(self._storage(kind, array.nbytes), array, array.__array_interface__["data"][0])

    def _fixed(self, array: Array) -> Place:
        """The place of an array that is there already, and stays there."""
        storage = self._storage("constant", array.nbytes)
        self._held.append(array)
        address = array.__array_interface__["data"][0]
        self.addresses[storage.slot] = address
        return Place(storage, array, address)

    def _output_values(self) -> set[int]:
        """The values that are computed right into the arrays that a call returns."""
        made = {result for instruction in self.program.instructions for result in instruction.results}
        return {value for value in self.program.outputs if value in made}

    # -- lowering ----------------------------------------------------------------------------------------------

    def _lower(self, instruction: Instruction) -> None:
        op = instruction.op
        if op is GUARD:
            self._guard(instruction)
            return
        if op is FUSED:
            self._fused(instruction)
            return
        if not isinstance(op, Op):
            raise TypeError(f"{op!r} is no operation")
        if len(instruction.results) == 1 and self._as_view(op, instruction):
            return
        if len(instruction.results) == 1 and self._as_rows(op, instruction):
            return
        operands = [self._argument(value) for value in instruction.operands]
        results = [self._empty("python", value) for value in instruction.results]
        self._use(place for place in operands if isinstance(place, Place))
        self.steps.append(_PythonStep(instruction, operands, results))
        self._places.update(zip(instruction.results, results, strict=True))
        self._use(results)

    def _fused(self, instruction: Instruction) -> None:
        n_outputs = len(instruction.params["outputs"])
        xs = [self._places[value] for value in instruction.operands]
        results = [self._empty("output" if value in self._outputs else "arena", value) for value in instruction.results]
        builder = Builder(self._number, self._buffer)
        builder.fused(xs, results[:n_outputs], results[n_outputs:], instruction.params)
        for row in builder.rows:
            self._use(row.operands)
            self.steps.append(row)
        self._places.update(zip(instruction.results, results, strict=True))

    def _use(self, places: Any) -> None:
        """Say that the step that is being made needs these."""
        now = len(self.steps)
        for place in places:
            place.storage.last = now

    def _argument(self, value: int) -> Any:
        """What a step in Python gets for an operand."""
        if value in self.program.constants:
            return self.program.constants[value]
        return self._places[value]

    def _as_view(self, op: Op, instruction: Instruction) -> bool:
        """Let the result be a view of the operand, if the op can make one of an array that is so laid out."""
        if op.as_view is None:
            return False
        place = self._places[instruction.operands[0]]
        result = instruction.results[0]
        array = op.as_view(place.array, **instruction.params)
        if array.size and not np.may_share_memory(array, place.array):
            return False
        self._places[result] = place.view(array)
        return True

    def _as_rows(self, op: Op, instruction: Instruction) -> bool:
        """Let native code compute the result, if the op says how."""
        result = instruction.results[0]
        described = self.program.types[result]
        if described.dtype not in FLOATS:
            return False
        xs = [self._operand(value, described.dtype) for value in instruction.operands]
        if any(x is None for x in xs):
            return False
        places: list[Place] = [x for x in xs if x is not None]
        n_storages = len(self.storages)
        out = self._empty("output" if result in self._outputs else "arena", result)
        builder = Builder(self._number, self._buffer)
        rows = op.rows
        if isinstance(op, Elementwise) and rows is None:
            done = builder.elementwise(op, places, out)
        else:
            done = rows is not None and rows(builder, places, out, **instruction.params)
        if not done:
            for storage in self.storages[n_storages:]:
                if storage.kind != "constant":
                    storage.kind = "unused"
            return False
        for row in builder.rows:
            self._use(row.operands)
            self.steps.append(row)
        self._places[result] = out
        return True

    def _operand(self, value: int, dtype: np.dtype[Any]) -> Place | None:
        """Where an operand lies, of a dtype that native code takes."""
        if value in self.program.weak:
            if value not in self.program.constants:
                return self._places[value] if dtype.itemsize == 8 else None
            number = self.program.constants[value]
            if isinstance(number, complex):
                return None
            return self._number(float(number), dtype)
        return self._places[value]

    def _buffer(self, array: Array) -> Place:
        """Memory for the running instruction, of an array's size."""
        return Place(self._storage("arena", array.nbytes), array, array.__array_interface__["data"][0])

    def _number(self, number: float, dtype: np.dtype[Any]) -> Place:
        """A number in memory."""
        key = (number.hex(), dtype)
        place = self._numbers.get(key)
        if place is None:
            place = self._numbers[key] = self._fixed(np.array(number, dtype))
        return place

    def _guard(self, instruction: Instruction) -> None:
        place = self._places[instruction.operands[0]]
        self._use([place])
        self.guards[len(self.steps)] = instruction
        if place.array.flags.c_contiguous:
            seen = self._fixed(np.ascontiguousarray(instruction.params["seen"]))
            self.steps.append(Row(1, (place, seen), (seen.array.nbytes,), (), 0))
        else:
            self.steps.append(instruction)

    # -- tables ------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Assign memory, and write the table."""
        end = len(self.steps)
        for value in self.program.outputs:
            if value in self._places:
                self._places[value].storage.last = end
        self.has_python = any(not isinstance(step, Row) for step in self.steps)
        self.has_chunks = any(isinstance(step, Row) and step.chunk > 0 for step in self.steps)
        self.arena_bytes = assign([s for s in self.storages if s.kind == "arena"])
        rows = np.zeros((len(self.steps), L.STEP_WIDTH), np.int64)
        operands: list[tuple[int, int]] = []
        pool: list[int] = []
        known: dict[tuple[int, ...], int] = {}

        def pooled(words: tuple[int, ...]) -> int:
            at = known.get(words)
            if at is None:
                at = known[words] = len(pool)
                pool.extend(words)
            return at

        for index, step in enumerate(self.steps):
            if not isinstance(step, Row):
                continue
            rows[index] = (
                step.address,
                len(operands),
                pooled(step.dims),
                pooled(step.steps),
                step.data,
                step.chunk,
                len(step.operands),
                step.n_sums,
            )
            operands.extend([(place.storage.slot, place.offset) for place in step.operands])
        self.rows = rows  # with indices where an instance's have addresses
        self.operands = np.array(operands, np.int64).reshape(-1, 2)
        self.pool = np.array([*pool, 0], np.int64)
        # which operands lie in a slot whose address is known only when the plan runs, slot by slot
        moving = np.array([s.kind in ("input", "output", "python") for s in self.storages], bool)
        slots = self.operands[:, 0]
        patched = np.flatnonzero(moving[slots]) if len(slots) else np.zeros(0, np.int64)
        patched = patched[np.argsort(slots[patched], kind="stable")]
        self.patches = np.column_stack([patched, self.operands[patched, 1]]).astype(np.int64)
        self.first_patch = np.searchsorted(slots[patched], np.arange(len(self.storages) + 1))
        self.output_slots = sorted(
            {self._places[v].storage.slot: v for v in self._outputs if self._places[v].storage.kind == "output"}.items()
        )

    @property
    def shares(self) -> int:
        """How many threads share a large row."""
        return threads.get_num_threads() if self.has_chunks else 1

    def own_slot(self, number: int) -> int | None:
        """Return the slot of an output that is computed into an array of its own."""
        place = self._places[self.program.outputs[number]]
        whole = place.storage.kind == "output" and place.offset == 0 and place.array.flags.c_contiguous
        return place.storage.slot if whole and place.array.nbytes == place.storage.n_bytes else None

    # -- running -----------------------------------------------------------------------------------------------

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the program on arrays of its inputs' types.

        Raises
        ------
        Missed
            Where a guard does not hold: nothing is returned then.
        """
        with self._lock:
            instance = self._free.pop() if self._free else None
        if instance is None or instance.shares != self.shares:
            instance = Instance(self)
        try:
            return instance.run(inputs)
        finally:
            instance.forget()
            with self._lock:
                self._free.append(instance)


class Instance:
    """The memory of one call of a plan at a time."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        slots = np.zeros(len(plan.storages) + 1, np.int64)
        for slot, address in plan.addresses.items():
            slots[slot] = address
        self.arena = np.empty(plan.arena_bytes + ALIGNMENT, np.uint8)
        start = self.arena.ctypes.data
        self.skip = -start % ALIGNMENT
        for storage in plan.storages:
            if storage.kind == "arena":
                slots[storage.slot] = start + self.skip + storage.offset
        self.pointers = slots[plan.operands[:, 0]] + plan.operands[:, 1]
        self.rows = plan.rows.copy()
        self.rows[:, L.STEP_POINTERS] = self.pointers.ctypes.data + 8 * plan.rows[:, L.STEP_POINTERS]
        self.rows[:, L.STEP_DIMS] = plan.pool.ctypes.data + 8 * plan.rows[:, L.STEP_DIMS]
        self.rows[:, L.STEP_STEPS] = plan.pool.ctypes.data + 8 * plan.rows[:, L.STEP_STEPS]
        self.header = np.zeros(L.PLAN_WIDTH, np.int64)
        self.header[L.PLAN_ROWS] = self.rows.ctypes.data
        self.header[L.PLAN_N_ROWS] = len(plan.rows)
        self.header[L.PLAN_POINTERS] = self.pointers.ctypes.data
        self.header[L.PLAN_PATCHES] = plan.patches.ctypes.data
        self.header[L.PLAN_FIRST_PATCH] = plan.first_patch.ctypes.data
        self.shares = plan.shares
        self.header[L.PLAN_SHARED] = self.shares > 1
        self.arrays: dict[int, Array] = {}  # by slot: what the caller, or Python, has provided

    def forget(self) -> None:
        """Hold no array of the caller's."""
        self.arrays.clear()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """See `Plan.run`."""
        plan, header, arrays = self.plan, self.header, self.arrays
        bind, replay = kernels.entry("bind"), kernels.entry("replay")
        bind(header, 0, *inputs)
        arrays.update(enumerate(inputs))
        types = plan.program.types
        for slot, value in plan.output_slots:
            described = types[value]
            large = described.size >= threads.LARGE and described.dtype in FLOATS
            out = (memory.empty if large else np.empty)(described.shape, described.dtype)
            arrays[slot] = out
            bind(header, slot, out)
        at, end = 0, len(plan.steps)
        while (at := replay(header, at)) < end:
            step = plan.steps[at]
            if isinstance(step, _PythonStep):
                self._in_python(step)
            elif isinstance(step, Row) and step.chunk:
                threads.share_out(functools.partial(self._share, at), self.shares)
                kernels.entry("add_up")(header, at)
            else:
                self._check(plan.guards[at])
            at += 1
        return self._results()

    def _share(self, at: int, share: int) -> None:
        kernels.entry("part")(self.header, at, share, self.shares)

    def _in_python(self, step: _PythonStep) -> None:
        instruction = step.instruction
        op: Any = instruction.op
        weak = self.plan.program.weak
        args: list[Any] = []
        for value, operand in zip(instruction.operands, step.operands, strict=True):
            if isinstance(operand, Place):
                array = self.array(operand)
                args.append(array.item() if value in weak else array)
            else:
                args.append(operand)
        out = op.forward(*args, **instruction.params)
        for place, made in zip(step.results, out if op.n_results > 1 else (out,), strict=True):
            array = contiguous(made)
            if array.shape != place.array.shape or array.dtype != place.array.dtype:
                raise RuntimeError(
                    f"{op.name} has made {array.dtype}{list(array.shape)} where the trace has seen "
                    f"{place.array.dtype}{list(place.array.shape)}"
                )
            if any(array is arg or np.may_share_memory(array, arg) for arg in args if isinstance(arg, np.ndarray)):
                array = array.copy()
            self.arrays[place.storage.slot] = array
            kernels.entry("bind")(self.header, place.storage.slot, array)

    def array(self, place: Place) -> Array:
        """Return a value as an array over the memory where it lies."""
        storage, dummy = place.storage, place.array
        if storage.kind == "arena":
            start = self.skip + storage.offset
            return np.ndarray(dummy.shape, dummy.dtype, self.arena, start + place.offset, dummy.strides)
        if storage.kind == "constant":
            return dummy
        base = self.arrays[storage.slot]
        if place.offset == 0 and dummy.shape == base.shape and dummy.strides == base.strides:
            return base
        return np.ndarray(dummy.shape, dummy.dtype, base.reshape(-1), place.offset, dummy.strides)

    def _check(self, guard: Instruction) -> None:
        found = self.array(self.plan._places[guard.operands[0]])
        if found.tobytes() != guard.params["seen"].tobytes():
            raise Missed(guard, found.copy())

    def _results(self) -> list[Array]:
        """The outputs as arrays that are the caller's alone."""
        results: list[Array] = []
        given: set[int] = set()
        for value in self.plan.program.outputs:
            place = self.plan._places[value]
            array = self.array(place)
            fresh = place.storage.kind in ("output", "python") and place.storage.slot not in given
            if fresh and array is self.arrays.get(place.storage.slot):
                given.add(place.storage.slot)
                results.append(array)
            else:
                results.append(array.copy())
        return results
