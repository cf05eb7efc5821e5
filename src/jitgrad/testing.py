"""Checking derivatives: of any function against differences (`check_grads`), of tensors as PyTorch does.

The differences are central ones, extrapolated to step zero (Ridders), which for smooth functions leaves
little more than rounding; reverse mode is checked against forward mode by the adjoint identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import optree

from jitgrad.core.tensor import Tensor
from jitgrad.errors import GradCheckError
from jitgrad.transforms.derivatives import jvp, vjp
from jitgrad.transforms.trace import flatten

__all__ = ["check_grads", "numerical_jvp"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

_FIRST_STEP = 2.0**-4
_HALVINGS = 60  # reached only where the function is smooth or finite just nearby, as log is near 0
_PATIENCE = 4  # halvings without any better estimate, after which there will be none
_ROUGH = 1e-3  # of the estimate: with more error than that, a kink or a pole lies within the step
_DEGREE = 6  # extrapolations of one estimate: more are moved by rounding rather than by truncation

# What 64-bit and 32-bit differences can tell apart, with a margin of 100 or so
_TOLERANCES = {8: 1e-7, 4: 2e-2}

_MOST_ELEMENTS = 1000  # that are looked at one by one to say where a gradient is wrong
_SHAPE_ADVICE = "A derivative has the shape of what it is a derivative of: correct the rule."
_ADVICE = "Correct the rule, or check at a point where the function is smooth, in float64."


# -- numerical derivatives ---------------------------------------------------------------------------------


def _inexact(leaf: Any) -> bool:
    return _array(leaf).dtype.kind in "fc"


def _array(leaf: Any) -> Array:
    return leaf._value if type(leaf) is Tensor else np.asarray(leaf)


def _precision(arrays: Sequence[Array]) -> np.finfo[Any]:
    """The coarsest of the floating-point types that take part."""
    kinds = [np.finfo(array.dtype) for array in arrays if array.dtype.kind in "fc"]
    return max(kinds, key=lambda kind: float(kind.eps), default=np.finfo(np.float64))


def _shifted(args: Sequence[Any], directions: Sequence[Any], step: float) -> list[Any]:
    moved = []
    for arg, direction in zip(args, directions, strict=True):
        array = _array(arg)
        moved.append(np.asarray(array + step * np.asarray(direction), dtype=array.dtype))
    return moved


class _Extrapolation:
    """Central differences of an output at steps that halve, extrapolated; the best of each element.

    C. J. F. Ridders, Accurate computation of F'(x) and F'(x)F''(x), Adv. Eng. Software 4 (1982).
    """

    def __init__(self, like: Array, epsilon: float) -> None:
        kind = np.result_type(like.dtype, np.float64)
        self.epsilon = epsilon
        self.best = np.full(like.shape, np.nan, kind)
        self.error = np.full(like.shape, np.inf)
        self.started = like.size == 0  # has been finite anywhere
        self.line: list[Array] = []  # the estimates of the last step, by how often they are extrapolated

    def add(self, above: Array, below: Array, step: float) -> bool:
        """Take in the values at a step on both sides; tell whether any estimate has become better."""
        high, low = above.astype(self.best.dtype), below.astype(self.best.dtype)
        line = [np.asarray((high - low) / (2 * step))]
        rounding = self.epsilon * (np.abs(high) + np.abs(low)) / step
        better = False
        for degree, before in enumerate(self.line[:_DEGREE], start=1):
            weight = 4.0**degree
            line.append(np.asarray((weight * line[-1] - before) / (weight - 1)))
            error = np.maximum(np.abs(line[-1] - line[-2]), np.abs(line[-1] - before)) + rounding
            improved = error < self.error  # False where either is NaN
            better |= bool(np.any(improved))
            self.best = np.where(improved, line[-1], self.best)
            self.error = np.where(improved, error, self.error)
        self.line = line
        self.started |= bool(np.any(np.isfinite(line[0])))
        return better

    def within(self, fraction: float) -> bool:
        """Tell whether all errors are below a fraction of the estimates, or of one."""
        return bool(np.all(self.error <= fraction * np.maximum(np.abs(self.best), 1)))


def _differences(
    f: Callable[..., Sequence[Any]], args: Sequence[Any], directions: Sequence[Any], eps: float | None
) -> tuple[list[Array], list[Array]]:
    """Differentiate a function of leaves that returns a list of leaves, by differences, in one direction.

    Returns the derivatives and the estimates of their errors. With ``eps`` the five-point stencil of that
    step is taken, and no error is known.
    """
    epsilon = float(_precision([_array(arg) for arg in args]).eps)

    def at(step: float) -> list[Array]:
        with np.errstate(all="ignore"):
            return [_array(leaf) for leaf in f(*_shifted(args, directions, step))]

    if eps is not None:
        stencil = zip(at(-2 * eps), at(-eps), at(eps), at(2 * eps), strict=True)
        with np.errstate(all="ignore"):
            rows = [np.asarray((a - 8 * b + 8 * c - d) / (12 * eps)) for a, b, c, d in stencil]
        return rows, [np.zeros(row.shape) for row in rows]
    step = _FIRST_STEP
    outputs: list[_Extrapolation] = []
    idle = 0
    for _ in range(_HALVINGS):
        above, below = at(step), at(-step)
        outputs = outputs or [_Extrapolation(leaf, epsilon) for leaf in above]
        with np.errstate(all="ignore"):
            better = [o.add(a, b, step) for o, a, b in zip(outputs, above, below, strict=True)]
        if all(o.within(64 * epsilon) for o in outputs):
            break
        idle = 0 if any(better) or not all(o.within(_ROUGH) for o in outputs) else idle + 1
        if idle == _PATIENCE:
            break
        step /= 2 if any(o.started for o in outputs) else 16
    return [o.best for o in outputs], [o.error for o in outputs]


def numerical_jvp(
    f: Function, primals: Sequence[Any], tangents: Sequence[Any], eps: float | None = None
) -> Any:
    """Return the derivative of ``f`` in a direction by central differences, which no rule has a part in.

    Parameters
    ----------
    f : callable
        A function of floats, arrays or trees of them; so is its result.
    primals : sequence
        Its arguments.
    tangents : sequence
        A direction an argument, of the same structure.
    eps : float, optional
        The step of a five-point stencil. By default steps are halved from 1/16 on and the differences
        extrapolated, and every element of the result is taken from where its error is estimated to be least:
        smooth functions lose two or three of their sixteen digits.

    Returns
    -------
    tree
        In the structure of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from jitgrad.testing import numerical_jvp
    >>> bool(abs(numerical_jvp(np.sin, (1.0,), (1.0,)) - np.cos(1.0)) < 1e-12)
    True
    """
    leaves, spec = flatten(tuple(primals))
    directions, _ = flatten(tuple(tangents))

    def f_flat(*moved: Any) -> list[Any]:
        return flatten(f(*optree.tree_unflatten(spec, moved)))[0]

    moved, _ = _differences(f_flat, leaves, directions, eps)
    _, out_spec = flatten(f(*primals))
    return optree.tree_unflatten(out_spec, [row[()] for row in moved])


# -- any function ------------------------------------------------------------------------------------------


def check_grads(
    f: Function,
    args: Sequence[Any],
    order: int = 2,
    modes: str | Sequence[str] = ("forward", "reverse"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    r"""Check the derivatives of a function up to an order; raise where they are wrong.

    Forward mode is compared with numerical differences in a random direction, reverse mode with forward
    mode (with differences, if only ``"reverse"`` is asked for) by the adjoint identity
    :math:`\langle v, J u \rangle = \langle J^T v, u \rangle`. Then the derivatives themselves, as functions
    of the arguments and of their direction or cotangent, are checked in the same way, up to ``order``: so
    order 2 checks forward over forward, reverse over forward, forward over reverse and reverse over reverse.

    Parameters
    ----------
    f : callable
        A function of floats, arrays or trees of them; so is its result. Integers in the result are not looked
        at.
    args : sequence
        Its arguments: the point, at which the function must be smooth. All of them are differentiated by;
        bind others beforehand.
    order : int
        How often to differentiate.
    modes : sequence of str
        ``"forward"``, ``"reverse"`` or both.
    atol, rtol : float, optional
        A derivative may differ by ``atol + rtol * |numerical|``. By default 1e-7 each, and 2e-2 if any
        argument is float32.
    eps : float, optional
        The step of the differences; chosen by default as `numerical_jvp` does.

    Raises
    ------
    GradCheckError
        With the order and mode, the element that is farthest off, both of its values, and the tolerance.
    ValueError
        If ``order`` or ``modes`` make no sense.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> from jitgrad.testing import check_grads
    >>> check_grads(lambda x, y: np.tanh(x) * y, (np.array([0.5, -1.0]), 2.0), order=3)

    A wrong derivative, as `stop_gradient` makes one, is an error:

    >>> check_grads(lambda x: x * jg.stop_gradient(x), (3.0,), order=1)
    Traceback (most recent call last):
        ...
    jitgrad.errors.GradCheckError: the forward derivative is wrong at output: it is ...
    Correct the rule, or check at a point where the function is smooth, in float64.
    """
    chosen = (modes,) if isinstance(modes, str) else tuple(modes)
    if not chosen or not set(chosen) <= {"forward", "reverse"}:
        raise ValueError(f"modes are 'forward' and 'reverse', not {modes!r}")
    if order < 1:
        raise ValueError(f"order counts derivatives, from 1 on; it is {order}")
    point = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    leaves, spec = flatten(point)
    values = [leaf if isinstance(leaf, (float, complex)) else _array(leaf) for leaf in leaves]
    coarse = _precision([_array(leaf) for leaf in leaves])
    tolerance = _TOLERANCES.get(np.dtype(coarse.dtype).itemsize, 2e-2)
    check = _Check(
        chosen,
        tolerance if atol is None else atol,
        tolerance if rtol is None else rtol,
        eps,
        np.random.default_rng(0),
    )

    def f_flat(*inputs: Any) -> tuple[Any, ...]:
        return tuple(leaf for leaf in flatten(f(*optree.tree_unflatten(spec, inputs)))[0] if _inexact(leaf))

    check.derivatives(f_flat, values, order, ())


class _Check:
    """One run of `check_grads`. Functions here take and return flat sequences of arrays."""

    def __init__(
        self,
        modes: Sequence[str],
        atol: float,
        rtol: float,
        eps: float | None,
        rng: np.random.Generator,
    ) -> None:
        self.modes = modes
        self.atol = atol
        self.rtol = rtol
        self.eps = eps
        self.rng = rng

    def derivatives(self, f: Function, args: Sequence[Any], order: int, trail: tuple[str, ...]) -> None:
        """Check the first derivatives of ``f``, then those of its derivatives."""
        out = f(*args)
        self.finite(out, trail)
        directions = [self.random(arg, spread=True) for arg in args]
        numerical, _ = _differences(f, args, directions, self.eps)
        moved: Sequence[Any] = numerical
        if "forward" in self.modes:
            value, moved = jvp(f, args, directions)
            self.compare(value, out, ("value", *trail), "output")
            self.compare(moved, numerical, ("forward", *trail), "output")
            if order > 1:
                n = len(args)
                self.derivatives(
                    lambda *xs: jvp(f, xs[:n], xs[n:])[1],
                    [*args, *directions],
                    order - 1,
                    ("forward", *trail),
                )
        if "reverse" in self.modes:
            value, pullback = vjp(f, *args)
            self.compare(value, out, ("value", *trail), "output")
            cotangents = [self.random(leaf) for leaf in out]
            self.adjoint(f, args, directions, cotangents, moved, pullback(tuple(cotangents)), trail)
            if order > 1:
                n = len(args)
                self.derivatives(
                    lambda *xs: vjp(f, *xs[:n])[1](tuple(xs[n:])),
                    [*args, *cotangents],
                    order - 1,
                    ("reverse", *trail),
                )

    def random(self, like: Any, spread: bool = False) -> Any:
        """Return a random array of the shape and dtype of another, and of its magnitude if large."""
        array = _array(like)
        drawn: Any = self.rng.standard_normal(array.shape)
        if array.dtype.kind == "c":
            drawn = drawn + 1j * self.rng.standard_normal(array.shape)
        if spread:
            drawn = drawn * np.maximum(1.0, np.abs(array))
        return np.asarray(drawn, dtype=array.dtype)

    def finite(self, out: Sequence[Any], trail: tuple[str, ...]) -> None:
        """Refuse a point at which differences say nothing."""
        for place, leaf in enumerate(out):
            bad = np.argwhere(~np.isfinite(_array(leaf)))
            if len(bad):
                where = _place("output", place, len(out), tuple(bad[0].tolist()))
                raise GradCheckError(
                    f"the {_of(trail) or 'result of f'} is not finite at {where}\n"
                    "Differences say nothing there: check at another point."
                )

    def compare(self, ours: Sequence[Any], other: Sequence[Any], trail: tuple[str, ...], kind: str) -> None:
        """Compare leaf by leaf and element by element."""
        worst: tuple[float, str] | None = None
        for place, (leaf, reference) in enumerate(zip(ours, other, strict=True)):
            found, expected = _array(leaf), np.asarray(reference)
            if found.shape != expected.shape:
                raise GradCheckError(
                    f"the {_of(trail)} has shape {found.shape} at {kind} {place}, "
                    f"whose shape is {expected.shape}\n{_SHAPE_ADVICE}"
                )
            allowed = self.atol + self.rtol * np.abs(expected)
            excess = np.asarray(np.abs(found - expected) / allowed)
            excess[~np.isfinite(excess)] = np.inf
            if excess.size and (worst is None or excess.max() > worst[0]):
                index = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
                worst = (
                    float(excess[index]),
                    self.message(
                        trail,
                        _place(kind, place, len(ours), index),
                        found[index],
                        expected[index],
                        allowed[index],
                    ),
                )
        if worst is not None and worst[0] > 1:
            raise GradCheckError(worst[1])

    def message(self, trail: tuple[str, ...], where: str, found: Any, expected: Any, allowed: Any) -> str:
        """Say what is wrong, by how much, and what to do."""
        rest = f" of the {_of(trail[1:])}" if len(trail) > 1 else ""
        what = "value" if trail[0] == "value" else f"{trail[0]} derivative"
        reference = "f itself" if trail[0] == "value" else "differences"
        return (
            f"the {what}{rest} is wrong at {where}: it is {found}, by {reference} {expected}; they differ by "
            f"{abs(found - expected):.3g}, and {self.atol:g} + {self.rtol:g} * {abs(expected):.3g} = "
            f"{float(allowed):.3g} is allowed\n{_ADVICE}"
        )

    def adjoint(
        self,
        f: Function,
        args: Sequence[Any],
        directions: Sequence[Any],
        cotangents: Sequence[Any],
        moved: Sequence[Any],
        bars: Sequence[Any],
        trail: tuple[str, ...],
    ) -> None:
        """Compare the two sides of the adjoint identity; where they differ, look for the element at fault."""
        for place, (bar, arg) in enumerate(zip(bars, args, strict=True)):
            if _array(bar).shape != _array(arg).shape:
                raise GradCheckError(
                    f"the {_of(('reverse', *trail))} has shape {_array(bar).shape} at input {place}, "
                    f"whose shape is {_array(arg).shape}\n{_SHAPE_ADVICE}"
                )
        left, left_scale = _inner(cotangents, moved)
        right, right_scale = _inner(bars, directions)
        allowed = self.atol + self.rtol * max(left_scale, right_scale)
        if abs(left - right) <= allowed:
            return
        self.compare(bars, self.gradient(f, args, cotangents, bars), ("reverse", *trail), "input")
        raise GradCheckError(
            f"the {_of(('reverse', *trail))} is wrong: <v, J u> is {left}, <J^T v, u> is {right}; they "
            f"differ by {abs(left - right):.3g}, and {allowed:.3g} is allowed\n{_ADVICE}"
        )

    def gradient(
        self, f: Function, args: Sequence[Any], cotangents: Sequence[Any], bars: Sequence[Any]
    ) -> list[Array]:
        """Return what the cotangents of the arguments should be; of many elements, for some of them only."""
        expected = [np.array(_array(bar)) for bar in bars]

        def paired(*inputs: Any) -> list[Any]:
            return [np.asarray(_inner(cotangents, f(*inputs))[0])]

        for place, index in self.some([array.shape for array in expected]):
            parts = []
            for unit in (1, 1j) if expected[place].dtype.kind == "c" else (1,):
                basis = [np.zeros_like(array) for array in expected]
                basis[place][index] = unit
                (part,), _ = _differences(paired, args, basis, self.eps)
                parts.append(part[()])
            expected[place][index] = parts[0] if len(parts) == 1 else parts[0] - 1j * parts[1]
        return expected

    def some(self, shapes: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield places and indices of elements: all, or a random choice where they are many."""
        every = [(place, index) for place, shape in enumerate(shapes) for index in np.ndindex(shape)]
        chosen = self.rng.permutation(len(every))[:_MOST_ELEMENTS]
        yield from (every[i] for i in sorted(chosen.tolist()))


def _inner(left: Sequence[Any], right: Sequence[Any]) -> tuple[float, float]:
    """Return the real inner product of cotangents with tangents, and the sum of its terms' magnitudes."""
    terms = [np.real(_array(a) * _array(b)).astype(np.float64) for a, b in zip(left, right, strict=True)]
    return float(sum(np.sum(t) for t in terms)), float(sum(np.sum(np.abs(t)) for t in terms))


def _place(kind: str, place: int, n: int, index: tuple[int, ...]) -> str:
    where = kind if n == 1 else f"{kind} {place}"
    return f"{where}[{', '.join(map(str, index))}]" if index else where


def _of(trail: tuple[str, ...]) -> str:
    """Name a derivative by the modes that it is made by, the last of them first."""
    return " derivative of the ".join(trail) + " derivative" if trail else ""
