"""Indices of every kind, for an array of shape (4, 3, 5): what the tests of reading and of writing share."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["INDICES", "MASK", "SHAPE", "X"]

SHAPE = (4, 3, 5)
X = np.arange(60.0).reshape(SHAPE) + 0.5
MASK = X > 20
INDICES: list[Any] = [
    0,
    -1,
    (1, 2),
    (1, -2, 3),
    slice(None),
    slice(1, None, 2),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(2, 2),
    ...,
    None,
    (..., 0),
    (None, 1, None, ..., None),
    (slice(1, 3), ..., slice(None, None, -2)),
    (),
    np.int64(2),
    np.uint8(1),
    np.array(2),
    (np.array(1), slice(None)),
    [0, 2],
    [],
    [-1, -1, 0],
    [[0, 1], [2, 2]],
    np.array([0, 3, 3]),
    np.array([], dtype=int),
    np.array([[1], [2]], dtype=np.int8),
    ([0, 1], [2, 2]),
    ([0, 1], [2, 2], [4, 4]),
    ([[0], [1]], [1, 2]),
    (0, [1, 2]),
    ([1, 2], 0),
    (0, slice(None), [1, 2]),
    ([1, 2], slice(None), 0),
    ([1, 2], slice(None), [0, 4]),
    ([1, 2], None, [0, 2]),
    (slice(None), [2, 0]),
    (slice(None, None, -1), [2, 0], slice(1, 4)),
    (..., [0, 0]),
    (None, [3, 1]),
    MASK,
    MASK[:, :, 0],
    MASK[:, 0, 0],
    np.zeros(SHAPE, dtype=bool),
    (MASK[:, 0, 0], 1),
    (MASK[:, 0, 0], slice(None), [1]),
    (slice(None), MASK[0]),
    (MASK[:, 0, 0], slice(1, 3), None),
    ([True, False, True, False],),
    [True, False, True, False],
    True,
    False,
    np.True_,
    np.array(True),
    (True, 0),
    (slice(None), True, [0, 2]),
    (False, slice(1, 2)),
    range(3),
    np.ix_([0, 2], [1, 1], [4, 0]),
    np.ix_([True, False, False, True], [2, 0]),
]
