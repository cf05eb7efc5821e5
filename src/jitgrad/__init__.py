"""Microsecond gradients of ordinary NumPy code, on a CPU."""

from __future__ import annotations

import sys
from typing import Any

from jitgrad import autograd, errors, numpy, ops
from jitgrad.core.op import NAMESPACE
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.threads import get_num_threads, set_num_threads
from jitgrad.numpy import linalg
from jitgrad.tape import Tape, trace
from jitgrad.tensor.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    manual_seed,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from jitgrad.tensor.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from jitgrad.tensor.printing import get_printoptions, printoptions, set_printoptions
from jitgrad.testing import check_grads
from jitgrad.transforms.derivatives import elementwise_grad, grad, jacobian, jvp, stop_gradient, value_and_grad, vjp
from jitgrad.transforms.jit import jit
from jitgrad.transforms.second import hessian, hvp
from jitgrad.trees import register_dataclass

__all__ = [
    "Tape",
    "Tensor",
    "arange",
    "as_tensor",
    "autograd",
    "check_grads",
    "elementwise_grad",
    "empty",
    "empty_like",
    "enable_grad",
    "errors",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "get_num_threads",
    "get_printoptions",
    "grad",
    "hessian",
    "hvp",
    "inference_mode",
    "is_grad_enabled",
    "jacobian",
    "jit",
    "jvp",
    "linalg",
    "linspace",
    "manual_seed",
    "no_grad",
    "numpy",
    "ones",
    "ones_like",
    "ops",
    "printoptions",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "register_dataclass",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "stop_gradient",
    "tensor",
    "trace",
    "value_and_grad",
    "vjp",
    "zeros",
    "zeros_like",
]

# `jitgrad.tensor` is the function, as in PyTorch, and hides the package of that name. What is in the package is found
# through the function, so that `import jitgrad.tensor.printing as printing` works.
for _name in sys.modules["jitgrad.tensor"].__all__:
    setattr(tensor, _name, sys.modules[f"jitgrad.tensor.{_name}"])

_DTYPES = {
    **{name: name for name in ["bool", "complex64", "complex128", "float16", "float32", "float64"]},
    **{name: name for name in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]},
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
}


def __getattr__(name: str) -> Any:
    """Find NumPy's functions (``jitgrad.exp``, ``jitgrad.stack``) and dtypes (``jitgrad.float64``)."""
    found = NAMESPACE.get(name)
    if found is None and name in _DTYPES:
        found = getattr(numpy, _DTYPES[name])
    if found is None:
        raise AttributeError(f"module 'jitgrad' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *NAMESPACE, *_DTYPES})
