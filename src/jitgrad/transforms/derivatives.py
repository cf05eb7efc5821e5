"""First derivatives: `grad`, `value_and_grad`, `elementwise_grad`, `vjp`, `jvp`, `jacobian`, `stop_gradient`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import optree

from jitgrad.core.forward import replay_tangents
from jitgrad.core.op import REGISTRY
from jitgrad.core.tensor import Tensor, constant
from jitgrad.core.types import type_of
from jitgrad.errors import DifferentiationTypeError, TreeMismatchError
from jitgrad.transforms.trace import NAMESPACE, Session, call, flatten, result

__all__ = ["elementwise_grad", "grad", "jacobian", "jvp", "stop_gradient", "value_and_grad", "vjp"]

P = ParamSpec("P")
T = TypeVar("T")

_ONE = np.ones(())
_ONE_TYPE = type_of(_ONE)


def _outputs(tree: Any, session: Session) -> Any:
    """What a transform hands out for the results of the function that it traced."""
    if type(tree) is Tensor:
        return result(tree, session.nested)
    leaves, spec = flatten(tree)
    if len(leaves) == 1 and leaves[0] is tree:
        return tree
    return optree.tree_unflatten(spec, [result(leaf, session.nested) for leaf in leaves])


def _owner(array: np.ndarray[Any, Any]) -> int:
    """Return the id of what an array's memory belongs to."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return id(owner)


def _apart(tree: Any, session: Session) -> Any:
    """What `_outputs` hands out, in memory that no later replay needs: its new owner may write to it."""
    kept = set(map(_owner, session.tape.kept.values()))

    def apart(leaf: Any) -> Any:
        if type(leaf) is Tensor and not session.nested and leaf.ndim and _owner(leaf._value) in kept:
            return leaf._value.copy()
        return result(leaf, session.nested)

    leaves, spec = flatten(tree)
    return _unflatten(spec, [apart(leaf) for leaf in leaves])


def _unflatten(spec: optree.PyTreeSpec, leaves: Sequence[Any]) -> Any:
    return leaves[0] if spec.is_leaf() else optree.tree_unflatten(spec, leaves)


def _split_aux(out: Any, has_aux: bool, transform: str) -> tuple[Any, Any]:
    if not has_aux:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise DifferentiationTypeError.aux(transform, type(out))
    return out


def _check_output(out: Any, transform: str, scalar: bool) -> None:
    if type(out) is Tensor and out._type is _ONE_TYPE:
        return
    if not isinstance(out, (Tensor, np.ndarray, np.generic, float, complex, int)):
        raise DifferentiationTypeError.output_type(transform, type(out))
    value = out._value if type(out) is Tensor else np.asarray(out)
    if scalar and value.ndim:
        raise DifferentiationTypeError.output_shape(transform, value.shape)
    if value.dtype.kind != "f":
        raise DifferentiationTypeError.output_dtype(transform, value.dtype)


def _value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    scalar: bool,
    transform: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:
    with Session(args) as session:
        out, spec = call(session, f, args, kwargs, argnums, transform)
        out, aux = _split_aux(out, has_aux, transform)
        _check_output(out, transform, scalar)
        if type(out) is Tensor:
            one = _ONE if out._type is _ONE_TYPE else np.ones(out.shape, out.dtype)
            grads = session.pull([(out, one)])
        else:
            grads = session.pull([])
        nested = session.nested
        handed = result(out, nested), _unflatten(spec, [result(bar, nested) for bar in grads])
        out, aux = None, None if aux is None else _outputs(aux, session)
    session.recycle()
    return (*handed, aux)


