"""Every op of the registry on its first sample: forward on arrays, and recorded with its reverse replay."""

import numpy as np

import jitgrad as jg
from jitgrad.core.op import REGISTRY


def first_sample(op):
    """Return the arguments and parameters of an op's first sample; an op without one is an error."""
    if op.samples is None:
        raise ValueError(f"the op {op.name} has no samples, so it has no benchmark")
    for args, params in op.samples(np.random.default_rng(0)):
        return args, params
    raise ValueError(f"the op {op.name} yields no samples, so it has no benchmark")


SAMPLES = {name: first_sample(op) for name, op in REGISTRY.items()}


def is_float(value):
    """Tell whether a gradient can be asked for."""
    return np.asarray(value).dtype.kind == "f"


class Op:
    """One op at a time."""

    params = sorted(SAMPLES)
    param_names = ("op",)

    def setup(self, name):
        op = REGISTRY[name]
        args, params = SAMPLES[name]
        self.forward = lambda: op(*args, **params)
        operands = op.operands or ("xs",) * len(args)
        argnums = tuple(k for k, arg in enumerate(args) if is_float(arg) and operands[k] in op.rules)
        out = self.forward()
        bars = [np.ones(np.shape(o)) for o in (out if isinstance(out, tuple) else (out,))]
        if not argnums or not all(is_float(o) for o in (out if isinstance(out, tuple) else (out,))):
            self.gradient = self.forward
            return

        def paired(*chosen):
            replaced = list(args)
            for k, value in zip(argnums, chosen, strict=True):
                replaced[k] = value
            results = op(*replaced, **params)
            results = results if isinstance(results, tuple) else (results,)
            return sum(jg.numpy.sum(result * bar) for result, bar in zip(results, bars, strict=True))

        gradient = jg.value_and_grad(paired, tuple(range(len(argnums))))
        chosen = [np.asarray(args[k], dtype=float) for k in argnums]
        self.gradient = lambda: gradient(*chosen)
        self.gradient()

    def time_forward(self, name):
        self.forward()

    def time_value_and_grad(self, name):
        self.gradient()
