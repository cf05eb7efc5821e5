"""``jitgrad.numpy.linalg``: the functions of ``numpy.linalg`` that can be recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import ops
from jitgrad.core.op import FUNCTIONS

_names = [name for name in np.linalg.__all__ if getattr(np.linalg, name) in FUNCTIONS]
globals().update({name: FUNCTIONS[getattr(np.linalg, name)] for name in _names})
LinAlgError = np.linalg.LinAlgError

__all__ = [*_names, "LinAlgError"]


def __getattr__(name: str) -> Any:
    if name in np.linalg.__all__:
        raise AttributeError(
            f"jitgrad.numpy.linalg does not have {name!r}, whose derivative is not known to jitgrad. On arrays that "
            "no gradient flows through, call numpy.linalg's."
        )
    raise AttributeError(f"module 'jitgrad.numpy.linalg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


del ops
