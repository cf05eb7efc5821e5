"""The whole call of a compiled function in native code, for the trace that was good last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import native
from jitgrad.kernels import compile as compiler
from jitgrad.kernels import layout as L
from jitgrad.machine import kernels
from jitgrad.machine.plan import Instance, Plan

__all__ = ["NativeCall", "Unsuitable"]

Array = np.ndarray[Any, Any]
_MAX_OUTPUTS = 16


class Unsuitable(Exception):
    """What a call consists of is not for native code."""


class NativeCall:
    """A built-in function that calls ``general``, until it has a plan: then it runs that where the call fits it.

    Parameters
    ----------
    general : callable
        Takes whatever the native path does not.
    """

    def __init__(self, name: str, general: Callable[..., Any]) -> None:
        self._context = np.zeros(L.CALL_WIDTH, np.int64)
        self._hits = np.zeros(1, np.int64)
        self._held: list[Any] = [general]  # what native code has pointers to
        self._context[L.CALL_PROCESS] = native.PROCESS.ctypes.data
        self._context[L.CALL_GENERAL] = id(general)
        self._context[L.CALL_TRACES] = native.TRACES.ctypes.data
        self._context[L.CALL_HITS] = self._hits.ctypes.data
        self._general = general
        self.function = compiler.builtin(name, kernels.call_address(), self._context, keywords=True)

    @property
    def hits(self) -> int:
        """How many calls native code has answered."""
        return int(self._hits[0])

    def clear(self) -> None:
        """Let the general function answer, and count from 0."""
        self._withdraw()
        self._hits[0] = 0

    def _withdraw(self) -> None:
        self._context[L.CALL_READY] = 0
        self._held = [self._general]

    def install(
        self,
        plan: Plan,
        arguments: Sequence[Any],
        checks: Sequence[tuple[Any, Any, Any]],
        form: Sequence[tuple[int, Any]],
    ) -> None:
        """Answer calls with such arguments by a plan.

        Parameters
        ----------
        plan : Plan
            Has no step in Python.
        arguments : sequence
            An example of the positional arguments; arrays and floats are its inputs, in order.
        checks : sequence of tuple
            ``(holder, key, seen)``: a dict and its key, or a cell and None, and the object that must be there.
        form : sequence of tuple
            How the result is put together, see the layout.

        Raises
        ------
        Unsuitable
            If an output is not computed into an array of its own, or there are too many.
        """
        self._withdraw()
        if plan.has_python or plan.has_chunks or len(plan.output_slots) > _MAX_OUTPUTS:
            raise Unsuitable
        instance = Instance(plan)
        numbers = {slot: at for at, (slot, _) in enumerate(plan.output_slots)}
        table: list[int] = []
        for what, operand in form:
            if what == L.FORM_OUTPUT:
                slot = plan.own_slot(operand)
                if slot is None or slot not in numbers:
                    raise Unsuitable
                operand = numbers.pop(slot)  # each array is handed out once
            elif what == L.FORM_OBJECT:
                self._held.append(operand)
                operand = id(operand)
            table += [what, operand]
        if numbers:
            raise Unsuitable
        context = self._context
        context[L.CALL_N_ARGUMENTS] = len(arguments)
        context[L.CALL_ARGUMENTS] = self._table(self._arguments(arguments, instance))
        context[L.CALL_N_CHECKS] = len(checks)
        context[L.CALL_CHECKS] = self._table([word for check in checks for word in self._check(*check)])
        context[L.CALL_PLAN] = instance.header.ctypes.data
        context[L.CALL_N_OUTPUTS] = len(plan.output_slots)
        context[L.CALL_OUTPUTS] = self._table(
            [
                word
                for slot, value in plan.output_slots
                for word in (slot, *self._shape(plan.program.types[value].shape), plan.program.types[value].dtype.num)
            ]
        )
        context[L.CALL_N_FORM] = len(form)
        context[L.CALL_FORM] = self._table(table)
        self._held += [plan, instance]
        context[L.CALL_READY] = 1

    def _table(self, words: Sequence[int]) -> int:
        array = np.array([*words, 0], np.int64)
        self._held.append(array)
        return int(array.ctypes.data)

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, int]:
        return len(shape), self._table(shape)

    def _arguments(self, arguments: Sequence[Any], instance: Instance) -> list[int]:
        words: list[int] = []
        slot = 0
        for argument in arguments:
            if type(argument) is np.ndarray:
                self._held.append(argument.dtype)
                words += [L.ARGUMENT_ARRAY, id(argument.dtype), *self._shape(argument.shape), slot]
                slot += 1
            elif type(argument) is float:
                number = np.zeros(1)
                self._held.append(number)
                kernels.entry("bind")(instance.header, slot, number)
                words += [L.ARGUMENT_NUMBER, number.ctypes.data, 0, 0, slot]
                slot += 1
            elif isinstance(argument, (bool, int, str, type(None))):
                self._held.append(argument)
                words += [L.ARGUMENT_STATIC, id(argument), 0, 0, 0]
            else:
                raise Unsuitable
        return words

    def _check(self, holder: Any, key: Any, seen: Any) -> tuple[int, int, int]:
        self._held += [holder, key, seen]
        return id(holder), 0 if key is None else id(key), id(seen)