def grad(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Return a function that computes the gradient of ``f``.

    Parameters
    ----------
    f : callable
        A function with a real scalar result, written in NumPy, Python operators and jitgrad's functions. Loops,
        branches and calls are free: it is traced anew at every call.
    argnums : int or sequence of int
        Which positional arguments to differentiate by. Each may be a float, an array of floats, or a tree of them
        (tuples, lists, dicts, named tuples, registered classes).
    has_aux : bool
        Whether ``f`` returns a pair ``(result, aux)``, of which only the result is differentiated.

    Returns
    -------
    callable
        Has the signature of ``f``. Returns the gradient in the structure of the argument (a tuple of them if
        ``argnums`` is a sequence), or ``(gradient, aux)``. Arrays come out as arrays, floats as NumPy floats, each of
        its argument's shape and dtype; inside another transform, or of tensors that require gradients, tensors.

    Raises
    ------
    DifferentiationTypeError
        For integer arguments, and for a result that is no real scalar.
    ArgnumsError
        For argnums that name no argument.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> jg.grad(jg.grad(np.sin))(0.5) == -np.sin(0.5)
    np.True_
    """

    @functools.wraps(f)
    def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        _, grads, aux = _value_and_grad(f, argnums, has_aux, True, "grad", args, kwargs)
        return (grads, aux) if has_aux else grads

    return gradient


def value_and_grad(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Return a function that computes the value of ``f`` and its gradient, at the price of the gradient.

    Parameters
    ----------
    f, argnums, has_aux
        As for `grad`.

    Returns
    -------
    callable
        Returns ``(value, gradient)``, or ``((value, aux), gradient)``.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> value, gradient = jg.value_and_grad(lambda x: x @ x)(np.array([3.0, 4.0]))
    >>> print(value, gradient)
    25.0 [6. 8.]
    """

    @functools.wraps(f)
    def value_and_gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, grads, aux = _value_and_grad(f, argnums, has_aux, True, "value_and_grad", args, kwargs)
        return ((value, aux), grads) if has_aux else (value, grads)

    return value_and_gradient


def elementwise_grad(f: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """Return a function that computes, at each position, the derivative of an elementwise function there.

    It is the gradient of ``sum(f(x))``, which is the derivative at each position only if every element of the result
    depends on one element of the argument.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.elementwise_grad(np.square)(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """

    @functools.wraps(f)
    def derivative(*args: P.args, **kwargs: P.kwargs) -> Any:
        return _value_and_grad(f, argnums, False, False, "elementwise_grad", args, kwargs)[1]

    return derivative


def _as_bar(leaf: Any, like: Any) -> Any:
    """A cotangent or tangent of the shape and dtype of ``like``, or an error."""
    if type(leaf) is Tensor:
        if leaf.shape != like.shape:
            raise TreeMismatchError(f"a cotangent has shape {leaf.shape}, its value has shape {like.shape}")
        return leaf
    array = np.asarray(leaf)
    if array.shape != like.shape:
        raise TreeMismatchError(f"a cotangent or tangent has shape {array.shape}, its value has shape {like.shape}")
    if array.dtype.kind == "c" and like.dtype.kind == "f":
        raise TreeMismatchError(f"a cotangent or tangent is complex, its value has dtype {like.dtype}")
    return array.astype(like.dtype, copy=False)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return ``f(*primals)``, and the function that maps cotangents of the result to cotangents of the arguments.

    Parameters
    ----------
    f : callable
        A function of arrays or trees of arrays; so is its result.
    *primals
        Its arguments.
    has_aux : bool
        Whether ``f`` returns a pair of which only the first is differentiated.

    Returns
    -------
    out
        The result of ``f``.
    pullback : callable
        Takes a cotangent in the structure of ``out``, returns a tuple with a cotangent an argument. May be called
        often: the function is traced only once.
    aux
        With ``has_aux``.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> out, pullback = jg.vjp(lambda x, y: x * y, np.array([1.0, 2.0]), 3.0)
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 3., 30.]), np.float64(21.0))
    """
    with Session(primals) as session:
        out, spec = call(session, f, primals, {}, tuple(range(len(primals))), "vjp")
        session.hold()
        out, aux = _split_aux(out, has_aux, "vjp")
        leaves, out_spec = flatten(out)
        if session.nested:  # a write to a tensor makes it stand for a new value; the pullback is of this one
            out = optree.tree_unflatten(
                out_spec, [REGISTRY["alias"](leaf) if session.holds(leaf) else leaf for leaf in leaves]
            )
        handed, aux = _apart(out, session), _apart(aux, session)

    def pullback(cotangents: Any) -> Any:
        bars, bar_spec = flatten(cotangents)
        if bar_spec != out_spec:
            raise TreeMismatchError.cotangents(cotangents, handed)
        seeds = [(leaf, _as_bar(bar, leaf)) for leaf, bar in zip(leaves, bars, strict=True) if type(leaf) is Tensor]
        grads = session.pull(seeds, retain=True)
        keep = session.nested or any(type(bar) is Tensor for _, bar in seeds)
        return optree.tree_unflatten(spec, [result(bar, keep) for bar in grads])

    return (handed, pullback, aux) if has_aux else (handed, pullback)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return ``f(*primals)`` and its derivative in the direction of the tangents.

    Parameters
    ----------
    f : callable
        A function of arrays or trees of arrays; so is its result.
    primals : sequence
        Its arguments.
    tangents : sequence
        A direction an argument, of the same structure, shapes and realness.
    has_aux : bool
        Whether ``f`` returns a pair of which only the first is differentiated.

    Returns
    -------
    out, tangent
        The result and its directional derivative; then aux, with ``has_aux``.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.jvp(lambda x: np.sum(x**2), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    (np.float64(5.0), np.float64(2.0))
    """
    primals, tangents = tuple(primals), tuple(tangents)
    directions, direction_spec = flatten(tangents)
    with Session((*primals, *tangents)) as session:
        out, spec = call(session, f, primals, {}, tuple(range(len(primals))), "jvp")
        if direction_spec != spec:
            raise TreeMismatchError.tangents(primals, tangents)
        out, aux = _split_aux(out, has_aux, "jvp")
        tape = session.tape
        started: dict[int, Any] = {}
        for value, direction in zip(session.inputs, directions, strict=True):
            bar = _as_bar(direction, tape.types[value])
            started[value] = constant(bar) if session.nested and type(bar) is not Tensor else bar
        reached = replay_tangents(
            tape, started, first_row=session.first_row, end_row=session.end_row, tensors=session.nested
        )

        def tangent_of(leaf: Any) -> Any:
            found = reached.get(leaf._vid) if session.holds(leaf) else None
            if found is None:
                found = np.zeros_like(leaf._value if type(leaf) is Tensor else np.asarray(leaf))
            if type(found) is Tensor or session.nested:
                return result(found if type(found) is Tensor else np.asarray(found), session.nested)
            if any(np.may_share_memory(found, bar) for bar in started.values()):  # the caller's own direction
                found = found.copy()
            return result(np.asarray(found), session.nested)

        moved = optree.tree_map(tangent_of, out, namespace=NAMESPACE)
        handed = _outputs(out, session)
        return (handed, moved, _outputs(aux, session)) if has_aux else (handed, moved)


