"""Compiled functions: right on every input, whatever Python does in them, and whatever changes around them."""

from __future__ import annotations

import functools
import gc
import itertools
import threading
import types
import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import jitgrad as jg
import jitgrad.numpy as jnp
from jitgrad.errors import JitTypeError, LeakedTensorError, RetraceWarning

X = np.array([0.1, 0.5, 0.9])


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


class Runs:
    """How often something has run; compiled functions do not see it change."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def __eq__(self, other: object) -> bool:
        return [int(repr(self.numbers)[6:-1])] == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.numbers)


def counted(f: Any) -> tuple[Any, Runs]:
    """A function, and how often its Python has run."""
    runs = Runs()
    numbers = runs.numbers

    @functools.wraps(f)
    def counting(*args: Any, **kwargs: Any) -> Any:
        next(numbers)
        return f(*args, **kwargs)

    return counting, runs


# -- results -----------------------------------------------------------------------------------------------------


def test_python_runs_once() -> None:
    f, runs = counted(rosenbrock)
    compiled = jg.jit(jg.value_and_grad(f))
    eager = jg.value_and_grad(rosenbrock)
    for k in range(1, 5):
        value, gradient = compiled(X * k)
        np.testing.assert_allclose(value, eager(X * k)[0], rtol=1e-14)
        np.testing.assert_allclose(gradient, eager(X * k)[1], rtol=1e-13)
        assert type(value) is np.float64
    assert runs == [1]
    assert compiled.cache_info() == (3, 1, 256, 1)


def test_results_are_the_callers() -> None:
    compiled = jg.jit(lambda x: (x * 2.0, x, x[1:], np.sum(x)))
    first = compiled(X)
    copies = [np.array(part) for part in first]
    for _ in range(3):
        compiled(X + 1.0)
    for part, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(part, copy)
    for part in first[:3]:
        assert not np.shares_memory(part, X)
        part += 1.0  # and may be written to
    np.testing.assert_array_equal(X, [0.1, 0.5, 0.9])
    assert not np.shares_memory(first[1], first[2])


class Pair(NamedTuple):
    a: Any
    b: Any


def test_trees_in_and_out() -> None:
    @jg.jit
    def f(params: Any, scale: float, *, shift: Any) -> Any:
        return {"sum": params["w"] * scale + shift, "pair": Pair(params["b"][0], [params["b"][1], None, "name"])}

    for _ in range(3):
        out = f({"w": X, "b": (X[0], X[1:])}, 2.0, shift=np.float64(1.0))
        np.testing.assert_array_equal(out["sum"], X * 2.0 + 1.0)
        assert isinstance(out["pair"], Pair)
        assert out["pair"].a == X[0]
        np.testing.assert_array_equal(out["pair"].b[0], X[1:])
        assert out["pair"].b[1:] == [None, "name"]
    assert f.cache_info().misses == 1


def test_composes_with_every_transform() -> None:
    for transform in (jg.grad, jg.hessian, jg.value_and_grad, lambda f: jg.jacobian(jg.grad(f))):
        compiled = jg.jit(transform(rosenbrock))
        for k in (1.0, 2.0):
            found, wanted = optree.tree_leaves(compiled(k * X)), optree.tree_leaves(transform(rosenbrock)(k * X))
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)
    inner = jg.jit(rosenbrock)
    np.testing.assert_allclose(jg.grad(inner)(X), jg.grad(rosenbrock)(X), rtol=1e-14)
    np.testing.assert_allclose(jg.jit(jg.grad(inner))(X), jg.grad(rosenbrock)(X), rtol=1e-14)
    x = jg.tensor(X, requires_grad=True)
    inner(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), jg.grad(rosenbrock)(X), rtol=1e-14)


def test_a_function_that_closes_over_a_traced_value_is_seen_through() -> None:
    def f(w: Any) -> Any:
        return np.sum(jg.jit(lambda x: x * w)(X))

    assert jg.grad(f)(2.0) == np.sum(X)


def test_methods_and_decorators() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @jg.jit
        def __call__(self, x: Any) -> Any:
            return np.sum(x * self.scale)

        @functools.partial(jg.jit, static_argnums=(0,))
        def loss(self, x: Any) -> Any:
            return np.sum(x) * self.scale

    model, other = Model(2.0), Model(3.0)
    for _ in range(2):
        assert model(X) == np.sum(X * 2.0)
        assert other(X) == np.sum(X * 3.0)
        assert model.loss(X) == np.sum(X) * 2.0
        assert other.loss(X) == np.sum(X) * 3.0
    model.scale = 5.0
    assert model(X) == np.sum(X * 5.0)
    assert model.loss(X) == np.sum(X) * 5.0


# -- signatures ----------------------------------------------------------------------------------------------------


def test_shapes_dtypes_and_structure_have_traces_of_their_own() -> None:
    f, runs = counted(lambda x: x * 2.0)
    compiled = jg.jit(f)
    for x in (X, X[:2], X.astype(np.float32), X[None], X * 1j, np.arange(3), np.array(1.0), 1.0, np.float32(1.0)):
        for _ in range(2):
            out = compiled(x)
            expected = np.asarray(x) * 2.0 if not isinstance(x, float) else np.float64(x * 2.0)
            np.testing.assert_array_equal(out, expected)
            assert out.dtype == expected.dtype
            assert type(out) in (np.ndarray, type(expected[()]))
    assert runs == [9]
    compiled.cache_clear()
    assert compiled.cache_info() == (0, 0, 256, 0)
    compiled(X)
    assert runs == [10]


@pytest.mark.parametrize(
    "view",
    [
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(5.0)[::-1],
        np.broadcast_to(1.0, (3, 2)),
        np.arange(6.0).astype(">f8"),
        np.frombuffer(b"x" + np.arange(3.0).tobytes(), np.uint8)[1:].view(np.float64),
    ],
)
def test_any_layout(view: Any) -> None:
    compiled = jg.jit(lambda x: (x * 2.0, np.sum(x)))
    for _ in range(3):
        out = compiled(view)
        np.testing.assert_array_equal(out[0], view * 2.0)
        assert out[1] == np.sum(view)


def test_integers_and_strings_are_static() -> None:
    f, runs = counted(lambda x, n, how: x**n if how == "power" else x * n)
    compiled = jg.jit(f)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X, 2, "power"), X**2)
        np.testing.assert_array_equal(compiled(X, 3, "power"), X**3)
        np.testing.assert_array_equal(compiled(X, 3, how="times"), X * 3)
        np.testing.assert_array_equal(compiled(X, True, "times"), X)
        np.testing.assert_array_equal(compiled(X, 1, "times"), X)
    assert runs == [5]


def test_static_arguments() -> None:
    class Config:
        def __init__(self, scale: float) -> None:
            self.scale = scale

    small, large = Config(1.0), Config(2.0)
    by_number = jg.jit(lambda c, x: x * c.scale, static_argnums=0)
    by_name = jg.jit(lambda x, c: x * c.scale, static_argnames="c")
    for _ in range(2):
        for config in (small, large):
            np.testing.assert_array_equal(by_number(config, X), X * config.scale)
            np.testing.assert_array_equal(by_name(X, c=config), X * config.scale)
    assert by_number.cache_info().misses == 2


def test_slices_are_static_arguments() -> None:
    x = np.arange(12.0).reshape(3, 4)
    indices = [slice(0, 2), slice(0, 3), (slice(None), slice(1, None)), (slice(None), slice(1, 3)), (0, slice(2))]
    anywhere, static = jg.jit(lambda x, i: np.sum(x[i])), jg.jit(lambda x, i: np.sum(x[i]), static_argnums=1)
    named = jg.jit(lambda x, *, i: np.sum(x[i]), static_argnames="i")
    for index in [*indices, *indices]:
        assert anywhere(x, index) == static(x, index) == named(x, i=index) == x[index].sum()
        np.testing.assert_array_equal(jg.grad(static)(x, index), jg.grad(lambda x: np.sum(x[index]))(x))  # noqa: B023
    assert static.cache_info().currsize == anywhere.cache_info().currsize == len(indices)


def test_a_number_that_is_differentiated_by_is_an_array() -> None:
    single = X.astype(np.float32)
    f = jg.value_and_grad(lambda x: np.sum((x * 1.0) * single - (-x) * single))
    compiled = jg.jit(f)
    for x in (2.0, 3.0, 4.0):
        for found, wanted in zip(compiled(x), f(x), strict=True):
            assert found.dtype == wanted.dtype == np.float64
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_python_numbers_do_not_widen() -> None:
    single = X.astype(np.float32)
    compiled = jg.jit(lambda x, lr: x - lr * x)
    for lr in (0.5, 0.25):
        out = compiled(single, lr)
        assert out.dtype == np.float32
        np.testing.assert_array_equal(out, single - lr * single)
    assert jg.jit(lambda x: x * np.float64(2.0))(single).dtype == np.float64


@pytest.mark.parametrize("argument", [np.array([None]), np.array(["a"]), np.array(["2001-01-01"], "M8[D]")])
def test_arrays_without_numbers_are_refused(argument: Any) -> None:
    with pytest.raises(JitTypeError, match="got an array of dtype"):
        jg.jit(lambda x: x)(argument)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(JitTypeError, match="needs a function, not int"):
        jg.jit(3)

    class Unhashable:
        __hash__ = None

    with pytest.raises(JitTypeError, match="neither a number, an array, nor hashable"):
        jg.jit(lambda x: 1.0)(Unhashable())


# -- guards --------------------------------------------------------------------------------------------------------


def check(f: Any, inputs: Any, misses: int | None = None) -> None:
    """Compare with the plain function on inputs in some order, each twice."""
    compiled = jg.jit(f)
    for x in [*inputs, *inputs]:
        np.testing.assert_allclose(
            np.asarray(compiled(x), dtype=float), np.asarray(f(x), dtype=float), rtol=1e-13, atol=1e-300
        )
    if misses is not None:
        assert compiled.cache_info().misses == misses


def test_branches_on_values() -> None:
    check(lambda x: np.sin(x) if x > 0 else x * x, (1.0, 2.0, -1.0, 3.0, -2.0, 0.0), misses=2)


def test_gradients_of_branches() -> None:
    check(jg.grad(lambda x: np.sin(x) if x > 0 else x * x), (1.0, -1.0, 3.0, -2.0), misses=2)


def test_loops_until_converged() -> None:
    def root(x: Any) -> Any:
        guess = x
        while abs(guess * guess - x) > 1e-12 * x:
            guess = 0.5 * (guess + x / guess)
        return guess

    check(root, (2.0, 3.0, 100.0, 2.5, 1e6))
    check(jg.grad(root), (2.0, 3.0, 100.0, 2.5))


def test_branches_inside_loops_and_early_returns() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for k in range(4):
            if x[k] < 0:
                return total
            if x[k] > 1:
                total = total + x[k] * x[k]
            else:
                total = total - np.exp(x[k])
        return total * 2.0

    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-0.5, 2, 4) for _ in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        check(f, inputs)
        check(jg.grad(lambda x: f(x) + np.sum(x)), inputs)


def test_comparisons_of_arrays() -> None:
    def f(x: Any) -> Any:
        if (x > 1).any():
            return np.sum(x[x > 1])
        if np.all(x < 0):
            return np.min(x)
        return np.max(x) * len(x[np.argsort(x)])

    check(f, (X, X + 1, X - 5, X * 3, -X))


def test_other_looks_at_values() -> None:
    check(lambda x: x * int(x), (1.2, 1.7, 2.2, 1.3), misses=2)
    check(lambda x: x[int(x[0])] * 2.0, (np.array([1.0, 5.0, 7.0]), np.array([2.0, 5.0, 7.0])), misses=2)
    check(lambda x: x * round(float(x)), (1.5, 1.5, 2.5))
    check(lambda x: x * (3 in x), (np.array([1.0, 3.0]), np.array([1.0, 2.0])))
    check(lambda x: x[np.flatnonzero(x)], (np.array([1.0, 0.0, 2.0]), np.array([0.0, 0.0, 2.0])))
    check(lambda x: np.sum(x) * len(x.tolist()), (X,))


def test_traced_integers_are_indices() -> None:
    f, runs = counted(
        lambda x, i, j: (x[i], x[i, j], np.take(x, j, 1), np.take_along_axis(x, i[:, None], 0), x[:, i[1]])
    )
    compiled = jg.jit(f)
    total = jg.jit(jg.grad(lambda x, i, j: sum(np.sum(part) ** 2 for part in f(x, i, j))))
    x = np.arange(12.0).reshape(4, 3)
    for k in range(4):
        i, j = np.array([k, 0, -1]), np.array([[0, 1, k % 3]])
        for one, other in zip(compiled(x, i, j), f.__wrapped__(x, i, j), strict=True):
            np.testing.assert_array_equal(one, other)
        eager = jg.grad(lambda x: sum(np.sum(part) ** 2 for part in f.__wrapped__(x, i, j)))(x)  # noqa: B023
        np.testing.assert_allclose(total(x, i, j), eager, rtol=1e-13)
    assert runs == [2]
    with pytest.raises(IndexError):
        compiled(x, np.array([4, 0, 0]), np.array([[0, 1, 2]]))


def test_missing_over_and_over_is_told_once_with_the_line() -> None:
    def f(x: Any) -> Any:
        return x * float(x)  # the line

    compiled = jg.jit(f)
    with pytest.warns(RetraceWarning, match=r"f has been traced 8 times.*\n.*test_jit.py:\d+ in .*f") as told:
        results = [compiled(float(k)) for k in range(100)]
    assert results == [float(k) ** 2 for k in range(100)]
    assert len([w for w in told if w.category is RetraceWarning]) == 1
    assert told[0].filename == __file__
    assert compiled.cache_info().currsize <= 64


def test_an_exception_leaves_nothing_behind() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        if y > 3:
            raise ValueError("too large")
        return y

    compiled = jg.jit(f)
    assert compiled(1.0) == 2.0
    for _ in range(2):
        with pytest.raises(ValueError, match="too large"):
            compiled(2.0)
    assert compiled(1.5) == 3.0
    assert compiled.cache_info().misses == 1
    assert jg.grad(lambda x: x * x)(3.0) == 6.0


def test_an_escaped_tensor_is_told() -> None:
    kept: list[Any] = []
    jg.jit(lambda x: kept.append(x * 2.0) or x)(1.0)
    with pytest.raises(LeakedTensorError):
        kept[0] + 1.0


# -- what a function reads beside its arguments -----------------------------------------------------------------

SCALE = 2.0
DATA = np.ones(3)
CONFIG = types.SimpleNamespace(scale=1.0, inner=types.SimpleNamespace(shift=0.5))
LIST = [1.0, np.ones(3)]


def helper(x: Any) -> Any:
    return x * SCALE


def test_globals_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    f, runs = counted(lambda x: np.sum(helper(x) * DATA))
    compiled = jg.jit(f)
    assert compiled(X) == compiled(X) == np.sum(X) * 2
    monkeypatch.setitem(globals(), "SCALE", 3.0)  # read by a function that it calls
    assert compiled(X) == compiled(X) == np.sum(X * 3.0)
    monkeypatch.setitem(globals(), "DATA", np.full(3, 2.0))
    assert compiled(X) == compiled(X) == np.sum(X * 3.0 * 2.0)
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert compiled(X) == np.sum(X * 2.0)
    assert runs == [4]


def test_arrays_are_read_anew() -> None:
    data = np.ones(3)
    f, runs = counted(lambda x: np.sum(x * data))
    compiled = jg.jit(f)
    for k in range(4):
        data[:] = k
        np.testing.assert_allclose(compiled(X), np.sum(X * k), rtol=1e-15)
        data[0] = 7.0
        np.testing.assert_allclose(compiled(X), np.sum(X * data), rtol=1e-15)
    assert runs == [1]


def test_what_numpy_computes_from_arrays_is_not_baked() -> None:
    data = np.ones(3)
    gradient = jg.jit(jg.grad(lambda x: np.sum(x * (data * 2.0 + 1.0))))
    for k in range(3):
        data[:] = k
        np.testing.assert_array_equal(gradient(X), np.full(3, 2.0 * k + 1.0))


def test_a_buffer_that_the_function_writes_to() -> None:
    buffer = np.zeros(3)

    def f(x: Any) -> Any:
        total = 0.0
        for k in range(3):
            buffer[:] = k
            total = total + np.sum(x * buffer)
        return total

    compiled = jg.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), 3.0 * np.sum(X), rtol=1e-15)
        buffer[:] = 100.0


def test_closures_attributes_and_containers_are_checked() -> None:
    scale = 1.0
    compiled = jg.jit(lambda x: x * scale + CONFIG.scale + CONFIG.inner.shift + LIST[0] + np.sum(LIST[1]))
    plain = compiled.__wrapped__
    for change in (
        lambda: None,
        lambda: setattr(CONFIG, "scale", CONFIG.scale + 1),
        lambda: setattr(CONFIG.inner, "shift", 7.0),
        lambda: LIST.__setitem__(0, LIST[0] + 1),
        lambda: LIST[1].__setitem__(0, 5.0),
        lambda: LIST.__setitem__(1, np.zeros(3)),
    ):
        change()
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-15)
    scale = 3.0
    np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-15)


class Scaled:
    def __init__(self) -> None:
        self.scale = 2.0
        self.inner = [1.0]

    def direct(self, x: Any) -> Any:
        return np.sum(x * self.scale)

    def late(self, x: Any) -> Any:
        y = x
        return self.scale * np.sum(y)

    def in_a_function_inside(self, x: Any) -> Any:
        def times(v: Any) -> Any:
            return v * self.scale

        return np.sum(times(x))

    def in_a_comprehension(self, x: Any) -> Any:
        return sum([v * self.scale for v in x])

    def beside_a_function_inside(self, x: Any) -> Any:
        return np.sum(x * self.scale) + (lambda: len(self.inner))()

    def in_a_container(self, x: Any) -> Any:
        return np.sum(x) * self.scale * self.inner[0]

    def by_a_method(self, x: Any) -> Any:
        return self.direct(x)


@pytest.mark.parametrize("name", [name for name in vars(Scaled) if not name.startswith("__")])
@pytest.mark.parametrize(
    "call",
    [lambda f, o, x: f(o, x), lambda f, o, x: f(o, x=x), lambda f, o, x: f(self=o, x=x)],
    ids=["positional", "mixed", "keywords"],
)
def test_attributes_of_arguments_are_checked_wherever_they_are_read(name: str, call: Any) -> None:
    plain = getattr(Scaled, name)
    argument = Scaled()
    method = Scaled()
    compiled, bound = jg.jit(plain), jg.jit(getattr(method, name))
    partial = jg.jit(functools.partial(plain, argument))
    for scale in (2.0, 5.0, 5.0, 3.0):
        for o in (argument, method):
            o.scale = scale
            o.inner[0] = scale + 1.0
        for _ in range(2):
            expected = plain(argument, X)
            assert call(compiled, argument, X) == pytest.approx(expected, rel=1e-14)
            assert bound(X) == pytest.approx(expected, rel=1e-14)
            assert partial(X) == pytest.approx(expected, rel=1e-14)


def test_tensors_that_are_closed_over() -> None:
    w = jg.tensor([1.0, 2.0, 3.0])
    compiled = jg.jit(lambda x: np.sum(x * w))
    assert compiled(np.ones(3)) == 6.0
    w.mul_(2.0)
    assert compiled(np.ones(3)) == 12.0
    w.requires_grad_(True)
    with pytest.raises(JitTypeError, match="a tensor from outside that requires a gradient"):
        jg.jit(lambda x: np.sum(x * w))(np.ones(3))


# -- threads, memory, life -------------------------------------------------------------------------------------


def test_many_threads_at_once() -> None:
    compiled = jg.jit(jg.value_and_grad(lambda x: np.sum(np.tanh(x) * np.sort(np.asarray(X))) * np.max(x)))
    eager = jg.value_and_grad(lambda x: np.sum(np.tanh(x) * np.sort(np.asarray(X))) * np.max(x))
    expected = {k: eager(X * k) for k in range(1, 9)}
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(200):
            value, gradient = compiled(X * k)
            if not (np.isclose(value, expected[k][0]) and np.allclose(gradient, expected[k][1], rtol=1e-12)):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in expected]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_a_compiled_function_goes_with_its_last_reference() -> None:
    def used() -> weakref.ref[Any]:
        data = np.ones(3)
        compiled = jg.jit(lambda x: x * data)
        for _ in range(3):
            compiled(X)
        return weakref.ref(data)

    gone = used()
    gc.collect()
    assert gone() is None


def test_signatures_are_bounded() -> None:
    compiled = jg.jit(lambda x, n: x)
    for n in range(300):
        compiled(1.0, n)
    assert compiled.cache_info().currsize == 256


def test_keeps_what_it_wraps() -> None:
    compiled = jg.jit(rosenbrock)
    assert compiled.__name__ == "rosenbrock"
    assert compiled.__wrapped__ is rosenbrock
    assert repr(compiled) == "<jit of rosenbrock>"


def test_large_sums_and_products_of_matrices() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 30)), rng.normal(size=(30, 20))

    def loss(a: Any, b: Any) -> Any:
        return np.sum(jnp.tanh(a @ b) ** 2) + np.sum((b.T @ a.T) * 2.0)

    compiled = jg.jit(jg.value_and_grad(loss, argnums=(0, 1)))
    for _ in range(3):
        value, (da, db) = compiled(a, b)
        wanted, (ea, eb) = jg.value_and_grad(loss, argnums=(0, 1))(a, b)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(da, ea, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(db, eb, rtol=1e-10, atol=1e-12)
        a, b = a + 0.1, b - 0.1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1 << 17, (1 << 17) + 12345, 300_001])
def test_results_do_not_depend_on_the_number_of_threads(dtype: type, n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(n).astype(dtype) for _ in range(2))

    def loss(x: Any, y: Any) -> Any:
        return np.sum(np.tanh(x * y) + np.exp(-x * x) * y) + np.sum(np.where(x > 0, y, 0.0))

    before = jg.get_num_threads()
    compiled = jg.jit(jg.value_and_grad(loss, argnums=(0, 1)))
    try:
        results = []
        for count in (2, 1, 3, 2):
            jg.set_num_threads(count)
            results += [compiled(x, y) for _ in range(2)]
    finally:
        jg.set_num_threads(before)
    wanted = jg.value_and_grad(loss, argnums=(0, 1))(x, y)
    value, (gx, gy) = results[1]
    rtol = 1e-12 if dtype is np.float64 else 2e-5
    np.testing.assert_allclose(value, wanted[0], rtol=1e-10 if dtype is np.float64 else 1e-3)
    np.testing.assert_allclose(gx, wanted[1][0], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(gy, wanted[1][1], rtol=rtol, atol=rtol)
    assert gx.dtype == value.dtype == dtype
    for other, (hx, hy) in results[2:]:
        assert other.tobytes() == value.tobytes()
        assert (hx.tobytes(), hy.tobytes()) == (gx.tobytes(), gy.tobytes())


def test_writes_to_an_argument() -> None:
    def f(x: Any) -> Any:
        x[0] = 5.0
        return np.sum(x)

    compiled = jg.jit(f)
    for _ in range(3):
        assert compiled(np.ones(2)) == 6.0
