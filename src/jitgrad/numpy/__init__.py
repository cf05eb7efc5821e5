"""NumPy's namespace, for arrays and tensors alike: ``import jitgrad.numpy as jnp``.

The functions are those that the ops answer for, under NumPy's names; constants, dtypes and what concerns these are
NumPy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import ops
from jitgrad.core.op import NAMESPACE
from jitgrad.numpy import linalg

_OWN = """
bool bool_ complex128 complex64 dtype e errstate euler_gamma finfo float16 float32 float64 iinfo inexact inf
int16 int32 int64 int8 integer intp isdtype issubdtype nan ndarray newaxis number pi promote_types random
result_type uint16 uint32 uint64 uint8
"""


def _recorded() -> list[str]:
    """Names of the functions that ops answer for, without those that NumPy has in ``linalg`` only."""
    return [name for name in NAMESPACE if hasattr(np, name) or not hasattr(np.linalg, name)]


globals().update({name: getattr(np, name) for name in _OWN.split()})
globals().update({name: NAMESPACE[name] for name in _recorded()})

__all__ = ["linalg", *_OWN.split(), *_recorded()]


def __getattr__(name: str) -> Any:
    if name in _recorded():  # of an op that was declared later
        return NAMESPACE[name]
    if hasattr(np, name):
        raise AttributeError(
            f"jitgrad.numpy does not have {name!r}, whose derivative is not known to jitgrad. On arrays that no "
            f"gradient flows through, call numpy.{name}; otherwise write it in terms of the functions that are here."
        )
    raise AttributeError(f"module 'jitgrad.numpy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_recorded()})


del ops
