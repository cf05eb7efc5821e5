"""Random programs: lists of steps that run on any namespace of NumPy's functions, to compare all ways to run.

A program is data: the shapes of its inputs, and steps that name a function and the values it is applied to.
Steps are drawn so that shapes fit, and so that values stay below a bound: what is compared is arithmetic, not
overflow. All functions are analytic, or choose by comparisons, which look at real parts first: a program
runs on complex numbers too, and a complex step gives its derivative to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["Program", "Step", "complex_step", "programs"]

Shape = tuple[int, ...]
_INPUT_BOUND = 2.0

_SHAPES: list[Shape] = [(), (1,), (3,), (4,), (2, 3), (3, 4), (3, 1), (1, 4), (2, 3, 2), (4, 3)]
_LARGE_SHAPES: list[Shape] = [(), (1,), (5000,), (70, 80), (80,), (70, 1), (1, 80), (80, 70), (2, 3, 1000)]


@dataclass(frozen=True)
class Step:
    """One function applied to values, which are numbered: the inputs first, then the results of the steps."""

    function: str
    operands: tuple[int, ...]
    params: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join([f'v{k}' for k in self.operands] + [repr(p) for p in self.params])})"


@dataclass(frozen=True)
class Program:
    """Inputs' shapes, steps, and the number of the value that is summed up to the result."""

    shapes: tuple[Shape, ...]
    steps: tuple[Step, ...]

    def run(self, xp: Any, *inputs: Any) -> Any:
        """Run with the functions of a namespace: numpy's own, or one that answers to the same names."""
        values = list(inputs)
        for step in self.steps:
            values.append(FUNCTIONS[step.function](xp, *(values[k] for k in step.operands), *step.params))
        return xp.sum(values[-1])

    def inputs(self, seed: int, dtype: Any = np.float64) -> list[np.ndarray[Any, Any]]:
        """Return inputs for a run."""
        rng = np.random.default_rng(seed)
        return [rng.uniform(-_INPUT_BOUND, _INPUT_BOUND, shape).astype(dtype) for shape in self.shapes]

    def __str__(self) -> str:
        lines = [f"v{k} = input{shape}" for k, shape in enumerate(self.shapes)]
        lines += [f"v{k} = {step}" for k, step in enumerate(self.steps, start=len(self.shapes))]
        return "\n".join(lines)


def complex_step(program: Program, inputs: Sequence[Any], directions: Sequence[Any]) -> float:
    """Return the derivative of a program in a direction, exact to rounding (Squire and Trapp, 1998)."""
    step = 1e-30
    moved = [x + 1j * step * u for x, u in zip(inputs, directions, strict=True)]
    return float(np.imag(program.run(np, *moved)) / step)


def where_positive(xp: Any, x: Any, y: Any) -> Any:
    """Choose by the sign of the first operand."""
    return xp.where(x > 0.25, x, y)


# What a step may do: of a namespace, operands and static parameters.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": lambda xp, x: xp.sin(x),
    "cos": lambda xp, x: xp.cos(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "arctan": lambda xp, x: xp.arctan(x),
    "gauss": lambda xp, x: xp.exp(-xp.square(x)),
    "exp_of_sin": lambda xp, x: xp.exp(xp.sin(x)),
    "expm1_of_tanh": lambda xp, x: xp.expm1(xp.tanh(x)),
    "log1p_of_square": lambda xp, x: xp.log1p(x * x),
    "root": lambda xp, x: xp.sqrt(x**2 + 1.0),
    "logistic": lambda xp, x: 1.0 / (1.0 + xp.exp(-x)),
    "negative": lambda xp, x: -x,
    "scaled": lambda xp, x, c: c * x,
    "shifted": lambda xp, x, c: x - c,
    "cube": lambda xp, x: x**3,
    "power": lambda xp, x, c: (x * x + 1.0) ** c,
    "add": lambda xp, x, y: x + y,
    "subtract": lambda xp, x, y: xp.subtract(x, y),
    "multiply": lambda xp, x, y: x * y,
    "divide": lambda xp, x, y: x / (y * y + 1.0),
    "maximum": lambda xp, x, y: xp.where(x > y, x, y),
    "where": where_positive,
    "sum": lambda xp, x, axis, keepdims: xp.sum(x, axis=axis, keepdims=keepdims),
    "mean": lambda xp, x, axis, keepdims: xp.mean(x, axis=axis, keepdims=keepdims),
    "cumsum": lambda xp, x, axis: xp.cumsum(x, axis=axis),
    "matmul": lambda xp, x, y: x @ y,
    "tensordot": lambda xp, x, y: xp.tensordot(x, y, axes=1),
    "outer": lambda xp, x, y: xp.multiply(x[..., None], y),
    "reshape": lambda xp, x, shape: xp.reshape(x, shape),
    "transpose": lambda xp, x, axes: xp.transpose(x, axes),
    "broadcast": lambda xp, x, shape: xp.broadcast_to(x, shape),
    "expand": lambda xp, x, axis: xp.expand_dims(x, axis),
    "flip": lambda xp, x, axis: xp.flip(x, axis),
    "roll": lambda xp, x, shift, axis: xp.roll(x, shift, axis),
    "slice": lambda xp, x, start, stop, step: x[start:stop:step],
    "slice_last": lambda xp, x, start, stop, step: x[..., start:stop:step],
    "pick": lambda xp, x, k: x[k],
    "gather": lambda xp, x, indices: x[np.array(indices)],
    "gather_pairs": lambda xp, x, rows, columns: x[np.array(rows), np.array(columns)],
    "mask": lambda xp, x, mask: x[np.array(mask)],
    "concatenate": lambda xp, x, y: xp.concatenate([x, y], axis=0),
    "stack": lambda xp, x, y: xp.stack([x, y], axis=-1),
}

