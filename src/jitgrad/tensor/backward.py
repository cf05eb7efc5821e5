"""`Tensor.backward` and what `jitgrad.autograd` is made of: replays across tapes, and where gradients go.

A thread's tensors stand on one tape, so that mostly one replay does it all. A result of another thread's stands on
that thread's tape: what arrives at it is sent on to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core import trace
from jitgrad.core.op import REGISTRY
from jitgrad.core.op import requires_grad as _requires_grad
from jitgrad.core.protocol import method
from jitgrad.core.references import holders
from jitgrad.core.reverse import release, replay_arrays, replay_tensors
from jitgrad.core.tape import Anchor, Tape
from jitgrad.core.tensor import Tensor, constant
from jitgrad.core.types import type_of
from jitgrad.core.writes import own, written
from jitgrad.errors import (
    GradientDtypeError,
    GradientShapeError,
    LeakedTensorError,
    NoGraphError,
    NonScalarBackwardError,
)
from jitgrad.ops.shaping import clone
from jitgrad.ops.views import root
from jitgrad.tensor.attributes import is_leaf
from jitgrad.tensor.creation import make
from jitgrad.tensor.graph import name_of
from jitgrad.tensor.hooks import hooked_leaf, running

__all__ = ["Sweep", "accumulate", "backward", "seed_of"]

Place = Tensor | Anchor  # what stands for a value on a tape
Bar = Any  # a cotangent: an array or, if it is recorded, a tensor
_ONE = np.ones(())
_SCALAR = type_of(_ONE)

Reached = dict[int, tuple[Tensor, Bar]]  # what has arrived, by the id of the tensor


def seed_of(output: Tensor, gradient: Any, index: int, create_graph: bool) -> Bar:
    """Return the cotangent to start from at an output, checked."""
    if type(output) is not Tensor or not _requires_grad(output):
        raise NoGraphError.output(index)
    kind = output._type
    if gradient is None and kind is _SCALAR and not create_graph:
        return _ONE
    if gradient is None:
        if kind.size != 1:
            raise NonScalarBackwardError.output(kind.shape, kind.dtype, op=name_of(output))
        if kind.dtype.kind == "c":
            raise NonScalarBackwardError.complex_output(kind.dtype, op=name_of(output))
        value = np.ones(kind.shape, kind.dtype)
    else:
        value = gradient._value if type(gradient) is Tensor else np.asarray(gradient)
        if value.shape != kind.shape:
            raise GradientShapeError.backward(value.shape, kind.shape, index, op=name_of(output))
        if value.dtype != kind.dtype and "c" in (value.dtype.kind, kind.dtype.kind):
            raise GradientDtypeError.backward(value.dtype, kind.dtype, index)
    if not create_graph:
        return value.astype(kind.dtype, copy=False)
    if type(gradient) is Tensor:
        return gradient.astype(kind.dtype, copy=False)
    return constant(value.astype(kind.dtype, copy=False))


def _sum(held: Bar | None, bar: Bar) -> Bar:
    if held is None:
        return bar
    return REGISTRY["add"](held, bar) if type(bar) is Tensor else np.asarray(np.add(held, bar))


def _wants_grad(place: Place) -> bool:
    return type(place) is Tensor and place._leaf is not None and place._leaf.requires_grad


class Sweep:
    """One call for gradients: replays every tape that its outputs lead to, and gathers what arrives.

    Parameters
    ----------
    wanted : sequence of Tensor, optional
        The tensors whose gradients are asked for. By default the leaves, and those that retain theirs.
    retain : bool
        Whether the tapes keep what another replay would need.
    create_graph : bool
        Whether the gradients are recorded.
    """

    def __init__(self, wanted: Sequence[Tensor] | None, retain: bool, create_graph: bool) -> None:
        if running():
            raise RuntimeError("gradients cannot be asked for inside of a hook: a replay is waiting for it")
        self.wanted = None if wanted is None else {id(tensor): tensor for tensor in wanted}
        self.retain = retain
        self.create_graph = create_graph
        self.pending: dict[Tape, list[tuple[Place, Bar]]] = {}
        self.reached: Reached = {}
        self.done: list[tuple[Tape, list[Anchor]]] = []

    def run(self, outputs: Sequence[tuple[Tensor, Bar]]) -> Reached:
        """Start from outputs and their cotangents; return what has arrived."""
        if self.create_graph:
            with trace.recording(True):
                self._run(outputs)
            trace.imperative_tape().catch_up()
        else:
            self._run(outputs)  # on arrays: there is nothing to record
        return self.reached

    def _run(self, outputs: Sequence[tuple[Tensor, Bar]]) -> None:
        for output, bar in outputs:
            self._send(output, bar)
        while self.pending:
            self._replay(*self.pending.popitem())
        for tape, anchors in self.done:
            if tape.lock is not None:
                with tape.lock:
                    release(tape, [anchor._vid for anchor in anchors], list(self._sinks(tape)[0]))
        for key, (tensor, bar) in self.reached.items():
            if tensor._leaf is not None and tensor._leaf.hooks:
                self.reached[key] = tensor, hooked_leaf(tensor, bar)

    def _send(self, place: Place, bar: Bar) -> None:
        """Take a cotangent to where it goes on: a leaf, or a tape."""
        if _wants_grad(place):
            self._arrive(place, bar if type(bar) is Tensor else bar.copy())  # type: ignore[arg-type]
            return
        tape = place._tape
        if tape is None:
            raise NoGraphError.output()
        if tape.ended:
            raise LeakedTensorError.escaped("transform")
        self.pending.setdefault(tape, []).append((place, bar))

    def _arrive(self, tensor: Tensor, bar: Bar) -> None:
        if self.wanted is None or id(tensor) in self.wanted:
            held = self.reached.get(id(tensor))
            self.reached[id(tensor)] = tensor, _sum(None if held is None else held[1], bar)

    def _replay(self, tape: Tape, arrived: list[tuple[Place, Bar]]) -> None:
        if tape.lock is None:
            self._replay_locked(tape, arrived)
            return
        with tape.lock:
            tape.locked += 1  # its values keep their ids meanwhile
            try:
                self._replay_locked(tape, arrived)
            finally:
                tape.locked -= 1

    def _replay_locked(self, tape: Tape, arrived: list[tuple[Place, Bar]]) -> None:
        seeds: dict[int, Bar] = {}
        for place, bar in arrived:
            seeds[place._vid] = _sum(seeds.get(place._vid), bar)
        sinks, linked = self._sinks(tape)
        # Another tape may lead to this one, now or again: then only at the end it is certain what nobody needs.
        several = linked or bool(self.pending or self.done)
        later = not self.retain and tape.lock is not None and (several or self.create_graph)
        bars: dict[int, Bar]
        if self.create_graph:
            bars = dict(replay_tensors(tape, seeds, list(sinks)))
        else:
            bars = replay_arrays(tape, seeds, list(sinks), retain=self.retain or later or tape.lock is None)
        if later:
            self.done.append((tape, [tape.anchor(place._vid) for place, _ in arrived]))
        for vid in list(bars):
            sink = sinks[vid]
            bar = bars.pop(vid)
            if type(sink) is list:
                for one in sink[1:]:
                    self._deliver(tape, one, bar if type(bar) is Tensor else bar.copy())
                sink = sink[0]
            if type(bar) is not Tensor and (holders(bar) > 1 or bar.base is not None or not bar.flags.writeable):
                bar = bar.copy()  # it is somebody else's, too
            self._deliver(tape, sink, bar)

    def _deliver(self, tape: Tape, sink: Place, bar: Bar) -> None:
        if type(sink) is Tensor and (sink._tape is tape or _wants_grad(sink)):
            self._arrive(sink, bar)
        else:
            self._send(sink, bar)

    def _sinks(self, tape: Tape) -> tuple[dict[int, Any], bool]:
        """Return what waits for cotangents on a tape, by value id, and whether it leads to other tapes.

        It is a place, or, where several wait for the cotangent of one value, a list of them.
        """
        sinks: dict[int, Any] = {}
        wanted = self.wanted
        linked = False
        for vid, source in tape.inputs.items():
            if type(source) is Anchor:
                linked = True
                sinks[vid] = source
            elif _wants_grad(source) and (wanted is None or id(source) in wanted):
                sinks[vid] = source
        computed = wanted if wanted is not None else tape.retained or {}
        for tensor in list(computed.values()):
            if tensor._tape is tape and tensor._vid >= 0 and not _wants_grad(tensor):
                others = sinks.get(tensor._vid)
                if others is None:
                    sinks[tensor._vid] = tensor
                else:
                    sinks[tensor._vid] = [*(others if type(others) is list else [others]), tensor]
        return sinks, linked


def accumulate(reached: Reached, create_graph: bool) -> None:
    """Add what has arrived at tensors to their ``grad``."""
    for key in list(reached):
        tensor, bar = reached.pop(key)
        leaf = own(tensor)
        grad = leaf.grad
        if create_graph:
            with trace.recording(True):
                leaf.grad = clone(bar) if grad is None else REGISTRY["add"](grad, bar)
        elif grad is None:
            leaf.grad = make(bar)
        elif leaf.requires_grad and (grad._leaf is not None or root(grad) is grad):
            # As in PyTorch, in place: whoever holds the gradient sees it grow.
            own(grad)
            np.add(grad._value, bar, out=grad._value)
            written(grad)
        else:
            leaf.grad = make(np.asarray(np.add(grad._value, bar)))


@method("backward")
def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Compute the gradient with respect to the leaves, and add it to their ``grad``.

    Parameters
    ----------
    gradient : Tensor or array_like, optional
        What to multiply the Jacobian by, of the tensor's shape. May be left out of a real tensor with one element.
    retain_graph : bool, optional
        Keep what another call through the same operations needs. By default only if ``create_graph`` is set.
    create_graph : bool, optional
        Record the gradients, so that they can be differentiated.
    inputs : Tensor or sequence of Tensor, optional
        Fill the ``grad`` of these alone. They need not be leaves.

    Raises
    ------
    NoGraphError
        If the tensor does not require a gradient.
    NonScalarBackwardError
        If it has not one element, and there is no ``gradient``.
    GradientShapeError
        If ``gradient`` has another shape.
    GraphFreedError
        If an earlier call has freed what is needed.
    InplaceError
        If a value that is needed was overwritten.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """
    _backward([self], [gradient], retain_graph, create_graph, inputs)


def _backward(
    outputs: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Tensor | Sequence[Tensor] | None,
) -> None:
    """Do what `backward` says, for several outputs at once."""
    seeds = [
        (output, seed_of(output, gradient, index, create_graph))
        for index, (output, gradient) in enumerate(zip(outputs, gradients, strict=True))
    ]
    for output in outputs:
        if output._tape is not None and output._tape.handles is None:
            raise LeakedTensorError.escaped("transform") if output._tape.ended else NoGraphError.traced()
    wanted: Sequence[Tensor] | None = None
    if inputs is not None:
        wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for tensor in wanted:
            if not _requires_grad(tensor):
                raise NoGraphError.retain_grad()
            if not is_leaf(tensor):
                own(tensor).retains_grad = True
    retain = create_graph if retain_graph is None else retain_graph
    accumulate(Sweep(wanted, retain, create_graph).run(seeds), create_graph)
