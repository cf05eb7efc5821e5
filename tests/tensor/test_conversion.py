"""A tensor as a number, an array, a text and a copy."""

from __future__ import annotations

import copy
import math
import re
import warnings
from collections.abc import Callable
from math import sin
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


def leaf(*values: float) -> Any:
    return jg.tensor(list(values), requires_grad=True)


# -- numbers --------------------------------------------------------------------------------------------------


def test_item() -> None:
    assert jg.tensor([[2.5]]).item() == 2.5
    assert type(jg.tensor(2).item()) is int
    assert type(jg.tensor(True).item()) is bool
    assert leaf(2.0).item() == 2.0
    with pytest.raises(errors.ItemError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        leaf(1.0, 2.0).item()


def test_python_numbers() -> None:
    assert float(jg.tensor(2.5)) == 2.5
    assert int(jg.tensor(2.7)) == 2
    assert complex(jg.tensor(1 + 2j)) == 1 + 2j
    assert math.sin(jg.tensor(0.5)) == math.sin(0.5)
    for convert in (float, int, complex):
        with pytest.raises(errors.ItemError):
            convert(jg.ones(2))
    with pytest.raises(TypeError):
        float(jg.tensor(1 + 2j))


ENDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "float": (lambda x: float(x), "item()"),
    "float of an expression": (lambda x: float(x * x + 1.0), "item()"),
    "complex": (lambda x: complex(x), "item()"),
    "math.sin": (lambda x: math.sin(x), "use numpy.sin."),
    "nested": (lambda x: math.sqrt(math.exp(x)), "use numpy.exp."),
    "sin by itself": (lambda x: sin(x), "use numpy.sin."),
    "second argument": (lambda x: math.atan2(1.0, x), "use numpy.atan2."),
    "keyword arguments": (lambda x: math.hypot(*(x, 1.0)), "use numpy.hypot."),
    "several lines": (
        lambda x: math.hypot(
            1.0,
            x,
        ),
        "use numpy.hypot.",
    ),
    "what NumPy has not": (lambda x: math.erf(x), "item()"),
    "format": (lambda x: "%.3f" % x, "item()"),  # noqa: UP031
    "fill": (lambda x: np.zeros(2).fill(x), "item()"),
    "fromiter": (lambda x: np.fromiter([x], float), "item()"),
    "sum": (lambda x: math.fsum([x, x]), "item()"),
}


@pytest.mark.parametrize(("use", "advice"), ENDS.values(), ids=ENDS)
def test_numbers_through_which_no_gradient_flows_are_told(use: Callable[[Any], Any], advice: str) -> None:
    """PyTorch's words, once a line; the value is right all the same."""
    expected = use(1.25)
    words = re.escape("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.")

    def told(x: Any) -> Any:
        with pytest.warns(errors.ScalarConversionWarning, match=words) as caught:
            assert use(x) == expected
        lines = use.__code__.co_firstlineno, use.__code__.co_firstlineno + 5
        assert caught[0].filename == __file__
        assert lines[0] <= caught[0].lineno <= lines[1]
        assert advice in str(caught[0].message)
        with warnings.catch_warnings(record=True) as again:
            warnings.simplefilter("default")
            for _ in range(3):
                use(x)
        assert len(again) <= 2  # one for each place
        return x * 1.0

    x = jg.tensor(1.25, requires_grad=True)
    for _ in range(30):  # the interpreter specialises what runs often
        told(x)
    told(x * 1.0)
    jg.grad(told)(1.25)
    jg.grad(lambda x: jg.grad(told)(x))(1.25)
    jg.jvp(told, (1.25,), (1.0,))
    jg.jit(jg.grad(told))(1.25)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: bool(x),
        lambda x: int(x),
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x > 1.0,
        lambda x: x if 0.0 < x < 2.0 else -x,
        lambda x: max(x, 1.0),
        lambda x: f"{x:.3f} {x}",
        lambda x: np.sin(x),
        lambda x: float(jg.stop_gradient(x)),
        lambda x: math.sin(jg.stop_gradient(x * x)),
        lambda x: float(np.floor(jg.stop_gradient(x)) + 1.0),
        lambda x: math.floor(x),
        lambda x: round(x),
        lambda x: float(x.detach()),
    ],
)
def test_what_cannot_but_be_meant_says_nothing(use: Callable[[Any], Any]) -> None:
    x = jg.tensor(1.25, requires_grad=True)
    for tensor in (x, x * 1.0):
        use(tensor)
        with jg.no_grad():
            use(tensor)
            float(tensor)
    jg.grad(lambda x: (use(x), x * 1.0)[1])(1.25)
    jg.jit(jg.grad(lambda x: (use(x), x * 1.0)[1]))(1.25)


def test_compiled_functions_may_use_numbers_that_are_not_differentiated() -> None:
    f = jg.jit(lambda x, t: jg.grad(lambda x: x * x if float(t) > 0 else x)(x) * math.exp(x))
    assert f(2.0, 1.0) == 4.0 * math.exp(2.0)
    assert f(2.0, -1.0) == math.exp(2.0)


def test_loops_may_look_at_numbers() -> None:
    def root(x: Any) -> Any:
        y = x
        while float(abs(y * y - x)) > 1e-12:
            y = 0.5 * (y + x / y)
        return y

    with pytest.warns(errors.ScalarConversionWarning):
        assert abs(jg.grad(root)(4.0) - 0.25) < 1e-12


