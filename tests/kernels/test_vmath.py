"""The elementary functions: accuracy against mpmath, special values, vectorisation, no calls of libraries."""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from numba import cfunc, njit, types
from numba.core.errors import TypingError

from jitgrad.kernels import vmath
from jitgrad.kernels.vmath import coefficients

INF, NAN, PI = math.inf, math.nan, math.pi
BINARY = ("arctan2", "pow")
UNARY = tuple(name for name in vmath.__all__ if name not in (*BINARY, "SIN_FAST_LIMIT"))
ALL = (*UNARY, *BINARY)
LIMITS = {np.float64: 2.0, np.float32: 1.5}
NUMBA = {np.float64: types.float64, np.float32: types.float32}

MPMATH: dict[str, Callable[..., Any]] = {
    **{name: getattr(mp, name) for name in ("exp", "expm1", "log", "log10", "log1p", "sqrt")},
    **{name: getattr(mp, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name + "_fast": getattr(mp, name) for name in ("sin", "cos", "tan")},
    **{name: getattr(mp, name.replace("arc", "a")) for name in vmath.__all__ if name.startswith("arc")},
    "log2": lambda x: mp.log(x, 2),
    "exp2": lambda x: mpf(2) ** x,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "pow": lambda x, y: x**y,
}

# The arguments of interest beside those that every function is given: ranges to draw from uniformly.
RANGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-745.2, 709.8), (-745.2, -708.0), (709.7, 709.79), (-0.35, 0.35)],
    "exp2": [(-1075.0, 1024.0), (-1075.0, -1021.0), (1023.9, 1024.01)],
    "expm1": [(-60.0, 60.0), (700.0, 709.8), (0.34, 1.1), (-1.1, -0.34)],
    "sinh": [(-711.0, 711.0), (710.4, 710.5), (0.34, 0.36), (-1.1, 1.1), (15.0, 30.0)],
    "cosh": [(-711.0, 711.0), (710.4, 710.5), (0.34, 0.36), (-1.1, 1.1), (15.0, 30.0)],
    "tanh": [(-20.0, 20.0), (0.15, 0.2), (17.0, 19.5)],
    "log": [(0.7, 1.42), (0.0, 10.0)],
    "log2": [(0.7, 1.42), (0.0, 10.0)],
    "log10": [(0.7, 1.42), (0.0, 10.0)],
    "log1p": [(-1.0, 0.0), (0.4, 0.5), (0.0, 10.0)],
    "arcsinh": [(0.0, 1.0), (0.0, 10.0)],
    "arccosh": [(1.0, 1.1), (1.0, 10.0)],
    "arctanh": [(-1.0, 1.0), (0.1, 0.2), (0.99, 1.0)],
    "arctan": [(0.9, 1.2), (-10.0, 10.0)],
    "arcsin": [(-1.0, 1.0), (0.45, 0.65)],
    "arccos": [(-1.0, 1.0), (0.45, 0.65), (-0.65, -0.45)],
    "cbrt": [(0.1, 10.0)],
    "sqrt": [(0.1, 10.0)],
}
TRIGONOMETRIC = ("sin", "cos", "tan", "sin_fast", "cos_fast", "tan_fast")


@pytest.fixture(scope="module", autouse=True)
def precision() -> Any:
    with mpmath.workprec(130):
        yield


def compiled(name: str | None, dtype: type) -> Any:
    """A loop over pointers that calls the function, as the kernels do; without a name, one that adds 1."""
    return _compiled(name, dtype)


@functools.cache
def _compiled(name: str | None, dtype: type) -> Any:
    function = None if name is None else getattr(vmath, name)
    pointer = types.CPointer(NUMBA[dtype])
    one = dtype(1)

    def unary(x: Any, out: Any, n: int) -> None:
        for i in range(n):
            out[i] = function(x[i])

    def binary(x: Any, y: Any, out: Any, n: int) -> None:
        for i in range(n):
            out[i] = function(x[i], y[i])

    def plain(x: Any, out: Any, n: int) -> None:
        for i in range(n):
            out[i] = x[i] + one

    body = plain if name is None else binary if name in BINARY else unary
    pointers = [pointer] * (3 if name in BINARY else 2)
    signature = types.void(*pointers, types.intp)
    return cfunc(signature, error_model="numpy", fastmath={"contract"})(body)


