"""Second derivatives, by differentiating recorded gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from jitgrad.transforms.derivatives import grad, jacobian, jvp

__all__ = ["hessian", "hvp"]

P = ParamSpec("P")


def hessian(f: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """Return a function that computes the Hessian of ``f``, a function with a real scalar result.

    The gradient is traced once, and its tape replayed in reverse once for each element of the argument.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return jacobian(grad(f, argnums), argnums)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the product of the Hessian of ``f`` with a direction, at a few times the price of a gradient.

    Parameters
    ----------
    f : callable
        A function with a real scalar result.
    primals : sequence
        Its arguments.
    tangents : sequence
        A direction an argument, of the same structure.

    Returns
    -------
    tuple
        A product an argument, in the argument's structure.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    (array([ 6., 12.]),)
    """
    everything = tuple(range(len(primals)))
    _, moved = jvp(grad(f, everything), primals, tangents)
    return moved
