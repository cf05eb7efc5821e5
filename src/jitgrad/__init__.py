"""Microsecond gradients of ordinary NumPy code, on a CPU."""

from __future__ import annotations

from jitgrad import ops
from jitgrad.core.tensor import Tensor
from jitgrad.transforms.derivatives import elementwise_grad, grad, jacobian, jvp, stop_gradient, value_and_grad, vjp
from jitgrad.transforms.second import hessian, hvp

__all__ = [
    "Tensor",
    "elementwise_grad",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "ops",
    "stop_gradient",
    "value_and_grad",
    "vjp",
]
