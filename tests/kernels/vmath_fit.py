"""Makes `src/jitgrad/kernels/vmath/coefficients.py`: near-minimax polynomials and split constants.

Run ``python tests/kernels/vmath_fit.py > src/jitgrad/kernels/vmath/coefficients.py`` (needs mpmath; half a
minute; the errors of the fits go to stderr), then ``ruff format`` on it. Method: least squares of the
relative error on Chebyshev points, in 50-digit arithmetic, which comes within a bit of the minimax
polynomial. After each fit the lowest coefficient is rounded to the format and the others are fitted again to
what is left, so that the later ones make up for its rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from mpmath import mp, mpf

mp.dps = 50

Real = Any
POINTS = 64


def rounded(value: Real, bits: int) -> Real:
    """`value` rounded to float32 or float64."""
    if bits == 32:
        mantissa, exponent = mp.frexp(value)
        return mp.nint(mp.ldexp(mantissa, 24)) * mp.ldexp(mpf(1), int(exponent) - 24)
    return mpf(float(value))


def chebyshev(target: Sequence[Real], weight: Sequence[Real], x: Sequence[Real], order: int) -> list[Real]:
    """The polynomial of least weighted squares on Chebyshev points, which is close to the minimax one."""
    matrix = mp.matrix(len(x), order)
    right = mp.matrix(len(x), 1)
    for row, node in enumerate(x):
        power = weight[row]
        right[row] = target[row] * power
        for column in range(order):
            matrix[row, column] = power
            power *= node
    solution, _ = mp.qr_solve(matrix, right)
    return [solution[i] for i in range(order)]


def fit(
    function: Callable[[Real], Real],
    weight: Callable[[Real], Real],
    low: Real,
    high: Real,
    orders: dict[int, int],
    fixed: Sequence[Real] = (),
) -> dict[int, tuple[float, ...]]:
    """Fit with `orders` coefficients (by the width of the format) of which the `fixed` ones come first."""
    low, high = mpf(low), mpf(high)
    x = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + 0.5) / POINTS) for i in range(POINTS)]
    values = [function(node) for node in x]
    weights = [weight(node) for node in x]
    result = {}
    for bits, order in orders.items():
        left = list(values)
        scale = list(weights)
        stored: list[Real] = []
        for place in range(order):
            if place < len(fixed):
                coefficient = rounded(mpf(fixed[place]), bits)
            else:
                coefficient = rounded(chebyshev(left, scale, x, order - place)[0], bits)
            stored.append(coefficient)
            left = [(value - coefficient) / node for value, node in zip(left, x, strict=True)]
            scale = [abs(w * node) for w, node in zip(scale, x, strict=True)]
        worst = max(
            abs((mp.polyval(stored[::-1], node) - value) * w) for node, value, w in zip(x, values, weights, strict=True)
        )
        print(f"  float{bits}: {order} coefficients, error 2^{float(mp.log(worst, 2)):.1f}", file=sys.stderr)
        result[bits] = tuple(float(c) for c in stored)
    return result


def rational(
    function: Callable[[Real], Real], low: Real, high: Real, orders: tuple[int, int]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """``P/Q`` near `function` in relative error, both with constant term 1, by iterated linear least squares.

    The weight of each turn is the denominator of the one before (Sanathanan and Koerner, 1963). The numerator
    is then fitted once more, to the function times the rounded denominator.
    """
    count, below = orders
    x = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + 0.5) / POINTS) for i in range(POINTS)]
    values = [function(node) for node in x]
    bottom: list[Real] = [mpf(1)] * POINTS
    for _ in range(6):
        matrix = mp.matrix(POINTS, count + below)
        right = mp.matrix(POINTS, 1)
        for row, (node, value) in enumerate(zip(x, values, strict=True)):
            weight = 1 / (value * bottom[row])
            for column in range(count):
                matrix[row, column] = weight * node ** (column + 1)
            for column in range(below):
                matrix[row, count + column] = -weight * value * node ** (column + 1)
            right[row] = weight * (value - 1)
        solution, _ = mp.qr_solve(matrix, right)
        lower = [rounded(solution[count + i], 64) for i in range(below)]
        bottom = [1 + node * mp.polyval(lower[::-1], node) for node in x]

    def numerator(node: Real) -> Real:
        return function(node) * (1 + node * mp.polyval(lower[::-1], node))

    upper = fit(
        lambda node: (numerator(node) - 1) / node,
        lambda node: abs(node / numerator(node)),
        low,
        high,
        {64: count},
    )
    return upper[64], tuple(float(c) for c in lower)


def pieces(value: Real, count: int, bits: int) -> tuple[float, ...]:
    """`value` as an unevaluated sum of `count` numbers of the format."""
    result = []
    for _ in range(count):
        result.append(rounded(value, bits))
        value -= result[-1]
    return tuple(float(piece) for piece in result)


def accurate_power(near: float) -> tuple[float, float]:
    """A float c and its base 2 logarithm, which is a multiple of ``2**-40`` to within ``2**-69``.

    Found by trying the multiples nearest to `near` (Gal's accurate tables, 1986).
    """
    step, near = mpf(2) ** -40, mp.nint(near * 2.0**40) / 2**40
    for place in range(1 << 18):
        logarithm = near + (place + 1) // 2 * (-1) ** place * step
        centre = mpf(float(mpf(2) ** logarithm))
        if abs(mp.log(centre, 2) - logarithm) < mpf(2) ** -69:
            return float(centre), float(logarithm)
    raise ValueError(f"no accurate power near {near}")


def main() -> None:
    """Write the module."""
    log2, pi = mp.log(2), mp.pi
    half = log2 / 2 * mpf("1.0005")
    atanh_range = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mpf("1.0001")
    quarter = (pi / 4 * mpf("1.002")) ** 2

    def root(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
        return lambda z: function(mp.sqrt(z)) / mp.sqrt(z)

    def logs(z: Real) -> Real:
        return 2 * root(mp.atanh)(z)

    fits = {
        "EXP": fit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: abs(r**2 / mp.exp(r)), -half, half, {64: 10, 32: 5}),
        "EXPM1": fit(
            lambda r: (mp.expm1(r) - r) / r**2,
            lambda r: abs(r**2 / mp.expm1(r)),
            -half,
            half,
            {64: 11, 32: 6},
        ),
        "EXP2": fit(
            lambda r: mp.expm1(r * log2) / r,
            lambda r: abs(r) / 2**r,
            -mpf("0.5005"),
            mpf("0.5005"),
            {64: 11, 32: 6},
        ),
        "SINH": fit(lambda z: (root(mp.sinh)(z) - 1) / z, lambda z: z / root(mp.sinh)(z), 0, half**2, {64: 5, 32: 3}),
        "COSH": fit(
            lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z,
            lambda z: z,
            0,
            half**2,
            {64: 5, 32: 3},
            fixed=[mpf(1) / 2],
        ),
        "LOG": fit(lambda z: (logs(z) - 2) / z, lambda z: z / 2, 0, atanh_range, {64: 7, 32: 3}),
        "SIN": fit(
            lambda z: (root(mp.sin)(z) - 1) / z,
            lambda z: z / root(mp.sin)(z),
            0,
            quarter,
            {64: 6},
        ),
        "COS": fit(
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2 / mp.cos(mp.sqrt(z)),
            0,
            quarter,
            {64: 6},
        ),
        "SINPI": fit(
            lambda z: root(lambda t: mp.sin(pi * t))(z),
            lambda z: 1 / root(lambda t: mp.sin(pi * t))(z),
            0,
            mpf("0.501") ** 2,
            {64: 6},
        ),
        "CBRT": fit(
            lambda m: m ** (-mpf(1) / 3),
            lambda m: m ** (mpf(1) / 3),
            mpf("0.3535"),
            mpf("2.8285"),
            {64: 6, 32: 5},
        ),
        "ARCSIN": fit(
            lambda z: (root(mp.asin)(z) - 1) / z,
            lambda z: z / root(mp.asin)(z),
            0,
            mpf(1) / 4,
            {64: 12, 32: 6},
        ),
        "ARCTAN": fit(lambda z: (root(mp.atan)(z) - 1) / z, lambda z: z / root(mp.atan)(z), 0, 1, {64: 20, 32: 10}),
    }

    # log2(m / c) = s (C0 + z q(z)) with s = (m - c) / (m + c) and z = s**2, m / c within 2**(1/8) of one
    def log2s(z: Real) -> Real:
        return logs(z) / log2

    eighth = mpf(2) ** (mpf(1) / 8)
    fits["POW_LOG2"] = fit(
        lambda z: (log2s(z) - 2 / log2) / z,
        lambda z: z * log2 / 2,
        0,
        ((eighth - 1) / (eighth + 1) * mpf("1.0001")) ** 2,
        {64: 5},
    )
    centres = [accurate_power(quarters / 4) for quarters in range(4)]
    fits["POW_CENTRES"] = {64: tuple(centre for centre, _ in centres)}
    fits["POW_CENTRE_LOGS"] = {64: tuple(logarithm for _, logarithm in centres)}
    fits["POW_LOG2_SHORT"] = fit(log2s, lambda z: log2 / 2, 0, atanh_range, {64: 6})
    fits["POW_EXP2_SHORT"] = fit(
        lambda r: mp.expm1(r * log2) / r, lambda r: abs(r), -mpf("0.5005"), mpf("0.5005"), {64: 7}
    )
    tan = {
        64: rational(root(mp.tan), mpf(0), quarter, (3, 4)),
        32: rational(root(mp.tan), mpf(0), quarter, (2, 2)),
    }
    fits["TAN_NUMERATOR"] = {bits: pair[0] for bits, pair in tan.items()}
    fits["TAN_DENOMINATOR"] = {bits: pair[1] for bits, pair in tan.items()}
    constants = {
        "LN2": (log2, 2),
        "LOG2E": (1 / log2, 2),
        "LOG10E": (1 / mp.log(10), 2),
        "LOG10_2": (log2 / mp.log(10), 2),
        "POW_LEAD": (2 / log2, 2),
        "PI": (pi, 3),
        "INVERSE_PI": (1 / pi, 3),
    }
    for name, (value, count) in constants.items():
        fits[name] = {bits: pieces(value, count, bits) for bits in (64, 32)}
    print('"""Numbers made by `tests/kernels/vmath_fit.py`, by the width of the format. Do not edit."""')
    print()
    print("# floor(2**1280 / pi)")
    with mp.workprec(1400):
        digits = f"{int(mp.floor(mp.ldexp(1 / mp.pi, 1280))):x}"
    print("INVERSE_PI_BITS = int(")
    for start in range(0, len(digits), 80):
        print(f'    "{digits[start : start + 80]}"')
    print("    ,16,\n)")
    print()
    for name, table in fits.items():
        print(f"{name}: dict[int, tuple[float, ...]] = {{")
        for bits, numbers in table.items():
            print(f"    {bits}: (")
            for number in numbers:
                print(f"        {number!r},")
            print("    ),")
        print("}")


if __name__ == "__main__":
    main()