def jacobian(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of ``f``.

    The function is traced once, and the tape replayed in reverse once for each element of the result.

    Parameters
    ----------
    f, argnums, has_aux
        As for `grad`, but ``f`` may return an array or a tree of arrays of any shape.

    Returns
    -------
    callable
        Returns, for each array of the result in its structure, the derivatives in the structure of the argument: of
        shape ``result.shape + argument.shape``.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> jg.jacobian(np.cumsum)(np.array([1.0, 2.0, 3.0]))
    array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]])
    """

    @functools.wraps(f)
    def jacobian_of(*args: P.args, **kwargs: P.kwargs) -> Any:
        with Session(args) as session:
            out, spec = call(session, f, args, kwargs, argnums, "jacobian")
            out, aux = _split_aux(out, has_aux, "jacobian")

            def rows_of(leaf: Any) -> Any:
                value = leaf._value if type(leaf) is Tensor else np.asarray(leaf)
                if value.dtype.kind != "f":
                    raise DifferentiationTypeError.output_dtype("jacobian", value.dtype)
                columns: list[list[Any]] = [[] for _ in session.inputs]
                for at in range(value.size):
                    basis = np.zeros(value.shape, value.dtype)
                    basis.flat[at] = 1
                    for column, bar in zip(columns, session.pull([(leaf, basis)], retain=True), strict=True):
                        column.append(bar)
                types = [session.tape.types[v] for v in session.inputs]
                if session.nested:
                    blocks = [
                        REGISTRY["reshape"](REGISTRY["stack"](*column, axis=0), shape=value.shape + kind.shape)
                        if column
                        else constant(np.zeros(value.shape + kind.shape, kind.dtype))
                        for column, kind in zip(columns, types, strict=True)
                    ]
                else:
                    blocks = [
                        np.array(column, dtype=kind.dtype).reshape(value.shape + kind.shape)
                        for column, kind in zip(columns, types, strict=True)
                    ]
                return _unflatten(spec, [result(block, session.nested) for block in blocks])

            matrix = optree.tree_map(rows_of, out, namespace=NAMESPACE)
            return (matrix, _outputs(aux, session)) if has_aux else matrix

    return jacobian_of


def stop_gradient(x: T) -> T:
    """Return ``x``, through which no derivative flows. ``x`` may be a tree.

    Examples
    --------
    >>> import jitgrad as jg
    >>> jg.grad(lambda x: x * jg.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    leaves, spec = flatten(x)
    stopped: Any = [REGISTRY["stop_gradient"](leaf) if type(leaf) is Tensor else leaf for leaf in leaves]
    return cast("T", optree.tree_unflatten(spec, stopped))
