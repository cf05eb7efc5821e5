"""Errors begin with PyTorch's words, say what to do, and are caught by the built-ins one would expect."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

from jitgrad import errors

F64, I64, C128 = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.complex128)
WHERE = ("/home/user/model.py", 12)

# What PyTorch 2.13 says, with dtypes and shapes spelled NumPy's way.
GRAPH_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
    "if you need to access saved tensors after calling backward."
)
NON_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
    "be populated during autograd.backward(). If you indeed want the .grad field to be populated for a "
    "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
    "mistake, make sure you access the leaf Tensor instead."
)
SCALAR = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
    "Consider using tensor.detach() first."
)

# Each message, the words that it begins with, and what the sentence after them must mention.
MESSAGES: list[tuple[Exception, str, list[str]]] = [
    (
        errors.NonScalarBackwardError.output((2, 3), F64, op="multiply"),
        "grad can be implicitly created only for scalar outputs",
        ["(2, 3)", "float64", "multiply", "sum()", "gradient"],
    ),
    (
        errors.NonScalarBackwardError.complex_output(C128, op="fft"),
        "grad can be implicitly created only for real scalar outputs but got complex128",
        ["fft", "real part"],
    ),
    (
        errors.NoGraphError.output(op="floor"),
        "element 0 of tensors does not require grad and does not have a grad_fn",
        ["floor", "requires_grad=True", "no_grad()", "detach()"],
    ),
    (
        errors.NoGraphError.output(3),
        "element 3 of tensors does not require grad and does not have a grad_fn",
        ["requires_grad=True"],
    ),
    (
        errors.NoGraphError.input(1),
        "One of the differentiated Tensors does not require grad",
        ["inputs[1]", "requires_grad_()"],
    ),
    (
        errors.NoGraphError.retain_grad(),
        "can't retain_grad on Tensor that has requires_grad=False",
        ["requires_grad_()"],
    ),
    (errors.GraphFreedError.second_backward(op="exp"), GRAPH_FREED, ["exp", "anew", "retain_graph=True"]),
    (
        errors.GradientShapeError.backward((3,), (2, 3), op="multiply"),
        "Mismatch in shape: grad_output[0] has a shape of (3,) and output[0] has a shape of (2, 3).",
        ["multiply", "(2, 3)", "not broadcast"],
    ),
    (
        errors.GradientShapeError.backward((), (4,), 1),
        "Mismatch in shape: grad_output[1] has a shape of () and output[1] has a shape of (4,).",
        ["(4,)"],
    ),
    (
        errors.GradientShapeError.assignment((3,), (2, 3)),
        (
            "attempting to assign a gradient of size '[3]' to a tensor of size '[2, 3]'. Please ensure that "
            "the gradient and the tensor are the same size"
        ),
        ["None"],
    ),
    (
        errors.UnusedInputError.input(2),
        (
            "The differentiated Tensor at index 2 appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        ),
        ["inputs[2]", "None"],
    ),
    (
        errors.RequiresGradDtypeError.dtype(I64),
        "only Tensors of floating point and complex dtype can require gradients",
        ["int64", "dtype=float"],
    ),
    (errors.NonLeafGradWarning.access(op="add"), NON_LEAF, ["add", "retain_grad()", "autograd.grad"]),
    (
        errors.ScalarConversionWarning.value(op="multiply"),
        SCALAR,
        ["multiply", "item()", "compare"],
    ),
    (
        errors.ScalarConversionWarning.value(function="sin"),
        SCALAR,
        ["sin()", "numpy.sin"],
    ),
    (
        errors.InplaceError.leaf(op="add_"),
        "a leaf Variable that requires grad is being used in an in-place operation.",
        ["add_", "no_grad()", "x = x + 1"],
    ),
    (
        errors.InplaceError.leaf_view(op="setitem"),
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
        ["setitem", "no_grad()"],
    ),
    (
        errors.InplaceError.stale((2, 3), F64, op="exp", needed_by="sin", version=1, expected=0),
        (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            "[float64 [2, 3]], which is output 0 of exp, is at version 1; expected version 0 instead."
        ),
        ["sin", "y = y + 1"],
    ),
    (
        errors.NoGraphError.hook(),
        "cannot register a hook on a tensor that doesn't require gradient",
        ["requires_grad_()"],
    ),
    (
        errors.NoGraphError.traced(),
        (
            "You are attempting to call Tensor.backward() or torch.autograd.backward() inside a function that "
            "is being transformed"
        ),
        ["jitgrad.grad", "autograd.grad"],
    ),
    (
        errors.NonLeafError.requires_grad(op="exp"),
        (
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
            "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        ),
        ["exp", "detach()"],
    ),
    (
        errors.NonLeafError.deepcopy(),
        ("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."),
        ["detach()", "clone()"],
    ),
    (
        errors.GradientShapeError.hook("clip", (3,), (2,)),
        "hook 'clip' has changed the size of value",
        ["(3,)", "(2,)"],
    ),
    (
        errors.GradientDtypeError.assignment(np.dtype(np.float32), F64),
        (
            "attempting to assign a gradient with dtype 'float32' to a tensor with grad_dtype 'float64'. The "
            "gradient must match the tensor's grad_dtype (defaults to the tensor's dtype)."
        ),
        ["astype(float64)"],
    ),
    (
        errors.GradientDtypeError.backward(C128, F64),
        (
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
            "in dtype: grad_output[0] has a dtype of complex128 and output[0] has a dtype of float64."
        ),
        ["real part"],
    ),
    (
        errors.ViewError.ambiguous((0, -1)),
        (
            "cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension "
            "size -1 can be any value and is ambiguous"
        ),
        ["lengths"],
    ),
    (
        errors.InplaceError.stale((2,), F64, needed_by="MulBackward0", version=1, expected=0),
        (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            "[float64 [2]] is at version 1; expected version 0 instead."
        ),
        ["MulBackward0", "y = y + 1"],
    ),
    (
        errors.ShapeError.negative((2, -1)),
        "Trying to create tensor with negative dimension -1: [2, -1]",
        ["not negative"],
    ),
    (
        errors.DtypeError.index(F64, (2,)),
        "only integer tensors of a single element can be converted to an index",
        ["float64", "(2,)", "int()"],
    ),
    (
        errors.RangeError.sign(3, 1, 1),
        "upper bound and lower bound inconsistent with step sign",
        ["3", "1"],
    ),
    (errors.RangeError.step(), "step must be nonzero", ["full()"]),
    (errors.RangeError.steps(-1), "number of steps must be non-negative", ["-1"]),
    (
        errors.NumpyConversionError.numpy(op="tanh"),
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ["tanh", "NumPy's functions"],
    ),
    (
        errors.ViewError.stride((3, 2), (6,)),
        (
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        ),
        ["(3, 2)", "(6,)", "reshape()"],
    ),
    (errors.ViewError.size((4,), (2, 3)), "shape '[2, 3]' is invalid for input of size 4", ["(4,)", "-1"]),
    (errors.ViewError.size((2, 2), [-1, 3]), "shape '[-1, 3]' is invalid for input of size 4", ["(2, 2)"]),
    (errors.ViewError.several_inferred((-1, -1)), "only one dimension can be inferred", ["[-1, -1]"]),
    (
        errors.ViewError.negative((-1, -2)),
        "invalid shape dimension -2 at index 1 of shape [-1, -2]",
        ["not negative"],
    ),
    (
        errors.ItemError.scalar((3,)),
        "a Tensor with 3 elements cannot be converted to Scalar",
        ["(3,)", "numpy()"],
    ),
    (errors.ItemError.scalar((2, 0)), "a Tensor with 0 elements cannot be converted to Scalar", ["(2, 0)"]),
    (
        errors.ItemError.truth((3,)),
        "Boolean value of Tensor with more than one value is ambiguous",
        ["(3,)", "any()", "all()", "where()"],
    ),
    (errors.ItemError.truth((0,)), "Boolean value of Tensor with no values is ambiguous", ["(0,)"]),
    (
        errors.DifferentiationTypeError.input("grad", "argument 0['bias']", I64),
        "grad needs real or complex inputs, but argument 0['bias'] has dtype int64",
        ["3.0", "argnums"],
    ),
    (
        errors.DifferentiationTypeError.input_type("grad", "argument 1", str),
        "grad needs numbers, arrays or containers of them, but argument 1 is a str",
        ["argnums", "functools.partial"],
    ),
    (
        errors.DifferentiationTypeError.output_shape("grad", (3,)),
        "Expected f(*args) to return a scalar Tensor, got tensor with 1 dims.",
        ["grad", "(3,)", "jacobian"],
    ),
    (
        errors.DifferentiationTypeError.output_dtype("grad", C128),
        "grad can be implicitly created only for real scalar outputs but got complex128",
        ["real part", "vjp"],
    ),
    (
        errors.DifferentiationTypeError.output_dtype("grad", I64),
        "grad can be implicitly created only for real scalar outputs but got int64",
        ["integers have no derivative"],
    ),
    (
        errors.DifferentiationTypeError.output_type("grad", str),
        "Expected f(*args) to return a Tensor, got <class 'str'>",
        ["grad", "has_aux=True"],
    ),
    (
        errors.DifferentiationTypeError.aux("grad", float),
        "output of function f should be a tuple: (output, aux) if has_aux is True",
        ["grad", "float", "pair"],
    ),
    (errors.ArgnumsError.out_of_range(1, 1), "Got argnum=1, but only 1 positional inputs", ["keyword"]),
    (
        errors.ArgnumsError.wrong_type("a"),
        "argnums must be int or Tuple[int, ...], got: <class 'str'>",
        ["'a'", "(0, 1)"],
    ),
    (errors.ArgnumsError.empty(), "argnums must be non-empty", ["at least one"]),
    (errors.ArgnumsError.repeated((0, 0)), "argnums elements must be unique, got (0, 0)", ["once"]),
    (
        errors.TreeMismatchError.cotangents("*", "(*, *)"),
        (
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
            "function. cotangents: *, primal output: (*, *)"
        ),
        ["one cotangent"],
    ),
    (
        errors.TreeMismatchError.tangents("(*,)", "(*, *)"),
        (
            "Expected primals and tangents to have the same python structure. Got primals with structure "
            "(*,) and tangents with structure (*, *)"
        ),
        ["one tangent"],
    ),
    (
        errors.JitTypeError.dtype(np.dtype(object)),
        "A compiled function got an array of dtype object.",
        ["numbers", "static arguments", "hashable"],
    ),
    (
        errors.TapeError.structure("(*,)", "(*, *)"),
        "a tape was recorded with arguments of the structure (*,), and got (*, *).",
        ["same containers"],
    ),
    (
        errors.TapeError.argument("float64[3]", "float32[3]"),
        "a tape was recorded with an argument of type float64[3], and got float32[3].",
        ["convert"],
    ),
    (
        errors.TapeError.guard(None),
        (
            "a tape cannot be replayed on these values: Python has looked at one while it was recorded, "
            "and it is another now."
        ),
        ["jit(f)", "where"],
    ),
    (errors.TapeError.keywords(["n"]), "trace(f) takes positional arguments only, and got n.", ["partial"]),
    (
        errors.TapeError.leaf(str),
        "trace(f) takes arrays and floats, in containers, and got a value of type str.",
        ["partial"],
    ),
    (errors.TapeError.parameter(set), "a tape with a parameter of type set cannot be saved.", ["slices"]),
    (
        errors.TapeError.container(set),
        "a tape with arguments or a result in a container of type set cannot be saved.",
        ["dicts"],
    ),
    (errors.TapeError.file("x.npz"), "x.npz does not hold a tape.", ["Tape.save"]),
    (
        errors.TapeError.unknown_op("warp"),
        "the tape uses the operation 'warp', which this version of jitgrad does not know.",
        ["version"],
    ),
    (errors.JitTypeError.function(3), "jit needs a function, not int.", ["jit(f)", "@jit"]),
    (
        errors.JitTypeError.unhashable(),
        "A compiled function got an argument that is neither a number, an array, nor hashable.",
        ["register_dataclass", "__hash__"],
    ),
    (
        errors.JitTypeError.outside_tensor(),
        "A compiled function uses a tensor from outside that requires a gradient.",
        ["argument", "detach()"],
    ),
    (
        errors.RetraceWarning.guards("loss", 8, "model.py:12 in loss"),
        "loss has been traced 8 times for arguments of the same shapes and dtypes.",
        ["model.py:12 in loss", "jitgrad.numpy.where"],
    ),
    (
        errors.LeakedTensorError.escaped("grad", op="multiply"),
        "a Tensor that belongs to a finished grad is being used outside of it",
        ["multiply", "has_aux=True"],
    ),
    (
        errors.ShapeError.broadcast("add", (2, 3), (4,)),
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ["operands could not be broadcast together with shapes (2,3) (4,)", "add"],
    ),
    (
        errors.ShapeError.broadcast("add", (2, 1, 3), (4, 5, 3)),
        "The size of tensor a (2) must match the size of tensor b (4) at non-singleton dimension 0",
        ["(2,1,3) (4,5,3)"],
    ),
    (
        errors.ShapeError.broadcast("add", (4,), (2, 7, 3)),
        "The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 2",
        ["(4,) (2,7,3)"],
    ),
    (
        errors.ShapeError.broadcast("where", (2,), (3,), (4,)),
        "operands could not be broadcast together with shapes (2,) (3,) (4,)",
        ["where"],
    ),
    (
        errors.ShapeError.matmul("matmul", (2, 3), (4, 5)),
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        ["matmul", "(2, 3)", "(4, 5)"],
    ),
    (
        errors.ShapeError.inplace("add_", (3,), (2, 3)),
        "output with shape [3] doesn't match the broadcast shape [2, 3]",
        ["add_"],
    ),
    (errors.ShapeError.operands("trace", "a matrix", (3,)), "trace got shape (3,)", ["a matrix"]),
    (
        errors.ShapeError.operands("dot", "vectors", (3,), (4, 1)),
        "dot got shapes (3,) and (4, 1)",
        ["vectors"],
    ),
    (
        errors.DtypeError.cast("add_", F64, I64),
        "result type float64 can't be cast to the desired output type int64",
        ["add_", "new tensor"],
    ),
    (
        errors.DtypeError.subclass(np.ma.MaskedArray),
        "jitgrad does not know what operations mean on arrays of type numpy.ma.MaskedArray",
        ["numpy.asarray(x)", "mask"],
    ),
    (
        errors.DtypeError.operand("arctan2", C128, "real numbers"),
        "arctan2 does not take dtype complex128",
        ["real numbers", "astype"],
    ),
    (
        errors.NoGradientError.op("nextafter"),
        "the derivative for 'nextafter' is not implemented.",
        ["nextafter", "stop_gradient()", "detach()"],
    ),
    (
        errors.NoGradientError.op("igamma", "input"),
        "the derivative for 'igamma: input' is not implemented.",
        ["by its operand input"],
    ),
    (
        errors.GradCheckError.mismatch(
            0, 1, np.array([[2.0]]), np.array([[1.0]]), mode="reverse", order=2, atol=1e-6, rtol=1e-5
        ),
        "Jacobian mismatch for output 0 with respect to input 1,\nnumerical:[[2.]]\nanalytical:[[1.]]",
        ["reverse", "order 2", "1e-06", "1e-05"],
    ),
]

BUILT_INS: dict[type[Exception], tuple[type[Exception], ...]] = {
    errors.ArgnumsError: (ValueError, TypeError),
    errors.DifferentiationTypeError: (TypeError,),
    errors.DtypeError: (TypeError,),
    errors.GradCheckError: (AssertionError,),
    errors.GradientDtypeError: (RuntimeError,),
    errors.GradientShapeError: (RuntimeError,),
    errors.GraphFreedError: (RuntimeError,),
    errors.InplaceError: (RuntimeError,),
    errors.ItemError: (RuntimeError, ValueError),
    errors.JitTypeError: (TypeError,),
    errors.LeakedTensorError: (RuntimeError,),
    errors.NoGradientError: (TypeError, NotImplementedError),
    errors.NoGraphError: (RuntimeError,),
    errors.NonLeafError: (RuntimeError,),
    errors.NonLeafGradWarning: (UserWarning,),
    errors.NonScalarBackwardError: (RuntimeError,),
    errors.NumpyConversionError: (RuntimeError,),
    errors.RangeError: (ValueError, RuntimeError),
    errors.RequiresGradDtypeError: (RuntimeError,),
    errors.RetraceWarning: (UserWarning,),
    errors.ScalarConversionWarning: (UserWarning,),
    errors.ShapeError: (ValueError,),
    errors.TapeError: (ValueError,),
    errors.TreeMismatchError: (ValueError,),
    errors.UnusedInputError: (RuntimeError,),
    errors.ViewError: (RuntimeError,),
}


def public_classes() -> list[type[Exception]]:
    return [getattr(errors, name) for name in errors.__all__ if name != "JitgradError"]


@pytest.mark.parametrize(("error", "words", "mentions"), MESSAGES, ids=lambda part: type(part).__name__)
def test_message_begins_with_pytorchs_words_and_says_what_to_do(
    error: Exception, words: str, mentions: list[str]
) -> None:
    message = str(error)
    assert message.startswith(words + "\n")
    advice = message.removeprefix(words + "\n")
    assert "\n" not in advice
    assert advice.endswith(".")
    assert [part for part in mentions if part not in advice] == []


def test_every_class_is_public_and_has_the_built_ins_one_would_catch() -> None:
    defined = {member for member in vars(errors).values() if isinstance(member, type) and issubclass(member, Exception)}
    assert defined == {errors.JitgradError, *public_classes()}
    assert set(public_classes()) == set(BUILT_INS)
    for cls, built_ins in BUILT_INS.items():
        assert all(issubclass(cls, built_in) for built_in in built_ins), cls
        # `except JitgradError` must not swallow a warning that a user has turned into an error.
        assert issubclass(cls, errors.JitgradError) is not issubclass(cls, Warning), cls
        assert cls.__doc__ is not None


def test_every_class_has_a_message_above() -> None:
    assert {type(error) for error, _, _ in MESSAGES} == set(public_classes())


@pytest.mark.parametrize(
    "error",
    [
        errors.NonScalarBackwardError.output((2,), F64, op="multiply", where=WHERE),
        errors.NonScalarBackwardError.complex_output(C128, where=WHERE),
        errors.NoGraphError.output(where=WHERE),
        errors.GraphFreedError.second_backward(where=WHERE),
        errors.GradientShapeError.backward((2,), (3,), where=WHERE),
        errors.UnusedInputError.input(where=WHERE),
        errors.NonLeafGradWarning.access(where=WHERE),
        errors.InplaceError.leaf(where=WHERE),
        errors.InplaceError.leaf_view(where=WHERE),
        errors.InplaceError.stale((2,), F64, needed_by="exp", version=2, expected=1, where=WHERE),
        errors.NumpyConversionError.numpy(where=WHERE),
        errors.ViewError.stride((2, 3), (6,), where=WHERE),
        errors.ViewError.size((2, 3), (5,), where=WHERE),
        errors.ViewError.several_inferred((-1, -1), where=WHERE),
        errors.ViewError.negative((-3,), where=WHERE),
        errors.ItemError.scalar((2,), where=WHERE),
        errors.ItemError.truth((2,), where=WHERE),
        errors.DifferentiationTypeError.output_shape("grad", (2,), where=WHERE),
        errors.DifferentiationTypeError.output_dtype("grad", C128, where=WHERE),
        errors.LeakedTensorError.escaped("grad", where=WHERE),
        errors.ShapeError.broadcast("add", (2,), (3,), where=WHERE),
        errors.ShapeError.matmul("matmul", (2,), (3,), where=WHERE),
        errors.ShapeError.inplace("add_", (2,), (3,), where=WHERE),
        errors.ShapeError.operands("trace", "a matrix", (2,), where=WHERE),
        errors.DtypeError.cast("add_", C128, F64, where=WHERE),
        errors.DtypeError.operand("sign", C128, "real numbers", where=WHERE),
        errors.NoGradientError.op("nextafter", where=WHERE),
    ],
    ids=lambda error: type(error).__name__,
)
def test_message_ends_with_the_users_line_where_it_is_given(error: Exception) -> None:
    words, advice, line = str(error).split("\n")
    assert words
    assert advice.endswith(".")
    assert line == '  File "/home/user/model.py", line 12'


def test_constructors_build_the_class_they_are_called_on() -> None:
    class Special(errors.NoGraphError):
        pass

    assert type(Special.output()) is Special


@pytest.mark.parametrize("error", [error for error, _, _ in MESSAGES], ids=lambda error: type(error).__name__)
def test_errors_cross_process_boundaries(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_warning_is_issued_as_it_is() -> None:
    warning: Any = errors.NonLeafGradWarning.access()
    with pytest.warns(errors.NonLeafGradWarning, match="not a leaf Tensor is being accessed"):
        warnings.warn(warning, stacklevel=1)
