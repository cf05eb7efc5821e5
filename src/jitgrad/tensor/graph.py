"""The recorded graph as PyTorch shows it: ``grad_fn`` and what it leads to.

A node stands for one instruction of a tape, or for the leaf that gradients are added to. It holds on to its place on
the tape, and so to all that it leads to.
"""

from __future__ import annotations

import weakref

from jitgrad.core.op import OPS, REGISTRY
from jitgrad.core.protocol import attribute
from jitgrad.core.tape import Anchor, Tape
from jitgrad.core.tensor import Tensor
from jitgrad.kernels import layout as L

__all__ = ["AccumulateGrad", "Node", "name_of"]


class Node:
    """An operation of the graph: what ``tensor.grad_fn`` is.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.tensor(2.0, requires_grad=True)
    >>> node = (x * x).grad_fn
    >>> node.name()
    'MulBackward0'
    >>> [following.name() for following, _ in node.next_functions]
    ['AccumulateGrad', 'AccumulateGrad']
    """

    __slots__ = ("__weakref__", "_anchor")

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def name(self) -> str:
        """Return the operation's name, such as ``"MulBackward0"``."""
        return _row_name(self._anchor._tape, self._anchor._vid)

    @property
    def next_functions(self) -> tuple[tuple[Node | AccumulateGrad | None, int], ...]:
        """For each operand, the node that it comes from (None for a constant) and which of its results it is."""
        tape = self._anchor._tape
        return tuple([_source(tape, vid) for vid in tape.operands_of(tape.row(tape.producer(self._anchor._vid)))])


class AccumulateGrad:
    """The end of the graph at a leaf: what arrives is added to the leaf's ``grad``."""

    __slots__ = ("__weakref__", "variable")

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def name(self) -> str:
        """Return ``"AccumulateGrad"``."""
        return "AccumulateGrad"

    @property
    def next_functions(self) -> tuple[()]:
        """Nothing."""
        return ()


# A leaf's node holds the leaf, so that the id stays the leaf's for as long as the entry is there.
_accumulators: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()


def _accumulator(leaf: Tensor) -> AccumulateGrad:
    node = _accumulators.get(id(leaf))
    if node is None:
        node = _accumulators[id(leaf)] = AccumulateGrad(leaf)
    return node


def _row_name(tape: Tape, vid: int) -> str:
    row = tape.row(tape.producer(vid))
    return OPS[row[L.ROW_KERNEL] >> 1].node_name(tape, row)


def _before_aliases(tape: Tape, vid: int) -> int:
    """Return the value that a value is another name of: transforms rename their inputs."""
    alias = REGISTRY["alias"].index
    while (at := tape.producer(vid)) >= 0:
        row = tape.row(at)
        if row[L.ROW_KERNEL] >> 1 != alias:
            break
        vid = tape.operands_of(row)[0]
    return vid


def _source(tape: Tape, vid: int) -> tuple[Node | AccumulateGrad | None, int]:
    """Return the node that a value comes from, and which of its results the value is."""
    if vid < 0:
        return None, 0
    vid = _before_aliases(tape, vid)
    at = tape.producer(vid)
    if at >= 0:
        first = tape.row(at)[L.ROW_RESULT]
        anchor = tape.anchor(first)
        node = None if anchor.node is None else anchor.node()
        if node is None:
            node = Node(anchor)
            anchor.node = weakref.ref(node)
        return node, vid - first
    source = tape.inputs.get(vid)
    if type(source) is Tensor:
        return _accumulator(source), 0
    return (None, 0) if source is None else _source(source._tape, source._vid)  # type: ignore[arg-type]


def name_of(tensor: Tensor) -> str | None:
    """Return the name of a tensor's ``grad_fn`` without making a node; None for a leaf."""
    tape = tensor._tape
    if tape is None or tensor._vid < 0:
        return None
    vid = _before_aliases(tape, tensor._vid)
    vid = tensor._vid if tape.producer(vid) < 0 else vid
    return None if tape.producer(vid) < 0 else _row_name(tape, vid)


def _grad_fn(self: Tensor) -> Node | None:
    """The node of the graph that the tensor comes from; None for a leaf."""
    tape = self._tape
    if tape is None or self._vid < 0 or tape.producer(self._vid) < 0:
        return None
    node, _ = _source(tape, self._vid)
    return node if type(node) is Node else None


attribute("grad_fn", _grad_fn)
