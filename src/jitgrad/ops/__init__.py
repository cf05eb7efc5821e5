"""What can be recorded, one file a family."""

from jitgrad.ops import (
    arithmetic,
    casting,
    comparisons,
    exponential,
    hyperbolic,
    powers,
    reductions,
    rounding,
    selection,
    shaping,
    trigonometric,
)

__all__ = [
    "arithmetic",
    "casting",
    "comparisons",
    "exponential",
    "hyperbolic",
    "powers",
    "reductions",
    "rounding",
    "selection",
    "shaping",
    "trigonometric",
]
