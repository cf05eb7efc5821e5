"""Gradients of tensors: `grad` and `backward`, checks of them, and the grad modes, where PyTorch has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.core.op import requires_grad as _requires_grad
from jitgrad.core.tensor import Tensor
from jitgrad.errors import NoGraphError, UnusedInputError
from jitgrad.tensor.backward import Sweep, _backward, seed_of
from jitgrad.tensor.creation import make
from jitgrad.tensor.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

if TYPE_CHECKING:
    from jitgrad.testing import gradcheck, gradgradcheck

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]

Tensors = Tensor | Sequence[Tensor]


def __getattr__(name: str) -> Any:
    """Find the checks in `jitgrad.testing`, which needs this module."""
    if name not in ("gradcheck", "gradgradcheck"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jitgrad import testing

    return getattr(testing, name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _several(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _gradients(gradients: Any, n_outputs: int) -> list[Any]:
    if gradients is None:
        return [None] * n_outputs
    given = _several(gradients)
    if len(given) != n_outputs:
        raise RuntimeError(f"got {n_outputs} tensors and {len(given)} gradients")
    return given


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Compute the sum of gradients of several tensors, and add it to the ``grad`` of the leaves.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        What to differentiate.
    grad_tensors : Tensor or sequence of Tensor, optional
        The ``gradient`` of each, as for `Tensor.backward`.
    retain_graph, create_graph, inputs
        As for `Tensor.backward`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.tensor(2.0, requires_grad=True)
    >>> jg.autograd.backward([x * x, 3 * x])
    >>> x.grad
    tensor(7.)
    """
    outputs = _several(tensors)
    _backward(outputs, _gradients(grad_tensors, len(outputs)), retain_graph, create_graph, inputs)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of outputs with respect to inputs, summed over the outputs. No ``grad`` is changed.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        What to differentiate.
    inputs : Tensor or sequence of Tensor
        What to differentiate by: leaves, or what the outputs were computed from.
    grad_outputs : Tensor or sequence of Tensor, optional
        What to multiply the Jacobian of each output by, of the output's shape. May be left out of real outputs with
        one element.
    retain_graph : bool, optional
        Keep what another call through the same operations needs. By default only if ``create_graph`` is set.
    create_graph : bool, optional
        Record the gradients, so that they can be differentiated.
    allow_unused : bool, optional
        Return None for an input that no output depends on, instead of raising. The default is the value of
        ``materialize_grads``.
    materialize_grads : bool, optional
        Return zeros for such an input.

    Returns
    -------
    tuple of Tensor
        A gradient an input.

    Raises
    ------
    NoGraphError
        If an output or an input does not require a gradient.
    UnusedInputError
        If no output depends on an input.

    Examples
    --------
    >>> import jitgrad as jg
    >>> x = jg.tensor(2.0, requires_grad=True)
    >>> (first,) = jg.autograd.grad(x**3, x, create_graph=True)
    >>> first
    tensor(12., grad_fn=<MulBackward0>)
    >>> jg.autograd.grad(first, x)
    (tensor(12.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    wanted, results = _several(inputs), _several(outputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for index, tensor in enumerate(wanted):
        if type(tensor) is not Tensor or not _requires_grad(tensor):
            raise NoGraphError.input(index)
    gradients = _gradients(grad_outputs, len(results))
    seeds = [
        (output, seed_of(output, gradient, index, create_graph))
        for index, (output, gradient) in enumerate(zip(results, gradients, strict=True))
    ]
    retain = create_graph if retain_graph is None else retain_graph
    reached = Sweep(wanted, retain, create_graph).run(seeds)
    found: list[Tensor | None] = []
    for index, tensor in enumerate(wanted):
        _, bar = reached.get(id(tensor), (tensor, None))
        if bar is None and materialize_grads:
            bar = make(np.zeros(tensor.shape, tensor.dtype), requires_grad=create_graph)
        elif bar is None and not allow_unused:
            raise UnusedInputError.input(index)
        found.append(bar if bar is None or type(bar) is Tensor else make(bar))
    return tuple(found)