def call(name: str, *arguments: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dtype = arguments[0].dtype.type
    out = np.empty_like(arguments[0])
    pointers = [array.ctypes.data for array in (*map(np.ascontiguousarray, arguments), out)]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_ssize_t)
    kind(compiled(name, dtype).address)(*pointers, out.size)
    return out


def ulps(got: float, exact: Any, precision: int = 53, lowest: int = -1022) -> float:
    """The error in ulps of the exact value. Infinity counts as the power of two that is too large."""
    if mp.isnan(exact) or math.isnan(got):
        return 0.0 if mp.isnan(exact) and math.isnan(got) else INF
    if mp.isinf(exact):
        return 0.0 if got == float(exact) else INF
    top = 2 - lowest
    if abs(exact) >= mpf(2) ** top:
        return 0.0 if math.isinf(got) and (got > 0) == (exact > 0) else INF
    value = mpf(got) if math.isfinite(got) else math.copysign(1, got) * mpf(2) ** top
    exponent = lowest if exact == 0 else max(mp.frexp(exact)[1] - 1, lowest)
    return float(abs(value - exact) / mpf(2) ** (exponent - precision + 1))


def any_exponent(rng: np.random.Generator, count: int, dtype: type = np.float64) -> np.ndarray[Any, Any]:
    """Random bits: every exponent is as likely, both signs, NaNs and subnormals among them."""
    bits = rng.integers(0, 2**64, count, np.uint64)
    return bits.view(np.float64) if dtype is np.float64 else bits.astype(np.uint32).view(np.float32)


def near_multiples_of_half_pi(every: int) -> list[float]:
    """For many an exponent the floats that come nearest to a multiple of pi / 2, by continued fractions."""
    found = []
    with mpmath.workprec(1400):
        ratio = int(mp.floor(mp.ldexp(2 / mp.pi, 1350)))
    for exponent in range(-52, 972, every):
        above, below = ((ratio << exponent + 52) >> 52) % (1 << 1350), 1 << 1350
        before, denominator = 1, 0
        while below:
            quotient, rest = divmod(above, below)
            above, below = below, rest
            before, denominator = denominator, quotient * denominator + before
            if denominator >= 2**53:
                break
        found.append(math.ldexp(before, exponent))
    return [x for x in found if x > 1e-3]


