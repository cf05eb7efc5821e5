"""Making tensors: PyTorch's call forms, NumPy's default dtypes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import errors


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, np.int64),
        (True, np.bool_),
        (1.5, np.float64),
        (1 + 2j, np.complex128),
        ([1, 2.0], np.float64),
        ([True, 2], np.int64),
        ([1, 2j], np.complex128),
        ([], np.float64),
        ([[]], np.float64),
        (np.float32(1), np.float32),
        (np.arange(3, dtype=np.int16), np.int16),
        (np.ones(2, dtype=np.float16), np.float16),
    ],
)
def test_dtype_is_inferred(data: Any, dtype: type) -> None:
    t = jg.tensor(data)
    assert t.dtype == dtype
    assert t.shape == np.shape(data)
    assert t.tolist() == np.asarray(data).tolist()
    assert not t.requires_grad
    assert t.is_leaf


@pytest.mark.parametrize("dtype", [np.float32, "float32", float, int, bool, np.dtype(np.complex64)])
def test_dtype_is_given(dtype: Any) -> None:
    assert jg.tensor([1, 0], dtype=dtype).dtype == np.dtype(dtype)
    assert jg.ones(2, dtype=dtype).dtype == np.dtype(dtype)
    assert jg.full((2,), 1, dtype=dtype).dtype == np.dtype(dtype)


def test_other_byte_order_becomes_the_machines() -> None:
    t = jg.tensor(np.array([1.0, 2.0], dtype=np.dtype(np.float64).newbyteorder()))
    assert t.dtype.isnative
    assert t.tolist() == [1.0, 2.0]


def test_data_are_copied() -> None:
    a = np.zeros(2)
    t = jg.tensor(a)
    a[0] = 1.0
    assert t.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("data", ["a", ["a"], None, [None, 1.0], np.longdouble(1), 2**70])
def test_data_that_are_not_numbers(data: Any) -> None:
    with pytest.raises(errors.DtypeError, match="tensor does not take dtype"):
        jg.tensor(data)


def test_ragged_data() -> None:
    with pytest.raises(ValueError, match="inhomogeneous shape"):
        jg.tensor([[1, 2], [1]])


@pytest.mark.parametrize("dtype", [int, bool])
def test_integers_cannot_require_gradients(dtype: type) -> None:
    with pytest.raises(errors.RequiresGradDtypeError, match="floating point and complex dtype can require gradients"):
        jg.tensor([1, 0], dtype=dtype, requires_grad=True)
    with pytest.raises(errors.RequiresGradDtypeError):
        jg.ones(2, dtype=dtype, requires_grad=True)


def test_of_a_tensor_warns_that_there_is_a_better_way() -> None:
    with pytest.warns(UserWarning, match=r"recommended to use sourceTensor.detach\(\).clone\(\)"):
        t = jg.tensor(jg.ones(2, requires_grad=True))
    assert not t.requires_grad


def test_of_tensors_that_require_gradients_warns_that_their_history_is_lost() -> None:
    x = jg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
        t = jg.tensor([x[0], x[1] * 2])
    assert t.tolist() == [1.0, 4.0]
    assert not t.requires_grad


def test_of_tensors_without_gradients() -> None:
    assert jg.tensor([jg.tensor(1.0), 2.0]).tolist() == [1.0, 2.0]


# -- filled ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "value"), [(jg.ones, 1.0), (jg.zeros, 0.0)])
@pytest.mark.parametrize(
    ("args", "shape"),
    [((2, 3), (2, 3)), (((2, 3),), (2, 3)), (([2, 3],), (2, 3)), ((4,), (4,)), (((),), ()), ((np.int64(2),), (2,))],
)
def test_call_forms(make: Callable[..., Any], value: float, args: Any, shape: tuple[int, ...]) -> None:
    t = make(*args)
    assert t.shape == shape
    assert t.dtype == np.float64
    assert (t.numpy() == value).all()
    assert jg.empty(*args).shape == jg.rand(*args).shape == jg.randn(*args).shape == shape


def test_call_forms_that_are_none() -> None:
    with pytest.raises(TypeError, match=r'ones\(\) missing 1 required positional arguments: "size"'):
        jg.ones()
    with pytest.raises(TypeError, match=r"argument 'size' \(position 1\) must be tuple of ints, not float"):
        jg.ones(2.0)
    with pytest.raises(TypeError, match=r"argument 'size' \(position 1\) must be tuple of ints, not Tensor"):
        jg.ones(jg.tensor([2, 3]))
    with pytest.raises(errors.ShapeError, match=r"Trying to create tensor with negative dimension -1: \[2, -1\]"):
        jg.zeros(2, -1)


def test_full_takes_the_dtype_of_the_value() -> None:
    assert [jg.full((2,), v).dtype.name for v in (1, 1.0, True, 1j)] == ["int64", "float64", "bool", "complex128"]
    assert jg.full(2, jg.tensor(3.0)).tolist() == [3.0, 3.0]


def test_values_with_a_history_are_refused() -> None:
    x = jg.tensor(1.0, requires_grad=True)
    for make in (lambda: jg.full((2,), x), lambda: jg.arange(x), lambda: jg.linspace(0, x, 3)):
        with pytest.raises(errors.NumpyConversionError):
            make()


def test_eye() -> None:
    assert jg.eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert jg.eye(2, dtype=int).tolist() == [[1, 0], [0, 1]]


# -- ranges ---------------------------------------------------------------------------------------------------


def test_arange() -> None:
    assert jg.arange(3).tolist() == [0, 1, 2]
    assert jg.arange(3).dtype == np.int64
    assert jg.arange(1, 3).tolist() == [1, 2]
    assert jg.arange(0, 1, 0.25).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert jg.arange(3.0).dtype == np.float64
    assert jg.arange(3, dtype=np.float32).dtype == np.float32
    assert jg.arange(3, 0, -1).tolist() == [3, 2, 1]
    assert jg.arange(jg.tensor(2)).tolist() == [0, 1]
    assert jg.arange(3.0, requires_grad=True).requires_grad


def test_arange_that_leads_nowhere() -> None:
    with pytest.raises(errors.RangeError, match="upper bound and lower bound inconsistent with step sign"):
        jg.arange(3, 1)
    with pytest.raises(errors.RangeError, match="step must be nonzero"):
        jg.arange(3, 5, 0)
    with pytest.raises(TypeError, match="from 1 to 3 positional arguments"):
        jg.arange()


def test_linspace() -> None:
    assert jg.linspace(0, 1, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert jg.linspace(0, 10, 4, dtype=int).tolist() == [0, 3, 6, 10]
    assert jg.linspace(-1, 1, 4, dtype=int).tolist() == [-1, 0, 0, 1]
    assert jg.linspace(3, 10, steps=0).shape == (0,)
    with pytest.raises(errors.RangeError, match="number of steps must be non-negative"):
        jg.linspace(0, 1, -1)


# -- random ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda: jg.rand(4),
        lambda: jg.randn(4),
        lambda: jg.randn(4, dtype=np.float32),
        lambda: jg.randn(4, dtype=complex),
        lambda: jg.randint(100, (4,)),
        lambda: jg.randperm(20),
        lambda: jg.rand_like(jg.ones(4)),
    ],
)
def test_manual_seed(draw: Callable[[], Any]) -> None:
    jg.manual_seed(7)
    first, second = draw(), draw()
    jg.manual_seed(7)
    assert draw().tolist() == first.tolist() != second.tolist()


def test_distributions() -> None:
    jg.manual_seed(0)
    uniform, normal, z = jg.rand(20000).numpy(), jg.randn(20000).numpy(), jg.randn(20000, dtype=complex).numpy()
    assert 0 <= uniform.min() < 0.001 < 0.999 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    assert abs(np.mean(np.abs(z) ** 2) - 1) < 0.05


def test_own_generator() -> None:
    draws = [jg.rand(3, generator=np.random.default_rng(5)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]


def test_randint() -> None:
    jg.manual_seed(0)
    t = jg.randint(2, 5, (1000,))
    assert t.dtype == np.int64
    assert set(t.tolist()) == {2, 3, 4}
    assert jg.randint(3, size=(2, 2)).shape == (2, 2)
    with pytest.raises(errors.RangeError):
        jg.randint(5, 5, (2,))


def test_randperm() -> None:
    assert sorted(jg.randperm(10).tolist()) == list(range(10))


@pytest.mark.parametrize("draw", [jg.rand, jg.randn])
def test_random_integers_have_a_function_of_their_own(draw: Callable[..., Any]) -> None:
    with pytest.raises(errors.DtypeError, match="does not take dtype int64"):
        draw(2, dtype=int)


# -- like another ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [jg.tensor([[1, 2]]), np.array([[1.0, 2.0]]), jg.ones(1, 2, requires_grad=True)])
def test_like(model: Any) -> None:
    for make in (jg.ones_like, jg.zeros_like, jg.empty_like, lambda m: jg.full_like(m, 3)):
        t = make(model)
        assert t.shape == model.shape
        assert t.dtype == model.dtype
        assert not t.requires_grad
    t = jg.zeros_like(model, dtype=np.float32, requires_grad=True)
    assert t.dtype == np.float32
    assert t.requires_grad


def test_like_truncates_as_pytorch_does() -> None:
    assert jg.full_like(jg.tensor([1, 2]), 2.7).tolist() == [2, 2]


def test_like_a_list() -> None:
    with pytest.raises(TypeError, match=r"zeros_like\(\): argument 'input' \(position 1\) must be Tensor, not list"):
        jg.zeros_like([1, 2])  # type: ignore[arg-type]


# -- sharing --------------------------------------------------------------------------------------------------


def test_from_numpy_shares_memory_both_ways() -> None:
    a = np.zeros(2)
    t = jg.from_numpy(a)
    a[0] = 1.0
    t[1] = 2.0
    assert t.tolist() == a.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        jg.from_numpy([1.0])  # type: ignore[arg-type]


def test_as_tensor() -> None:
    x = jg.ones(2, requires_grad=True)
    assert jg.as_tensor(x) is x
    assert jg.as_tensor(x, dtype=np.float32).requires_grad
    a = np.zeros(2)
    assert jg.as_tensor(a).numpy() is a
    assert jg.as_tensor([1, 2]).dtype == np.int64


def test_class_is_not_called() -> None:
    with pytest.raises(TypeError, match=r"made by jitgrad.tensor\(data\)"):
        jg.Tensor([1.0])


def test_pickle() -> None:
    x = jg.tensor([1.0, 2.0], requires_grad=True)
    copy = pickle.loads(pickle.dumps(x))
    assert copy.tolist() == [1.0, 2.0]
    assert copy.requires_grad
    with pytest.raises(TypeError, match=r"detach\(\) it first"):
        pickle.dumps(x * 2)
    (x * 2).sum().backward()
    assert pickle.loads(pickle.dumps(x.grad)).tolist() == [2.0, 2.0]