# How large a result can be, given how large the operands can be
_UNARY: dict[str, Callable[[float], float]] = {
    "sin": lambda b: 1.0,
    "cos": lambda b: 1.0,
    "tanh": lambda b: 1.0,
    "arctan": lambda b: 1.6,
    "gauss": lambda b: 1.0,
    "exp_of_sin": lambda b: 2.8,
    "expm1_of_tanh": lambda b: 1.8,
    "log1p_of_square": lambda b: float(np.log1p(b * b)),
    "root": lambda b: b + 1.0,
    "logistic": lambda b: 1.0,
    "negative": lambda b: b,
    "cube": lambda b: b**3,
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a,
    "maximum": max,
    "where": max,
}


class _Builder:
    """Draws steps one by one, and keeps the shape and the bound of every value."""

    def __init__(self, draw: st.DrawFn, limit: float, max_size: int) -> None:
        self.draw = draw
        self.limit = limit
        self.max_size = max_size
        self.shapes: list[Shape] = []
        self.bounds: list[float] = []
        self.steps: list[Step] = []

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choice(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def value(self, fits: Callable[[Shape], bool] = lambda shape: True) -> int | None:
        """Choose a value of a fitting shape; the latest are the likeliest, so that programs become deep."""
        fitting = [k for k, shape in enumerate(self.shapes) if fits(shape)]
        if not fitting:
            return None
        return fitting[max(self.integer(0, len(fitting) - 1), self.integer(0, len(fitting) - 1))]

    def add(
        self, function: str, operands: tuple[int, ...], params: tuple[Any, ...], shape: Shape, bound: float
    ) -> None:
        """Append a step, unless its result might be too large."""
        size = int(np.prod(shape, dtype=np.int64))
        if bound <= self.limit and 0 < size <= self.max_size and len(shape) <= 4:
            self.steps.append(Step(function, operands, params))
            self.shapes.append(shape)
            self.bounds.append(bound)

    def step(self) -> None:
        """Draw one step of a family."""
        families = (
            self.unary,
            self.unary,
            self.binary,
            self.binary,
            self.reduce,
            self.contract,
            self.shape,
            self.index,
        )
        self.choice(families)()

    def unary(self) -> None:
        k = self.value()
        assert k is not None
        name = self.choice([*_UNARY, "scaled", "shifted", "power"])
        bound = self.bounds[k]
        if name in _UNARY:
            self.add(name, (k,), (), self.shapes[k], _UNARY[name](bound))
            return
        c = self.choice((-1.5, -0.5, 0.25, 0.5, 1.0, 2.0))
        new = {
            "scaled": abs(c) * bound,
            "shifted": bound + abs(c),
            "power": (bound * bound + 1.0) ** max(c, 0.0),
        }
        self.add(name, (k,), (c,), self.shapes[k], new[name])

    def binary(self) -> None:
        left = self.value()
        assert left is not None
        right = self.value(lambda shape: _broadcast(self.shapes[left], shape) is not None)
        assert right is not None
        shape = _broadcast(self.shapes[left], self.shapes[right])
        assert shape is not None
        name = self.choice(list(_BINARY))
        self.add(name, (left, right), (), shape, _BINARY[name](self.bounds[left], self.bounds[right]))

    def reduce(self) -> None:
        k = self.value(lambda shape: len(shape) > 0)
        if k is None:
            return
        shape = self.shapes[k]
        name = self.choice(("sum", "mean", "cumsum"))
        if name == "cumsum":
            axis = self.integer(-len(shape), len(shape) - 1)
            self.add(name, (k,), (axis,), shape, self.bounds[k] * shape[axis])
            return
        several = [tuple(range(len(shape))), (0, -1)] if len(shape) > 1 else [(0,)]
        axes = self.choice([None, *range(-len(shape), len(shape)), *several])
        keepdims = self.draw(st.booleans())
        gone = set(range(len(shape))) if axes is None else {a % len(shape) for a in np.atleast_1d(axes).tolist()}
        n = int(np.prod([shape[d] for d in gone], dtype=np.int64))
        left = tuple(1 if d in gone else m for d, m in enumerate(shape) if keepdims or d not in gone)
        self.add(name, (k,), (axes, keepdims), left, self.bounds[k] * (n if name == "sum" else 1))

    def contract(self) -> None:
        left = self.value(lambda shape: len(shape) > 0)
        if left is None:
            return
        a = self.shapes[left]
        name = self.choice(("matmul", "tensordot", "outer"))
        if name == "outer":
            right = self.value(lambda shape: len(shape) == 1)
            if right is not None:
                bound = self.bounds[left] * self.bounds[right]
                self.add(name, (left, right), (), (*a, *self.shapes[right]), bound)
            return
        right = self.value(lambda shape: _contracts(name, a, shape))
        if right is not None:
            b = self.shapes[right]
            zeros = np.zeros(a), np.zeros(b)
            shape = (np.matmul(*zeros) if name == "matmul" else np.tensordot(*zeros, axes=1)).shape
            self.add(name, (left, right), (), shape, a[-1] * self.bounds[left] * self.bounds[right])

    def shape(self) -> None:
        k = self.value()
        assert k is not None
        shape, bound = self.shapes[k], self.bounds[k]
        name = self.choice(("reshape", "transpose", "broadcast", "expand", "flip", "roll", "concatenate", "stack"))
        size = int(np.prod(shape, dtype=np.int64))
        n = len(shape)
        if name == "reshape":
            rows = self.choice([d for d in range(1, size + 1) if size % d == 0])
            self.add(name, (k,), ((rows, -1),), (rows, size // rows), bound)
        elif name == "transpose":
            axes = self.draw(st.permutations(range(n)))
            self.add(name, (k,), (tuple(axes),), tuple(shape[d] for d in axes), bound)
        elif name == "broadcast":
            wide = (2, *(3 if m == 1 else m for m in shape))
            self.add(name, (k,), (wide,), wide, bound)
        elif name == "expand":
            axis = self.integer(0, n)
            self.add(name, (k,), (axis,), (*shape[:axis], 1, *shape[axis:]), bound)
        elif name in ("flip", "roll") and n:
            axis = self.integer(-n, n - 1)
            params = (axis,) if name == "flip" else (self.integer(-2, 2), axis)
            self.add(name, (k,), params, shape, bound)
        elif name in ("concatenate", "stack") and n:
            other = self.value(lambda s: s == shape)
            assert other is not None
            joined = (2 * shape[0], *shape[1:]) if name == "concatenate" else (*shape, 2)
            self.add(name, (k, other), (), joined, max(bound, self.bounds[other]))

    def index(self) -> None:
        k = self.value(lambda shape: len(shape) > 0)
        if k is None:
            return
        shape, bound = self.shapes[k], self.bounds[k]
        name = self.choice(("slice", "slice_last", "pick", "gather", "gather_pairs", "mask"))
        n = shape[-1] if name == "slice_last" else shape[0]
        if name in ("slice", "slice_last"):
            cut = slice(*(self.choice([None, *range(-n, n)]) for _ in range(2)), self.choice((None, 1, 2, -1, -2)))
            m = len(range(n)[cut])
            left = (*shape[:-1], m) if name == "slice_last" else (m, *shape[1:])
            self.add(name, (k,), (cut.start, cut.stop, cut.step), left, bound)
        elif name == "pick":
            self.add(name, (k,), (self.integer(-n, n - 1),), shape[1:], bound)
        elif name == "gather":
            indices = tuple(self.integer(-n, n - 1) for _ in range(self.integer(1, 4)))
            self.add(name, (k,), (indices,), (len(indices), *shape[1:]), bound)
        elif name == "gather_pairs" and len(shape) > 1:
            m = self.integer(1, 4)
            rows = tuple(self.integer(-n, n - 1) for _ in range(m))
            columns = tuple(self.integer(0, shape[1] - 1) for _ in range(m))
            self.add(name, (k,), (rows, columns), (m, *shape[2:]), bound)
        elif name == "mask":
            pattern = self.draw(st.lists(st.booleans(), min_size=min(n, 6), max_size=min(n, 6)))
            mask = tuple(pattern[i % len(pattern)] for i in range(n))
            self.add(name, (k,), (mask,), (sum(mask), *shape[1:]), bound)


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def _contracts(name: str, a: Shape, b: Shape) -> bool:
    if not b:
        return False
    if name == "tensordot":
        return a[-1] == b[0]
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        return False
    return _broadcast(a[:-2], b[:-2]) is not None


@st.composite
def programs(draw: st.DrawFn, max_steps: int = 12, large: bool = False) -> Program:
    """Draw programs of one to three inputs and up to so many steps.

    The values of large ones lie on both sides of where small arrays end, which are replayed in another way. No value
    is larger than a limit, whatever inputs within [-2, 2] the program is given.
    """
    builder = _Builder(draw, *((1e6, 20_000) if large else (50.0, 64)))
    shapes = st.sampled_from(_LARGE_SHAPES if large else _SHAPES)
    inputs = tuple(draw(st.lists(shapes, min_size=1, max_size=3)))
    builder.shapes += inputs
    builder.bounds += [_INPUT_BOUND] * len(inputs)
    for _ in range(draw(st.integers(1, max_steps))):
        builder.step()
    return Program(inputs, tuple(builder.steps))