def arguments(name: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    parts = [
        any_exponent(rng, 300),
        rng.choice([-1.0, 1.0], 200) * 2.0 ** rng.uniform(-70, 10, 200),
        1 + rng.choice([-1.0, 1.0], 100) * 2.0 ** rng.uniform(-53, -2, 100),
        rng.uniform(-10, 10, 100),
        np.array([2.0**k for k in range(-1074, 1024, 61)]),
    ]
    parts += [rng.uniform(low, high, 150) for low, high in RANGES.get(name, [])]
    if name in TRIGONOMETRIC:
        k = np.concatenate([np.arange(-20, 20), rng.integers(-(10**6), 10**6, 100)])
        parts.append(np.array([float(mpf(int(i)) * mp.pi / 2) for i in k]))
        parts.append(parts[-1] * (1 + 2.0 ** rng.uniform(-53, -30, k.size)))
        parts.append(np.array([1e22, 1e300, 2.0**1023 * 1.9, *near_multiples_of_half_pi(every=17)]))
    x = np.concatenate(parts)
    if name.endswith("_fast"):
        x = x[np.abs(x) <= vmath.SIN_FAST_LIMIT]
    if name in ("sqrt", "log", "log2", "log10"):
        x = np.abs(x)
    return np.ascontiguousarray(x[np.isfinite(x)])


def exact(name: str, *values: float) -> Any:
    """The value by mpmath, NaN where it is not real."""
    try:
        result = MPMATH[name](*map(mpf, values))
    except (ValueError, ZeroDivisionError):
        return mpf("nan")
    return result if isinstance(result, mpf) else mpf("nan")


@pytest.mark.parametrize("name", UNARY)
def test_float64_is_within_two_ulps(name: str) -> None:
    x = arguments(name, np.random.default_rng(7))
    domain = {"log1p": x > -1, "arccosh": x >= 1, **dict.fromkeys(("arcsin", "arccos"), abs(x) <= 1)}
    domain["arctanh"] = abs(x) < 1
    x = x[domain.get(name, x != 0) & (x != 0)]
    got = call(name, x)
    errors = [ulps(float(g), exact(name, value)) for value, g in zip(x.tolist(), got, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= LIMITS[np.float64], f"{errors[worst]:.3f} ulp at {x[worst]!r}"
    assert len(errors) > 300


def pairs(name: str, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if name == "arctan2":
        x, y = any_exponent(rng, 300), any_exponent(rng, 300)
        near = rng.uniform(-4, 4, 500)
        x, y = np.append(x, near), np.append(y, near * rng.uniform(-2, 2, 500))
    else:
        # Every base with exponents that spread the results from underflow to overflow, and near the limits.
        x = np.abs(any_exponent(rng, 300))
        x = np.concatenate([x, rng.uniform(0.1, 10, 300), rng.uniform(0.9, 1.13, 600)])
        x = x[np.isfinite(x) & (x > 0) & (x != 1)]
        targets = np.where(rng.random(x.size) < 0.7, rng.uniform(-1080, 1025, x.size), 1023.9)
        y = np.where(rng.random(x.size) < 0.2, np.round(rng.uniform(-9, 9, x.size)), targets / np.log2(x))
    keep = np.isfinite(x) & np.isfinite(y)
    return x[keep], y[keep]


@pytest.mark.parametrize("name", BINARY)
def test_float64_of_two_arguments_is_within_two_ulps(name: str) -> None:
    x, y = pairs(name, np.random.default_rng(8))
    got = call(name, x, y)
    errors = [ulps(float(g), exact(name, a, b)) for a, b, g in zip(x.tolist(), y.tolist(), got, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= LIMITS[np.float64], f"{errors[worst]:.3f} ulp at {x[worst]!r}, {y[worst]!r}"
    assert len(errors) > 500


def ulps32(got: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As `ulps`, for float32 results and float64 values that count as exact."""
    nan = np.isnan(got) & np.isnan(exact)
    over = np.abs(exact) >= 2.0**128
    agree = nan | (over & np.isinf(got) & (np.sign(got) == np.sign(exact)))
    wrong = (np.isnan(got) != np.isnan(exact)) | (over & ~agree)
    wide = got.astype(np.float64)
    value = np.where(np.isinf(wide), np.copysign(2.0**128, wide), wide)
    with np.errstate(invalid="ignore"):
        exponent = np.maximum(np.frexp(np.where(np.isfinite(exact), exact, 1.0))[1] - 1, -126)
        error = np.abs(value - exact) / np.ldexp(1.0, exponent - 23)
    return np.where(agree, 0.0, np.where(wrong, INF, error))


@pytest.mark.parametrize("name", ALL)
def test_float32_is_within_one_and_a_half_ulps(name: str) -> None:
    """Against the float64 functions, which the tests above hold to mpmath."""
    rng = np.random.default_rng(9)
    parts = [any_exponent(rng, 60_000, np.float32), rng.uniform(-10, 10, 20_000).astype(np.float32)]
    parts += [(1 + rng.uniform(-0.5, 0.5, 20_000)).astype(np.float32)]
    parts += [rng.uniform(-104, 89, 20_000).astype(np.float32)]
    x = np.concatenate(parts)
    x[np.isnan(x)] = np.nan  # quiet ones only: converting the others warns
    columns = [x]
    if name in BINARY:
        y = rng.permutation(x)
        if name == "pow":
            half = x.size // 2
            x[:half] = np.abs(x[:half])
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                y[:half] = rng.uniform(-150, 129, half) / np.log2(x[:half].astype(np.float64))
            y[half : half + 5_000] = rng.integers(-20, 20, 5_000)
        columns = [x, y]
    elif name.endswith("_fast"):
        columns = [x[np.abs(x) <= vmath.SIN_FAST_LIMIT]]
    got = call(name, *columns)
    wide = call(name, *(column.astype(np.float64) for column in columns))
    errors = ulps32(got, wide)
    worst = int(np.argmax(errors))
    where = ", ".join(repr(column[worst]) for column in columns)
    assert errors[worst] <= LIMITS[np.float32], f"{errors[worst]:.3f} ulp at {where}"
    zero = got == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(wide[zero]))


ZEROS = [(0.0, 0.0), (-0.0, -0.0)]
TINY = [*ZEROS, (-5e-324, -5e-324), (1e-300, 1e-300)]
EVEN = [(0.0, 1.0), (-0.0, 1.0), (5e-324, 1.0)]
INFINITIES = [(INF, INF), (-INF, -INF)]
UNDEFINED = [(INF, NAN), (-INF, NAN)]
LOG = [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (-5e-324, NAN)]
POWERS = [(float(k), 2.0**k) for k in range(-1074, 1024, 47)]

SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [*EVEN, (INF, INF), (-INF, 0.0), (710.0, INF), (-746.0, 0.0), (-745.0, 5e-324)],
    "exp2": [*EVEN, *POWERS, (INF, INF), (-INF, 0.0), (1024.0, INF), (-1076.0, 0.0)],
    "expm1": [*TINY, (INF, INF), (-INF, -1.0), (-50.0, -1.0), (710.0, INF)],
    "log": LOG,
    "log2": [*LOG, *((power, k) for k, power in POWERS)],
    "log10": [*LOG, *((10.0**k, float(k)) for k in range(23))],
    "log1p": [*TINY, (-1.0, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN)],
    "sin": [*TINY, *UNDEFINED, (PI / 2, 1.0)],
    "cos": [*EVEN, *UNDEFINED, (PI, -1.0), (1e-30, 1.0)],
    "tan": [*TINY, *UNDEFINED],
    "sin_fast": [*TINY, (PI / 2, 1.0)],
    "cos_fast": [*EVEN, (PI, -1.0)],
    "tan_fast": TINY,
    "sinh": [*TINY, *INFINITIES, (-711.0, -INF)],
    "cosh": [*EVEN, (INF, INF), (-INF, INF), (-711.0, INF)],
    "tanh": [*TINY, (INF, 1.0), (-INF, -1.0), (-40.0, -1.0)],
    "arcsinh": [*TINY, *INFINITIES],
    "arccosh": [(1.0, 0.0), (INF, INF), (0.999, NAN), (-1.0, NAN), (-INF, NAN)],
    "arctanh": [*TINY, *UNDEFINED, (1.0, INF), (-1.0, -INF), (1.5, NAN)],
    "arctan": [*TINY, (INF, PI / 2), (-INF, -PI / 2)],
    "arcsin": [*TINY, *UNDEFINED, (1.0, PI / 2), (-1.0, -PI / 2), (1.1, NAN)],
    "arccos": [*UNDEFINED, (1.0, 0.0), (-1.0, PI), (0.0, PI / 2), (-0.0, PI / 2), (1.1, NAN)],
    "sqrt": [*ZEROS, (INF, INF), (-1.0, NAN), (-INF, NAN), (4.0, 2.0)],
    "cbrt": [*ZEROS, *INFINITIES, (-27.0, -3.0), (1e-300, 1e-100)],
}


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def in_float32(value: float) -> bool:
    with np.errstate(over="ignore", under="ignore"):
        return same(float(np.float32(value)), value)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", UNARY)
def test_special_values_are_exact(name: str, dtype: type) -> None:
    cases = [*SPECIAL[name], (NAN, NAN), (-NAN, NAN)]
    if dtype is np.float32:
        # Those that float32 can hold, the results of which do not overflow or underflow sooner.
        cases = [(x, y) for x, y in cases if in_float32(x) and (in_float32(y) or abs(y) in (PI / 2, PI))]
    x, expected = (np.array(column, dtype) for column in zip(*cases, strict=True))
    for argument, got, value in zip(x.tolist(), call(name, x).tolist(), expected.tolist(), strict=True):
        assert same(got, value), f"{name}({argument}) is {value}, not {got}"


GRID = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.0**-149, 1e19, 1e300, INF]
GRID = [*GRID, 2.0**23 + 1, 2.0**24 + 2, 2.0**52 + 0.5, 2.0**52 + 1, 2.0**53]
GRID = [*GRID, *(-value for value in GRID), NAN]


def c_pow(x: float, y: float) -> float:
    """C99's pow: Python raises where that gives an infinity or a NaN."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and math.fmod(y, 2) in (1, -1) else INF
    except ValueError:
        if x == 0:
            return math.copysign(INF, x) if math.fmod(y, 2) in (1, -1) else INF
        return NAN


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(("name", "reference"), [("pow", c_pow), ("arctan2", math.atan2)])
def test_special_pairs_are_exact(name: str, reference: Callable[..., float], dtype: type) -> None:
    grid = [value for value in GRID if dtype is np.float64 or in_float32(value)]
    x, y = (column.ravel() for column in np.meshgrid(np.array(grid, dtype), np.array(grid, dtype)))
    for a, b, got in zip(x.tolist(), y.tolist(), call(name, x, y).tolist(), strict=True):
        with np.errstate(over="ignore", under="ignore"):
            value = float(dtype(reference(a, b)))
        close = value != 0 and math.isfinite(value) and abs(got / value - 1) <= 2 * np.finfo(dtype).eps
        assert same(got, value) or close, f"{name}({a}, {b}) is {value}, not {got}"


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", ALL)
def test_a_scalar_has_the_bits_that_loops_give(name: str, dtype: type) -> None:
    """Whichever lane or remainder loop an element is in, and whether or not the caller allows contraction."""
    rng = np.random.default_rng(3)
    lowest = 1.0 if name == "arccosh" else 0.2
    columns = [rng.uniform(lowest, lowest + 0.7, 37).astype(dtype) for _ in range(2 if name in BINARY else 1)]
    function = getattr(vmath, name)
    alone = njit(lambda *arguments: function(*arguments))
    rows = list(zip(*columns, strict=True))
    assert call(name, *columns).tolist() == [float(alone(*row)) for row in rows]
    (returned,) = (overload.signature.return_type for overload in alone.overloads.values())
    assert returned == NUMBA[dtype]
    if dtype is np.float64:
        assert function(*rows[0]) == alone(*rows[0])


def test_other_arguments() -> None:
    assert vmath.exp(1) == vmath.exp(1.0)
    assert vmath.exp(True) == vmath.exp(1.0)
    assert vmath.pow(2, 0.5) == vmath.pow(2.0, 0.5)
    assert vmath.pow(np.float32(2), 0.5) == vmath.pow(2.0, 0.5)
    with pytest.raises(TypingError, match=r"vmath.exp takes float32 or float64, not complex128"):
        vmath.exp(1j)


def test_blanket_fastmath_in_the_caller_changes_nothing() -> None:
    @njit(fastmath=True, error_model="numpy")
    def loop(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = vmath.log1p(x[i])

    x = np.random.default_rng(1).uniform(-0.9, 3, 200)
    out = np.empty_like(x)
    loop(x, out)
    assert np.array_equal(out, call("log1p", x))


def outside(module: Any) -> set[str]:
    """The symbols that a module expects others to define."""
    symbols = [*module.functions, *module.global_variables]
    return {symbol.name for symbol in symbols if symbol.is_declaration and not symbol.name.startswith("llvm.")}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", ALL)
def test_loops_are_vectorised_and_call_nothing(name: str, dtype: type) -> None:
    text = compiled(name, dtype).inspect_llvm()
    kind = "(double|i64)" if dtype is np.float64 else "(float|i32)"
    assert re.search(rf"store <\d+ x {kind}>", text), "the loop is not vectorised"
    module = llvm.parse_assembly(text)
    assert outside(module) == outside(llvm.parse_assembly(compiled(None, dtype).inspect_llvm()))
    intrinsics = set(re.findall(r"call [^@\n]*@llvm\.(\w+)", text))
    # Each of them is an instruction or two. The last three are LLVM's own finds.
    assert intrinsics <= {"fma", "fabs", "sqrt", "rint", "copysign", "is", "umin", "umax"}


def test_constants() -> None:
    with mpmath.workprec(1500):
        assert int(mp.floor(mp.ldexp(1 / mp.pi, 1280))) == coefficients.INVERSE_PI_BITS
        for table, value in (
            (coefficients.PI, mp.pi),
            (coefficients.LN2, mp.log(2)),
            (coefficients.LOG2E, 1 / mp.log(2)),
            (coefficients.LOG10E, 1 / mp.log(10)),
            (coefficients.POW_LEAD, 2 / mp.log(2)),
        ):
            for bits, precision in ((64, 53), (32, 24)):
                count = len(table[bits])
                assert abs(mp.fsum(table[bits]) - value) < value * mpf(2) ** (-precision * count)
        for centre, logarithm in zip(coefficients.POW_CENTRES[64], coefficients.POW_CENTRE_LOGS[64], strict=True):
            assert abs(mp.log(centre, 2) - logarithm) < mpf(2) ** -69
            assert math.ldexp(logarithm, 40).is_integer()
