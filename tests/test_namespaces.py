"""What `jitgrad` and `jitgrad.numpy` have to offer, and what importing them costs."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
import jitgrad.numpy as jnp
from jitgrad.core.op import NAMESPACE


def in_new_process(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout.strip()


def test_import_leaves_out_what_is_slow() -> None:
    program = (
        "import sys, jitgrad, jitgrad.numpy\n"
        "print([name for name in ('numba', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    assert in_new_process(program) == "[]"


def test_tensor_is_the_function() -> None:
    assert inspect.isfunction(jg.tensor)
    assert jg.tensor([1.0]).tolist() == [1.0]


@pytest.mark.parametrize(
    "program",
    [
        "import jitgrad.tensor.printing as p; import jitgrad as j; print(p is not None, callable(j.tensor))",
        "import jitgrad; import jitgrad.tensor.printing; print(True, callable(jitgrad.tensor))",
        "from jitgrad.tensor import printing as p; from jitgrad import tensor; print(p is not None, callable(tensor))",
        "from jitgrad.tensor.printing import format_tensor; from jitgrad import tensor; print(True, callable(tensor))",
        "from jitgrad.tensor.creation import tensor; import jitgrad; print(tensor is jitgrad.tensor, True)",
    ],
)
def test_package_named_tensor_is_imported_from_all_the_same(program: str) -> None:
    assert in_new_process(program) == "True True"


def test_package_named_tensor_in_this_process() -> None:
    import jitgrad.tensor.printing as printing

    assert importlib.import_module("jitgrad.tensor.printing") is printing
    assert jg.tensor.printing is printing  # type: ignore[attr-defined]
    assert inspect.isfunction(jg.tensor)


def test_public_names_are_there() -> None:
    for name in jg.__all__:
        assert getattr(jg, name) is not None
    assert set(jg.__all__) <= set(dir(jg))
    assert sorted(jg.__all__) == jg.__all__


def test_public_names_of_autograd_are_there() -> None:
    for name in jg.autograd.__all__:
        assert callable(getattr(jg.autograd, name))
    assert set(jg.autograd.__all__) <= set(dir(jg.autograd))
    for name in ("gradcheck", "gradgradcheck"):
        assert getattr(jg.autograd, name) is getattr(jg.testing, name)
    x = jg.tensor([1.0, 2.0], requires_grad=True)
    assert jg.autograd.gradcheck(lambda x: x * x.exp(), x)
    assert jg.autograd.gradgradcheck(lambda x: x * x.exp(), x)
    assert not jg.autograd.gradcheck(lambda x: x * x.detach(), x, raise_exception=False)


@pytest.mark.parametrize(
    "program",
    [
        "from jitgrad.autograd import gradcheck, gradgradcheck",
        "from jitgrad.autograd import *; gradcheck, gradgradcheck",
        "import jitgrad.testing; from jitgrad.autograd import gradcheck",
    ],
)
def test_checks_of_gradients_are_imported_from_autograd(program: str) -> None:
    assert in_new_process(f"{program}; print(callable(gradcheck))") == "True"


@pytest.mark.parametrize("name", ["exp", "sin", "dot", "stack", "sum", "where", "matmul", "tanh", "concatenate"])
def test_functions_are_at_the_top_too(name: str) -> None:
    assert getattr(jg, name) is getattr(jnp, name)
    assert name in dir(jg)


@pytest.mark.parametrize("name", sorted(NAMESPACE))
def test_every_recorded_function_can_be_found(name: str) -> None:
    assert hasattr(jg, name)
    assert hasattr(jnp, name) or hasattr(jnp.linalg, name)


def test_own_names_win_over_numpys() -> None:
    assert type(jg.ones(2)) is jg.Tensor
    assert type(jg.arange(2)) is jg.Tensor
    assert type(jnp.ones(2)) is np.ndarray


def test_dtypes() -> None:
    assert jg.float64 is jg.double is np.float64
    assert jg.float32 is jg.float is np.float32
    assert jg.int64 is jg.long is np.int64
    assert jg.bool is np.bool_
    assert jg.ones(2, dtype=jg.float32).dtype == np.float32


def test_constants_and_dtypes_of_numpy() -> None:
    assert jnp.pi == np.pi
    assert jnp.newaxis is None
    assert np.isnan(jnp.nan)
    assert jnp.float32 is np.float32
    assert jnp.finfo(jnp.float64).eps == np.finfo(float).eps


def test_norm_is_in_linalg() -> None:
    assert "norm" in dir(jnp.linalg)
    assert jnp.linalg.norm(np.array([3.0, 4.0])) == 5.0
    assert jg.linalg is jnp.linalg
    assert not hasattr(jnp, "norm")
    x = jg.tensor([3.0, 4.0], requires_grad=True)
    jnp.linalg.norm(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "name", "match"),
    [
        (jnp, "busday_count", r"does not have 'busday_count'.*call numpy\.busday_count"),
        (jnp, "no_such_name", "has no attribute 'no_such_name'"),
        (jnp.linalg, "no_such_name", "has no attribute 'no_such_name'"),
        (jg, "no_such_name", "module 'jitgrad' has no attribute 'no_such_name'"),
        (jg.autograd, "no_such_name", r"module 'jitgrad\.autograd' has no attribute 'no_such_name'"),
    ],
)
def test_names_that_are_missing(module: Any, name: str, match: str) -> None:
    with pytest.raises(AttributeError, match=match):
        getattr(module, name)


def test_star_import() -> None:
    namespace: dict[str, Any] = {}
    exec("from jitgrad.numpy import *", namespace)
    assert {"sin", "pi", "linalg", "float64", "sum"} <= set(namespace)


def test_dir_lists_what_is_there() -> None:
    for name in dir(jnp):
        assert hasattr(jnp, name), name
    assert {"sin", "pi", "linalg"} <= set(dir(jnp))
