"""Checking derivatives: of any function against differences (`check_grads`), of tensors as PyTorch does.

The differences are central ones, extrapolated to step zero (Ridders), which for smooth functions leaves
little more than rounding; reverse mode is checked against forward mode by the adjoint identity.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import optree

from jitgrad import autograd
from jitgrad.core.op import requires_grad
from jitgrad.core.tensor import Tensor
from jitgrad.errors import GradCheckError
from jitgrad.tensor.creation import tensor
from jitgrad.transforms.derivatives import jvp, vjp
from jitgrad.transforms.trace import flatten

__all__ = ["check_grads", "gradcheck", "gradgradcheck", "numerical_jvp"]

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


# -- numerical derivatives -------------------------------------------------------------------------------


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
            if degree == 1:  # two steps may agree by chance, as those of a staircase do
                continue
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


def numerical_jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], eps: float | None = None) -> Any:
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


# -- any function ----------------------------------------------------------------------------------------


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

    def gradient(self, f: Function, args: Sequence[Any], cotangents: Sequence[Any], bars: Sequence[Any]) -> list[Array]:
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


# -- tensors, as PyTorch does ----------------------------------------------------------------------------


def gradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Check gradients that `jitgrad.autograd.grad` computes, as `torch.autograd.gradcheck` does.

    Every element of the Jacobian of every output by every input that requires a gradient is compared with a
    central difference. While that is computed, elements of the inputs are written over one by one, and
    restored.

    Parameters
    ----------
    func : callable
        Takes the inputs, returns a tensor or a tuple of them. Outputs that require no gradient are not
        looked at.
    inputs : Tensor or sequence
        Its arguments. Those that are checked are the tensors that require a gradient; they should be float64.
    eps : float
        The step of the differences.
    atol, rtol : float
        An element may differ by ``atol + rtol * |numerical|``.
    raise_exception : bool
        Raise where the check fails, instead of returning False.

    Returns
    -------
    bool
        Whether all is well.

    Raises
    ------
    GradCheckError
        With both Jacobians, if they differ; and if the same gradient, computed twice, does.
    ValueError
        If no input requires a gradient, or one has elements that share their memory.

    Examples
    --------
    >>> import jitgrad as jg
    >>> from jitgrad.testing import gradcheck
    >>> x = jg.tensor([1.0, 2.0], requires_grad=True)
    >>> gradcheck(lambda x: x * x.exp(), x)
    True
    >>> gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
    False
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    checked = [k for k, arg in enumerate(arguments) if type(arg) is Tensor and requires_grad(arg)]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for k in checked:
        value = arguments[k]._value
        if value.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex.",
                stacklevel=2,
            )
        if (
            0 in value.strides
            and value.size > 1
            and any(step == 0 and n > 1 for step, n in zip(value.strides, value.shape, strict=True))
        ):
            raise ValueError(f"input {k} was expanded: its elements share their memory, so that none can vary alone")
    try:
        _compare_jacobians(func, arguments, checked, eps, atol, rtol)
    except GradCheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Check second derivatives of tensors: gradients of gradients, with respect to inputs and to cotangents.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception
        As for `gradcheck`.
    grad_outputs : Tensor or sequence of Tensor, optional
        The cotangents of the outputs. By default random ones, which require gradients.

    Returns
    -------
    bool
        Whether all is well.

    Raises
    ------
    GradCheckError, ValueError
        As `gradcheck`.

    Examples
    --------
    >>> import jitgrad as jg
    >>> from jitgrad.testing import gradgradcheck
    >>> x = jg.tensor([1.0, 2.0], requires_grad=True)
    >>> gradgradcheck(lambda x: x * x.exp(), x)
    True
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    n = len(arguments)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = tuple(
            tensor(_random(rng, out.shape, out.dtype), requires_grad=True) for out in _differentiable(func(*arguments))
        )
    else:
        cotangents = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def gradients(*moved: Any) -> tuple[Any, ...]:
        wanted = [arg for arg in moved[:n] if type(arg) is Tensor and requires_grad(arg)]
        found = autograd.grad(
            _differentiable(func(*moved[:n])), wanted, moved[n:], create_graph=True, allow_unused=True
        )
        return tuple(bar for bar in found if bar is not None)

    return gradcheck(gradients, (*arguments, *cotangents), eps, atol, rtol, raise_exception)


def _differentiable(out: Any) -> list[Tensor]:
    outputs = out if isinstance(out, (tuple, list)) else (out,)
    return [leaf for leaf in outputs if type(leaf) is Tensor and requires_grad(leaf)]


def _units(dtype: np.dtype[Any]) -> tuple[complex, ...]:
    """The directions in which a number varies."""
    return (1, 1j) if dtype.kind == "c" else (1,)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    drawn: Any = rng.standard_normal(shape)
    if dtype.kind == "c":
        drawn = drawn + 1j * rng.standard_normal(shape)
    return np.asarray(drawn, dtype=dtype)


def _compare_jacobians(
    func: Function, inputs: tuple[Any, ...], checked: Sequence[int], eps: float, atol: float, rtol: float
) -> None:
    wanted = [inputs[k] for k in checked]
    outputs = _differentiable(func(*inputs))
    analytical = _analytical(outputs, wanted)
    numerical = _numerical(func, inputs, wanted, outputs, eps)
    for i in range(len(outputs)):
        for j, k in enumerate(checked):
            theirs, ours = numerical[i][j], analytical[i][j]
            if not np.all(np.abs(ours - theirs) <= atol + rtol * np.abs(theirs)):  # nor if any is NaN
                raise GradCheckError.mismatch(i, k, theirs, ours, mode="reverse", atol=atol, rtol=rtol)


def _analytical(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[list[Array]]:
    """Return a matrix an output and input: a row an element of the input, a column an output's cotangent."""
    matrices = []
    for i, output in enumerate(outputs):
        columns: list[list[Array]] = [[] for _ in inputs]
        for index in np.ndindex(output.shape):
            for unit in _units(output.dtype):
                basis = np.zeros(output.shape, output.dtype)
                basis[index] = unit
                seed = tensor(basis)
                once, again = (
                    autograd.grad(output, inputs, seed, retain_graph=True, allow_unused=True) for _ in range(2)
                )
                for j, kind in enumerate(inputs):
                    columns[j].append(_column(i, j, once[j], again[j], kind))
        matrices.append(
            [np.stack(c, axis=1) if c else np.zeros((x._type.size, 0)) for c, x in zip(columns, inputs, strict=True)]
        )
    return matrices