def test_index() -> None:
    values = ["a", "b", "c"]
    assert values[jg.tensor(1)] == "b"
    assert values[jg.tensor([2])] == "c"
    assert values[jg.tensor(True)] == "b"
    assert list(range(jg.tensor(2))) == [0, 1]
    for wrong in (jg.tensor(1.0), jg.tensor([1, 2])):
        with pytest.raises(errors.DtypeError, match="only integer tensors of a single element can be converted"):
            values[wrong]


def test_truth() -> None:
    assert jg.tensor([[1.0]])
    assert not jg.tensor(0)
    with pytest.raises(errors.ItemError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(jg.ones(2))
    with pytest.raises(errors.ItemError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(jg.ones(0))


def test_tolist() -> None:
    assert jg.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert leaf(1.0).tolist() == [1.0]
    assert jg.tensor(3.0).tolist() == 3.0


# -- arrays ---------------------------------------------------------------------------------------------------


def test_numpy_shares_memory() -> None:
    c = jg.ones(2)
    a = c.numpy()
    a[0] = 5.0
    assert c.tolist() == [5.0, 1.0]
    assert type(a) is np.ndarray


def test_numpy_of_what_requires_a_gradient() -> None:
    x = leaf(1.0, 2.0)
    for compute in (lambda: x.numpy(), lambda: (x * 2).numpy(), lambda: np.asarray(x), lambda: np.array([x, x])):
        with pytest.raises(errors.NumpyConversionError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
            compute()
    assert x.numpy(force=True).tolist() == [1.0, 2.0]
    assert x.detach().numpy().tolist() == [1.0, 2.0]
    with jg.no_grad():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1.0, 2.0]


def test_traced_value_cannot_be_written_to_an_array() -> None:
    def f(x: Any) -> Any:
        out = np.zeros(2)
        out[:] = x
        return out.sum()

    with pytest.raises(errors.NumpyConversionError):
        jg.grad(f)(np.ones(2))


def test_asarray() -> None:
    c = jg.ones(2)
    assert np.asarray(c) is c._value
    assert np.array(c) is not c._value
    assert np.asarray(c, dtype=np.float32).dtype == np.float32
    assert np.asarray(c, copy=False) is c._value
    with pytest.raises(ValueError, match="copy"):
        np.asarray(c, dtype=np.float32, copy=False)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float", np.float32),
        ("double", np.float64),
        ("half", np.float16),
        ("int", np.int32),
        ("long", np.int64),
        ("short", np.int16),
        ("bool", np.bool_),
        ("cdouble", np.complex128),
    ],
)
def test_other_dtypes(name: str, dtype: type) -> None:
    t = getattr(jg.tensor([0.0, 1.0]), name)()
    assert t.dtype == dtype
    assert t.tolist() == np.array([0.0, 1.0]).astype(dtype).tolist()


def test_other_dtypes_are_differentiated() -> None:
    x = leaf(1.0, 2.0)
    y = x.float()
    assert y.dtype == np.float32
    (y * y).sum().backward()
    assert x.grad.dtype == np.float64
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.double() is x
    assert x.to(np.float64) is x
    assert x.type(np.float32).dtype == np.float32
    assert not x.long().requires_grad


# -- texts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: jg.tensor(1.0), "tensor(1.)"),
        (lambda: jg.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: leaf(1.0), "tensor([1.], requires_grad=True)"),
        (lambda: leaf(1.5) * 2, "tensor([3.], grad_fn=<MulBackward0>)"),
        (lambda: (leaf(1.5) * 2).detach(), "tensor([3.])"),
        (lambda: jg.ones(1, dtype=np.float32), "tensor([1.], dtype=float32)"),
        (lambda: jg.tensor([True]), "tensor([True])"),
    ],
)
def test_repr(make: Any, text: str) -> None:
    assert repr(make()) == str(make()) == text


def test_format() -> None:
    assert f"{jg.tensor(1.5):.3f}" == "1.500"
    assert f"{jg.tensor(1.0)}" == "1.0"
    assert f"{jg.ones(2)}" == "tensor([1., 1.])"
    assert f"{leaf(2.0).sum():5.1f}" == "  2.0"
    assert f"{jg.tensor(7):03d}" == "007"
    with pytest.raises(TypeError, match=r"unsupported format string passed to Tensor.__format__"):
        f"{jg.ones(2):.3f}"


# -- copies ---------------------------------------------------------------------------------------------------


def test_deepcopy() -> None:
    x = leaf(1.0, 2.0)
    x.sum().backward()
    y, again = copy.deepcopy([x, x])
    assert y is again is not x
    assert y.requires_grad
    assert y.grad.tolist() == [1.0, 1.0]
    assert y.grad is not x.grad
    with jg.no_grad():
        y.zero_()
    assert x.tolist() == [1.0, 2.0]


def test_deepcopy_of_what_is_no_leaf() -> None:
    with pytest.raises(errors.NonLeafError, match=r"Only Tensors created explicitly by the user \(graph leaves\)"):
        copy.deepcopy(leaf(1.0) * 2)


def test_copy() -> None:
    c = jg.ones(2)
    d = copy.copy(c)
    d.zero_()
    assert c.tolist() == [1.0, 1.0]


# -- identity and membership ----------------------------------------------------------------------------------


def test_hash_is_identity() -> None:
    x, y = jg.ones(2), jg.ones(2)
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1


def test_contains() -> None:
    x = leaf(1.0, 2.0)
    assert 1.0 in x
    assert jg.tensor(2.0) in x
    assert 3.0 not in x
