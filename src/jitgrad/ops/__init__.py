"""What can be recorded, one file a family."""

from jitgrad.ops import (
    arithmetic,
    casting,
    comparisons,
    creation,
    exponential,
    hyperbolic,
    indexing,
    joining,
    powers,
    reductions,
    rounding,
    selection,
    shaping,
    trigonometric,
    views,
    writing,
)

__all__ = [
    "arithmetic",
    "casting",
    "comparisons",
    "creation",
    "exponential",
    "hyperbolic",
    "indexing",
    "joining",
    "powers",
    "reductions",
    "rounding",
    "selection",
    "shaping",
    "trigonometric",
    "views",
    "writing",
]