def _column(i: int, j: int, once: Tensor | None, again: Tensor | None, like: Tensor) -> Array:
    """Return a gradient as a column of the Jacobian, checked against what came of computing it again."""
    if once is None or again is None:
        return np.zeros(like._type.size, like.dtype)
    if once.shape != like.shape:
        raise GradCheckError(
            f"the gradient of output {i} with respect to input {j} has shape {once.shape}, the input has "
            f"shape {like.shape}\n{_SHAPE_ADVICE}"
        )
    if not np.array_equal(once._value, again._value, equal_nan=True):
        raise GradCheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
            f"times gives different values\nThe gradient of output {i} with respect to input {j} was\n"
            f"{once._value}\nand then\n{again._value}"
        )
    return once._value.ravel()


def _numerical(
    func: Function,
    arguments: tuple[Any, ...],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    eps: float,
) -> list[list[Array]]:
    matrices: list[list[Array]] = [[] for _ in outputs]
    for x in inputs:
        rows: list[list[Array]] = [[] for _ in outputs]
        for index in np.ndindex(x.shape):
            slopes = [_slope(func, arguments, x._value, index, eps * unit) for unit in _units(x.dtype)]
            for i, output in enumerate(outputs):
                # the real pairing of a cotangent, 1 or 1j, with the slope
                parts = [
                    np.stack([np.real(unit * slope[i]) for unit in _units(output.dtype)], axis=-1).ravel()
                    for slope in slopes
                ]
                rows[i].append(parts[0] if len(parts) == 1 else parts[0] - 1j * parts[1])
        for i, output in enumerate(outputs):
            width = output._type.size * len(_units(output.dtype))
            matrices[i].append(np.stack(rows[i]) if rows[i] else np.zeros((0, width)))
    return matrices


def _slope(
    func: Function, arguments: tuple[Any, ...], value: Array, index: tuple[int, ...], step: complex
) -> list[Array]:
    """Return the central difference of all outputs, an element of an input being written over meanwhile."""
    before = value[index]
    try:
        value[index] = before + step
        above = [out._value.copy() for out in _differentiable(func(*arguments))]
        value[index] = before - step
        below = [out._value for out in _differentiable(func(*arguments))]
        return [np.asarray((a - b) / (2 * abs(step))) for a, b in zip(above, below, strict=True)]
    finally:
        value[index] = before
