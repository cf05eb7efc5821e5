"""Sample arguments that an op's declaration carries, for the law tests and the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core.op import Samples

__all__ = ["uniform"]

_SHAPES = ((3, 4), (), (5,))


def uniform(*ranges: tuple[float, float], **params: Any) -> Samples:
    """Return samples whose operands are uniform in the given ranges, alone and broadcast against each other."""

    def samples(rng: np.random.Generator) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        for shape in _SHAPES:
            yield tuple(rng.uniform(*interval, size=shape) for interval in ranges), params
        if len(ranges) > 1:
            shapes = ((2, 1, 4), (3, 1), ())
            for turn in range(len(ranges)):
                rotated = shapes[turn:] + shapes[:turn]
                yield tuple(rng.uniform(*r, size=shape) for r, shape in zip(ranges, rotated, strict=False)), params

    return samples
