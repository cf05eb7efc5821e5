"""What one workload is: inputs, a scalar function in the flavours that the tools need, what to remark on.

A named tuple and not a dataclass, since the time of this import counts in the start-up measurements.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Inputs = tuple[Any, ...]
Loss = Callable[..., Any]


class Workload(NamedTuple):
    """A scalar function of arrays, to be evaluated together with its gradient.

    Attributes
    ----------
    title
        What stands in the tables.
    inputs
        Makes the arguments: NumPy float64 arrays or Python floats, the same at every call.
    loss
        ``loss(xp, *inputs)``, one source for every tool that speaks NumPy's language; ``xp`` is its
        namespace.
    argnums
        The arguments that the gradient is taken for.
    ops
        Number of recorded operations, where a time for each operation makes sense.
    torch
        The same as PyTorch users write it, where that differs from ``loss``.
    jax_jit
        The same as JAX users write it under ``jax.jit``, where that differs from ``loss``.
    casadi
        ``casadi(ca, *symbols)``; absent where nobody would use CasADi.
    numba
        ``numba(nb)`` compiles ``value_and_grad(*inputs) -> (value, gradient, ...)``, derived by hand: the
        limit.
    small_inputs
        Arguments of the same kind but a few elements: what warms up a process before memory is measured.
    remarks
        By tool, a sentence that belongs under the table.
    """

    title: str
    inputs: Callable[[], Inputs]
    loss: Loss
    argnums: tuple[int, ...] = (0,)
    ops: int | None = None
    torch: Loss | None = None
    jax_jit: Loss | None = None
    casadi: Loss | None = None
    numba: Callable[[Any], Callable[..., Any]] | None = None
    small_inputs: Callable[[], Inputs] | None = None
    remarks: Mapping[str, str] = {}
