"""One exception class for each kind of mistake, and the words in which it is told.

Where PyTorch (2.13) has a text for the mistake, the message begins with it; then it says what to do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    DType: TypeAlias = np.dtype[Any]

__all__ = [
    "ArgnumsError",
    "DifferentiationTypeError",
    "DtypeError",
    "GradCheckError",
    "GradientDtypeError",
    "GradientShapeError",
    "GraphFreedError",
    "InplaceError",
    "ItemError",
    "JitTypeError",
    "JitgradError",
    "LeakedTensorError",
    "NoGradientError",
    "NoGraphError",
    "NonLeafError",
    "NonLeafGradWarning",
    "NonScalarBackwardError",
    "NumpyConversionError",
    "RangeError",
    "RequiresGradDtypeError",
    "RetraceWarning",
    "ScalarConversionWarning",
    "ShapeError",
    "TapeError",
    "TreeMismatchError",
    "UnusedInputError",
    "ViewError",
]

Shape: TypeAlias = tuple[int, ...]
Location: TypeAlias = tuple[str, int]


def _compose(words: str, advice: str, where: Location | None = None) -> str:
    text = f"{words}\n{advice}"
    if where is not None:
        # As in a traceback, so that editors and terminals make a link of it.
        text += '\n  File "{}", line {}'.format(*where)
    return text


def _described(shape: Shape, dtype: DType | None, op: str | None) -> str:
    parts = [f"shape {shape}"]
    if dtype is not None:
        parts.append(f"dtype {dtype}")
    if op is not None:
        parts.append(f"made by {op}")
    return ", ".join(parts)


def _by(op: str | None) -> str:
    return "" if op is None else f" by {op}"


class JitgradError(Exception):
    """Base of every error that jitgrad raises about a mistake in its use.

    The named constructors of the subclasses build the message, which is all that an instance holds. Many take
    two optional arguments: `op`, the name of the op concerned, and `where`, the user's file and line.

    Examples
    --------
    >>> from jitgrad.errors import JitgradError, NoGraphError
    >>> error = NoGraphError.output(op="multiply", where=("model.py", 12))
    >>> isinstance(error, JitgradError) and isinstance(error, RuntimeError)
    True
    >>> print(str(error).splitlines()[0])
    element 0 of tensors does not require grad and does not have a grad_fn
    >>> print(str(error).splitlines()[-1].strip())
    File "model.py", line 12
    """


# --- backward() and autograd.grad --------------------------------------------------------------------------


class NonScalarBackwardError(JitgradError, RuntimeError):
    """A gradient was asked of a result that is not a real scalar, without one to start from."""

    @classmethod
    def output(
        cls, shape: Shape, dtype: DType | None = None, *, op: str | None = None, where: Location | None = None
    ) -> Self:
        """Say that the result has more than one element, or none."""
        words = "grad can be implicitly created only for scalar outputs"
        advice = (
            f"The output has {_described(shape, dtype, op)}: reduce it to a scalar first, for example with "
            "sum(), or pass a gradient of its shape."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def complex_output(cls, dtype: DType, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that the result is a complex scalar."""
        words = f"grad can be implicitly created only for real scalar outputs but got {dtype}"
        advice = (
            f"Take the real part, the imaginary part or the absolute value of what was computed{_by(op)}, or "
            "pass a gradient."
        )
        return cls(_compose(words, advice, where))


class NoGraphError(JitgradError, RuntimeError):
    """A gradient was asked of, or with respect to, a tensor that no recorded computation leads to."""

    @classmethod
    def output(cls, index: int = 0, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that nothing which an output was computed from requires a gradient."""
        words = f"element {index} of tensors does not require grad and does not have a grad_fn"
        advice = (
            f"Nothing was recorded of how it was computed{_by(op)}: create an input with requires_grad=True, "
            "and compute outside no_grad() and without detach(), .data or .numpy() on the way."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def input(cls, index: int = 0) -> Self:
        """Say that a tensor to differentiate with respect to does not require a gradient."""
        words = "One of the differentiated Tensors does not require grad"
        advice = f"Call requires_grad_() on inputs[{index}] before computing with it."
        return cls(_compose(words, advice))

    @classmethod
    def retain_grad(cls) -> Self:
        """Say that a tensor will never have the gradient which it is told to keep."""
        words = "can't retain_grad on Tensor that has requires_grad=False"
        advice = "Call requires_grad_() on one of the tensors that it is computed from, before computing it."
        return cls(_compose(words, advice))

    @classmethod
    def hook(cls) -> Self:
        """Say that a tensor will never have a gradient that a hook could be called with."""
        words = "cannot register a hook on a tensor that doesn't require gradient"
        advice = "Call requires_grad_() on it, or on one of the tensors that it is computed from."
        return cls(_compose(words, advice))

    @classmethod
    def traced(cls) -> Self:
        """Say that the tensor belongs to the trace of a transform, which has no leaves to fill."""
        words = (
            "You are attempting to call Tensor.backward() or torch.autograd.backward() inside a function that "
            "is being transformed"
        )
        advice = "The tensor is part of a running transform: nest jitgrad.grad, or call autograd.grad."
        return cls(_compose(words, advice))


class GraphFreedError(JitgradError, RuntimeError):
    """A graph was needed after `backward()` or `autograd.grad` had freed it."""

    @classmethod
    def second_backward(cls, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that the intermediate values are gone."""
        words = (
            "Trying to backward through the graph a second time (or directly access saved tensors after "
            "they have already been freed). Saved intermediate values of the graph are freed when you call "
            ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
            "graph a second time or if you need to access saved tensors after calling backward."
        )
        advice = (
            f"The values kept{_by(op)} are gone: compute the result anew, add up several results and call "
            "backward() once, or pass retain_graph=True the first time."
        )
        return cls(_compose(words, advice, where))


class GradientShapeError(JitgradError, RuntimeError):
    """A given gradient has another shape than the tensor that it is the gradient of."""

    @classmethod
    def backward(
        cls,
        gradient_shape: Shape,
        output_shape: Shape,
        index: int = 0,
        *,
        op: str | None = None,
        where: Location | None = None,
    ) -> Self:
        """Say that the gradient of an output does not fit the output."""
        words = (
            f"Mismatch in shape: grad_output[{index}] has a shape of {gradient_shape} and output[{index}] "
            f"has a shape of {output_shape}."
        )
        advice = (
            f"Pass a gradient of shape {output_shape} for the output computed{_by(op)}; gradients are not broadcast."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def assignment(cls, gradient_shape: Shape, tensor_shape: Shape) -> Self:
        """Say that an array does not fit the tensor whose `.grad` it is assigned to."""
        words = (
            f"attempting to assign a gradient of size '{[*gradient_shape]}' to a tensor of size "
            f"'{[*tensor_shape]}'. Please ensure that the gradient and the tensor are the same size"
        )
        advice = "Reshape or broadcast the gradient before assigning it, or assign None to clear it."
        return cls(_compose(words, advice))

    @classmethod
    def hook(cls, name: str, hook_shape: Shape, shape: Shape) -> Self:
        """Say that a hook returned a gradient of another shape than it was given."""
        words = f"hook '{name}' has changed the size of value"
        advice = f"It returned shape {hook_shape} for a gradient of shape {shape}: return that shape, or None."
        return cls(_compose(words, advice))


class GradientDtypeError(JitgradError, RuntimeError):
    """A given gradient has a dtype that the tensor which it is the gradient of cannot have."""

    @classmethod
    def assignment(cls, gradient_dtype: DType, tensor_dtype: DType) -> Self:
        """Say that an array assigned to `.grad` has another dtype than its tensor."""
        words = (
            f"attempting to assign a gradient with dtype '{gradient_dtype}' to a tensor with grad_dtype "
            f"'{tensor_dtype}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
            "dtype)."
        )
        advice = f"Convert the gradient with astype({tensor_dtype}) before assigning it."
        return cls(_compose(words, advice))

    @classmethod
    def backward(cls, gradient_dtype: DType, output_dtype: DType, index: int = 0) -> Self:
        """Say that of the gradient of an output and the output, just one is complex."""
        words = (
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
            f"in dtype: grad_output[{index}] has a dtype of {gradient_dtype} and output[{index}] has a dtype "
            f"of {output_dtype}."
        )
        advice = "Take the real part of the gradient, or convert it with astype."
        return cls(_compose(words, advice))


class UnusedInputError(JitgradError, RuntimeError):
    """An output does not depend on a tensor that it is to be differentiated with respect to."""

    @classmethod
    def input(cls, index: int = 0, *, where: Location | None = None) -> Self:
        """Say which input does not matter."""
        words = (
            f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
        advice = (
            f"With allow_unused=True the gradient of inputs[{index}] is None; otherwise pass the tensor that "
            "the output was computed from, not a copy or a view of it that was made on the side."
        )
        return cls(_compose(words, advice, where))


# --- tensors -----------------------------------------------------------------------------------------------


class RequiresGradDtypeError(JitgradError, RuntimeError):
    """A boolean or integer tensor was told to require a gradient."""

    @classmethod
    def dtype(cls, dtype: DType) -> Self:
        """Say which dtype has no gradients."""
        words = "only Tensors of floating point and complex dtype can require gradients"
        advice = f"This one has dtype {dtype}: write its numbers with a decimal point, or pass dtype=float."
        return cls(_compose(words, advice))

    @classmethod
    def data(cls, dtype: DType) -> Self:
        """Say that a tensor which requires a gradient cannot be given such data."""
        words = "data set to a tensor that requires gradients must be floating point or complex dtype"
        advice = f"The new data has dtype {dtype}: convert it, or call requires_grad_(False) first."
        return cls(_compose(words, advice))


class NonLeafError(JitgradError, RuntimeError):
    """Something was asked of a computed tensor that only a leaf, a tensor made by the user, can do."""

    @classmethod
    def requires_grad(cls, *, op: str | None = None) -> Self:
        """Say that a computed tensor cannot stop requiring a gradient."""
        words = (
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
            "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
        advice = f"What was computed{_by(op)} is recorded already: detach() gives the value by itself."
        return cls(_compose(words, advice))

    @classmethod
    def data(cls, *, op: str | None = None) -> Self:
        """Say that the memory of a computed tensor cannot be exchanged."""
        words = "the data of a Tensor that is not a leaf cannot be replaced"
        advice = f"What was computed{_by(op)} is recorded with its value: detach() it, or write to it in place."
        return cls(_compose(words, advice))

    @classmethod
    def deepcopy(cls, *, op: str | None = None) -> Self:
        """Say that a computed tensor cannot be copied with its record."""
        words = (
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
        advice = f"Of what was computed{_by(op)}, copy the value: detach() it first, or record a clone()."
        return cls(_compose(words, advice))


class NonLeafGradWarning(UserWarning):
    """The `.grad` of a tensor that `backward()` leaves without one was read."""

    @classmethod
    def access(cls, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say why `.grad` is None."""
        words = (
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
            "attribute won't be populated during autograd.backward(). If you indeed want the .grad field to "
            "be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access "
            "the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
        )
        advice = (
            f"It was computed{_by(op)}: call retain_grad() on it before backward(), or ask autograd.grad for "
            "its gradient."
        )
        return cls(_compose(words, advice, where))


class InplaceError(JitgradError, RuntimeError):
    """An in-place operation would make a gradient wrong, or has already."""

    @classmethod
    def leaf(cls, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that the tensor written to is a leaf that requires a gradient."""
        return cls._leaf("", op, where)

    @classmethod
    def leaf_view(cls, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that the tensor written to is a view of a leaf that requires a gradient."""
        return cls._leaf("a view of ", op, where)

    @classmethod
    def _leaf(cls, prefix: str, op: str | None, where: Location | None) -> Self:
        words = f"{prefix}a leaf Variable that requires grad is being used in an in-place operation."
        advice = (
            f"To update it unrecorded, write to it{_by(op)} inside `with no_grad():`; to record the change, "
            "make a new tensor (x = x + 1 for x += 1)."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def stale(
        cls,
        shape: Shape,
        dtype: DType,
        *,
        op: str | None = None,
        needed_by: str,
        version: int,
        expected: int,
        output: int = 0,
        where: Location | None = None,
    ) -> Self:
        """Say that a value which a derivative needs was overwritten.

        `op` has made the value, unless it is a leaf; the derivative of `needed_by`, on the line `where`, needs
        it.
        """
        made_by = "" if op is None else f", which is output {output} of {op},"
        words = (
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{dtype} {[*shape]}]{made_by} is at version {version}; "
            f"expected version {expected} instead."
        )
        advice = (
            f"The derivative of {needed_by} needs the values as they were: replace the in-place operation "
            "that came after it (such as y += 1) by one that makes a new tensor (y = y + 1)."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def array(cls, shape: Shape, dtype: DType, *, needed_by: str, where: Location | None = None) -> Self:
        """Say that a NumPy array of the user's, which a derivative needs, was written to."""
        words = (
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{dtype} {[*shape]}], a NumPy array."
        )
        advice = (
            f"The derivative of {needed_by} needs the values as they were: use a copy of the array there "
            "(x * buffer.copy()), or a new array instead of writing to this one."
        )
        return cls(_compose(words, advice, where))


class NumpyConversionError(JitgradError, RuntimeError):
    """A tensor that requires a gradient was to become a NumPy array, losing the gradient in silence."""

    @classmethod
    def numpy(cls, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that the tensor has to be detached first."""
        words = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        advice = f"To go on recording from what was computed{_by(op)}, pass the tensor to NumPy's functions."
        return cls(_compose(words, advice, where))

    @classmethod
    def element(cls, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say that an array cannot hold a tensor, or be made of tensors by NumPy."""
        words = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        advice = (
            f"An array cannot hold what was computed{_by(op)}, only its value. To write it to an array, make "
            "that with jitgrad.numpy.zeros; to make an array of it, use jitgrad.numpy.array or "
            "jitgrad.numpy.stack."
        )
        return cls(_compose(words, advice, where))


class ScalarConversionWarning(UserWarning):
    """A tensor that is being differentiated was made a Python number, through which no gradient flows."""

    @classmethod
    def value(cls, *, op: str | None = None, function: str | None = None) -> Self:
        """Say what to write instead; `function` is the one called with the tensor, if NumPy has it too."""
        words = (
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first."
        )
        if function is None:
            advice = (
                f"No gradient flows through the number that was made of what was computed{_by(op)}: compute and "
                "compare with the tensor itself, or call item() if the value alone is wanted."
            )
        else:
            advice = (
                f"{function}() got a number for what was computed{_by(op)}, and no gradient flows through what it "
                f"returns: use numpy.{function}."
            )
        return cls(_compose(words, advice))


class ViewError(JitgradError, RuntimeError):
    """A tensor's elements cannot be arranged in the shape that was asked for."""

    @classmethod
    def stride(cls, shape: Shape, target: Sequence[int], *, where: Location | None = None) -> Self:
        """Say that the new shape needs a copy."""
        words = (
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        )
        advice = (
            f"The elements of this tensor of shape {shape} do not lie in memory so that shape "
            f"{tuple(target)} could be had without a copy, which reshape() makes."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def size(cls, shape: Shape, target: Sequence[int], *, where: Location | None = None) -> Self:
        """Say that the new shape has another number of elements."""
        words = f"shape '{[*target]}' is invalid for input of size {math.prod(shape)}"
        advice = f"Choose a shape with as many elements as {shape} has; one length may be left open as -1."
        return cls(_compose(words, advice, where))

    @classmethod
    def several_inferred(cls, target: Sequence[int], *, where: Location | None = None) -> Self:
        """Say that more than one length was left open."""
        words = "only one dimension can be inferred"
        advice = f"Of the lengths {[*target]}, give all but one."
        return cls(_compose(words, advice, where))

    @classmethod
    def ambiguous(cls, target: Sequence[int], *, where: Location | None = None) -> Self:
        """Say that the length that was left open could be any, for there are no elements."""
        words = (
            f"cannot reshape tensor of 0 elements into shape {[*target]} because the unspecified dimension "
            "size -1 can be any value and is ambiguous"
        )
        advice = "Give all the lengths."
        return cls(_compose(words, advice, where))

    @classmethod
    def negative(cls, target: Sequence[int], *, where: Location | None = None) -> Self:
        """Say that a length is negative and not -1."""
        index, length = next((i, n) for i, n in enumerate(target) if n < -1)
        words = f"invalid shape dimension {length} at index {index} of shape {[*target]}"
        advice = "Lengths are not negative, but for one -1 that stands for what is left."
        return cls(_compose(words, advice, where))


class ItemError(JitgradError, RuntimeError, ValueError):
    """A tensor with another number of elements than one was used as a Python scalar."""

    @classmethod
    def scalar(cls, shape: Shape, *, where: Location | None = None) -> Self:
        """Say that `item()`, `float()`, `int()` and the like have no single element to return."""
        words = f"a Tensor with {math.prod(shape)} elements cannot be converted to Scalar"
        advice = f"Select one element of shape {shape} first, reduce it, or call numpy() for all of them."
        return cls(_compose(words, advice, where))

    @classmethod
    def truth(cls, shape: Shape, *, where: Location | None = None) -> Self:
        """Say that `bool()`, `if`, `and`, `or` and `not` have no single element to ask."""
        count = "no values" if math.prod(shape) == 0 else "more than one value"
        words = f"Boolean value of Tensor with {count} is ambiguous"
        advice = f"The tensor has shape {shape}: use any() or all(), or where() to choose element by element."
        return cls(_compose(words, advice, where))


# --- transforms of functions -------------------------------------------------------------------------------


class DifferentiationTypeError(JitgradError, TypeError):
    """A transform met an argument or a result of a kind that it cannot differentiate."""

    @classmethod
    def input(cls, transform: str, position: str, dtype: DType) -> Self:
        """Say that an argument is boolean or integer; `position` names it, such as ``argument 0['bias']``."""
        words = f"{transform} needs real or complex inputs, but {position} has dtype {dtype}"
        advice = "Make it floating point, such as 3.0 for 3 or x.astype(float), or leave it out of argnums."
        return cls(_compose(words, advice))

    @classmethod
    def input_type(cls, transform: str, position: str, kind: type) -> Self:
        """Say that an argument is not made of numbers."""
        words = f"{transform} needs numbers, arrays or containers of them, but {position} is a {kind.__name__}"
        advice = "Leave it out of argnums, or bind it beforehand with functools.partial."
        return cls(_compose(words, advice))

    @classmethod
    def output_shape(cls, transform: str, shape: Shape, *, where: Location | None = None) -> Self:
        """Say that a function to differentiate does not return a scalar."""
        words = f"Expected f(*args) to return a scalar Tensor, got tensor with {len(shape)} dims."
        advice = (
            f"{transform} is of functions with a scalar result, and this one has shape {shape}: reduce it, "
            "for example with sum(), or use jacobian, vjp or elementwise_grad."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def output_dtype(cls, transform: str, dtype: DType, *, where: Location | None = None) -> Self:
        """Say that a function to differentiate returns a complex, integer or boolean scalar."""
        words = f"grad can be implicitly created only for real scalar outputs but got {dtype}"
        if dtype.kind == "c":
            remedy = "return its real part, its imaginary part or its absolute value, or use vjp"
        else:
            remedy = "booleans and integers have no derivative, so return a float"
        advice = f"{transform} is of functions with a real scalar result: {remedy}."
        return cls(_compose(words, advice, where))

    @classmethod
    def output_type(cls, transform: str, kind: type) -> Self:
        """Say that a function to differentiate returns something that is not a number."""
        words = f"Expected f(*args) to return a Tensor, got {kind}"
        advice = (
            f"{transform} is of functions that return a number or an array; to return other things besides, "
            "pass has_aux=True and return (result, other)."
        )
        return cls(_compose(words, advice))

    @classmethod
    def aux(cls, transform: str, kind: type) -> Self:
        """Say that `has_aux=True` was passed with a function that does not return a pair."""
        words = "output of function f should be a tuple: (output, aux) if has_aux is True"
        advice = f"The function given to {transform} returned {kind.__name__}: return a pair, or omit has_aux."
        return cls(_compose(words, advice))


class ArgnumsError(JitgradError, ValueError, TypeError):
    """`argnums` does not name arguments of the call."""

    @classmethod
    def out_of_range(cls, argnum: int, positional: int) -> Self:
        """Say that there is no such positional argument."""
        words = f"Got argnum={argnum}, but only {positional} positional inputs"
        advice = "Count positional arguments from 0; what is passed by keyword is not differentiated."
        return cls(_compose(words, advice))

    @classmethod
    def wrong_type(cls, argnums: object) -> Self:
        """Say that `argnums` is neither an integer nor a tuple of them."""
        words = f"argnums must be int or Tuple[int, ...], got: {type(argnums)}"
        advice = f"Pass positions, such as 0 or (0, 1), instead of {argnums!r}."
        return cls(_compose(words, advice))

    @classmethod
    def empty(cls) -> Self:
        """Say that `argnums` names nothing."""
        words = "argnums must be non-empty"
        advice = "Name at least one argument to differentiate."
        return cls(_compose(words, advice))

    @classmethod
    def repeated(cls, argnums: tuple[int, ...]) -> Self:
        """Say that `argnums` names an argument twice."""
        words = f"argnums elements must be unique, got {argnums}"
        advice = "Name each argument once; a negative position counts from the last argument."
        return cls(_compose(words, advice))


class TreeMismatchError(JitgradError, ValueError):
    """Containers that must be built alike are not."""

    @classmethod
    def cotangents(cls, cotangents: object, outputs: object) -> Self:
        """Say that the cotangents given to a pullback are not built like the function's result."""
        words = (
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
            f"function. cotangents: {cotangents}, primal output: {outputs}"
        )
        advice = "Pass one cotangent for each array that the function returns, in the same containers."
        return cls(_compose(words, advice))

    @classmethod
    def tangents(cls, primals: object, tangents: object) -> Self:
        """Say that the tangents are not built like the arguments."""
        words = (
            "Expected primals and tangents to have the same python structure. Got primals with structure "
            f"{primals} and tangents with structure {tangents}"
        )
        advice = "Pass one tangent for each array among the arguments, in the same containers."
        return cls(_compose(words, advice))


class LeakedTensorError(JitgradError, RuntimeError):
    """A tensor of a transform's trace was used after the transform had returned."""

    @classmethod
    def escaped(cls, transform: str, *, op: str | None = None, where: Location | None = None) -> Self:
        """Say where the tensor was made and how to get its value out."""
        words = f"a Tensor that belongs to a finished {transform} is being used outside of it"
        advice = (
            f"What was computed{_by(op)} inside the function was kept in a variable that outlives the call: "
            "return it from the function, beside the result with has_aux=True, to get its value."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def elsewhere(cls) -> Self:
        """Say that the transform is still running, but in another thread."""
        return cls(
            _compose(
                "a Tensor that belongs to a transform is being used in another thread than the transform's",
                "A transform follows what its own thread computes: call the transform in each of the threads, on a "
                "part of the problem, and put the gradients together.",
            )
        )


# --- ops ---------------------------------------------------------------------------------------------------


class JitTypeError(JitgradError, TypeError):
    """Something that a compiled function cannot be made of, or called with."""

    @classmethod
    def function(cls, f: object) -> Self:
        """``f`` is no function."""
        return cls(_compose(f"jit needs a function, not {type(f).__name__}.", "Write jit(f), or @jit above its def."))

    @classmethod
    def dtype(cls, dtype: DType) -> Self:
        """An array that holds no numbers."""
        return cls(
            _compose(
                f"A compiled function got an array of dtype {dtype}.",
                "Its arrays must hold numbers or booleans; other things are static arguments, which must be hashable.",
            )
        )

    @classmethod
    def unhashable(cls) -> Self:
        """A static argument that cannot be looked up."""
        return cls(
            _compose(
                "A compiled function got an argument that is neither a number, an array, nor hashable.",
                "It cannot be looked up whether there is a trace for it: register its class as a "
                "container (jitgrad.register_dataclass), or define its __hash__ and __eq__.",
            )
        )

    @classmethod
    def outside_tensor(cls, where: Location | None = None) -> Self:
        """A tensor from outside, whose gradient a compiled function would not know."""
        return cls(
            _compose(
                "A compiled function uses a tensor from outside that requires a gradient.",
                "No gradient would flow to it: pass it as an argument, or detach() it.",
                where,
            )
        )


class TapeError(JitgradError, ValueError):
    """A tape cannot be made, replayed, saved or loaded."""

    @classmethod
    def structure(cls, expected: str, got: str) -> Self:
        """The arguments are in other containers than those that were traced."""
        return cls(
            _compose(
                f"a tape was recorded with arguments of the structure {expected}, and got {got}.",
                "Pass the arguments in the same containers, or trace the function anew.",
            )
        )

    @classmethod
    def argument(cls, expected: str, got: str) -> Self:
        """An argument has another shape or dtype than the one that was traced."""
        return cls(
            _compose(
                f"a tape was recorded with an argument of type {expected}, and got {got}.",
                "A tape is good for one shape and dtype: convert the argument, or trace the function anew.",
            )
        )

    @classmethod
    def guard(cls, where: Location | None) -> Self:
        """Python would have taken another branch."""
        return cls(
            _compose(
                "a tape cannot be replayed on these values: Python has looked at one while it was recorded, and it is "
                "another now.",
                "Use jit(f), which traces each outcome, or choose with jitgrad.numpy.where instead of if.",
                where,
            )
        )

    @classmethod
    def keywords(cls, names: Sequence[str]) -> Self:
        """Tapes have positional arguments only."""
        return cls(
            _compose(
                f"trace(f) takes positional arguments only, and got {', '.join(names)}.",
                "Fix the others beforehand: trace(functools.partial(f, name=value)).",
            )
        )

    @classmethod
    def leaf(cls, kind: type) -> Self:
        """An argument is no array."""
        return cls(
            _compose(
                f"trace(f) takes arrays and floats, in containers, and got a value of type {kind.__name__}.",
                "Fix it beforehand: trace(functools.partial(f, name=value)).",
            )
        )

    @classmethod
    def parameter(cls, kind: type) -> Self:
        """A static parameter cannot be written to a file."""
        return cls(
            _compose(
                f"a tape with a parameter of type {kind.__name__} cannot be saved.",
                "Files hold numbers, strings, slices, dtypes and arrays, in tuples, lists and dicts.",
            )
        )

    @classmethod
    def container(cls, kind: type) -> Self:
        """A container cannot be written to a file."""
        return cls(
            _compose(
                f"a tape with arguments or a result in a container of type {kind.__name__} cannot be saved.",
                "Files know tuples, lists and dicts with strings for keys.",
            )
        )

    @classmethod
    def file(cls, path: str) -> Self:
        """The file holds no tape."""
        return cls(
            _compose(f"{path} does not hold a tape.", "Tape.load reads what Tape.save of this version has written.")
        )

    @classmethod
    def unknown_op(cls, name: str) -> Self:
        """The file uses an operation that is not declared here."""
        return cls(
            _compose(
                f"the tape uses the operation {name!r}, which this version of jitgrad does not know.",
                "Load it with the version that has saved it, or import what declares the operation first.",
            )
        )


class RetraceWarning(UserWarning):
    """A compiled function is traced over and over."""

    @classmethod
    def guards(cls, name: str, n_traces: int, where: object) -> Self:
        """The value that Python looks at is seldom the same."""
        return cls(
            _compose(
                f"{name} has been traced {n_traces} times for arguments of the same shapes and dtypes.",
                f"What Python does depends on a value at {where}, and each outcome is a trace of its "
                "own: where that makes it slow, choose with jitgrad.numpy.where instead of if, or leave that part "
                "outside of the compiled function.",
            )
        )


class ShapeError(JitgradError, ValueError):
    """Operands of an op do not fit together."""

    @classmethod
    def broadcast(cls, op: str, *shapes: Shape, where: Location | None = None) -> Self:
        """Say that operands of an elementwise op have no common shape."""
        listed = " ".join(str(shape).replace(" ", "") for shape in shapes)
        words = f"operands could not be broadcast together with shapes {listed}"
        advice = f"{op} needs lengths that are equal or 1, counted from the last axis."
        if len(shapes) == 2:
            a, b = shapes
            axes = range(1, min(len(a), len(b)) + 1)
            clash = next(axis for axis in axes if a[-axis] != b[-axis] and 1 not in (a[-axis], b[-axis]))
            # PyTorch's words come first; NumPy's follow, for those who search for these.
            advice = f"{words}: {advice}"
            words = (
                f"The size of tensor a ({a[-clash]}) must match the size of tensor b ({b[-clash]}) at "
                f"non-singleton dimension {max(len(a), len(b)) - clash}"
            )
        return cls(_compose(words, advice, where))

    @classmethod
    def matmul(cls, op: str, a: Shape, b: Shape, *, where: Location | None = None) -> Self:
        """Say that the factors of a product have no axis in common."""
        sizes = " and ".join("x".join(map(str, shape)) for shape in (a, b))
        words = f"mat1 and mat2 shapes cannot be multiplied ({sizes})"
        advice = (
            f"{op} sums over the last axis of the first factor, of shape {a}, and the last but one (of a "
            f"vector, the only) axis of the second, of shape {b}: they must have the same length."
        )
        return cls(_compose(words, advice, where))

    @classmethod
    def inplace(cls, op: str, target: Shape, result: Shape, *, where: Location | None = None) -> Self:
        """Say that a result has no room in the tensor that it is to be written to."""
        words = f"output with shape {[*target]} doesn't match the broadcast shape {[*result]}"
        advice = f"{op} cannot change the shape of the tensor that it writes to: make a new tensor instead."
        return cls(_compose(words, advice, where))

    @classmethod
    def negative(cls, shape: Shape) -> Self:
        """Say that a new tensor cannot have such a length."""
        length = next(n for n in shape if n < 0)
        words = f"Trying to create tensor with negative dimension {length}: {[*shape]}"
        advice = "Lengths are not negative."
        return cls(_compose(words, advice))

    @classmethod
    def operands(cls, op: str, needs: str, *shapes: Shape, where: Location | None = None) -> Self:
        """Say what an op `needs` of its operands, such as ``"square matrices"``, and what it got."""
        words = f"{op} got shape{'s' if len(shapes) > 1 else ''} {' and '.join(map(str, shapes))}"
        advice = f"It needs {needs}."
        return cls(_compose(words, advice, where))


class DtypeError(JitgradError, TypeError):
    """An op got, or would have to make, a dtype that it cannot work with."""

    @classmethod
    def cast(cls, op: str, result: DType, target: DType, *, where: Location | None = None) -> Self:
        """Say that a result would lose its fraction or imaginary part where it is to be written."""
        words = f"result type {result} can't be cast to the desired output type {target}"
        advice = f"Make a new tensor instead of writing the result of {op} in place, or convert it first."
        return cls(_compose(words, advice, where))

    @classmethod
    def operand(cls, op: str, dtype: DType, accepted: str, *, where: Location | None = None) -> Self:
        """Say what an op accepts, such as ``"real floats"``."""
        words = f"{op} does not take dtype {dtype}"
        advice = f"It takes {accepted}: convert with astype."
        return cls(_compose(words, advice, where))

    @classmethod
    def subclass(cls, kind: type) -> Self:
        """Say that an array of another class has a meaning of its own, which would be lost."""
        words = f"jitgrad does not know what operations mean on arrays of type {kind.__module__}.{kind.__name__}"
        advice = (
            "Pass a plain array: numpy.asarray(x), with the mask of a masked array as an array of its own (for "
            "jitgrad.numpy.where, or where=)."
        )
        return cls(_compose(words, advice))

    @classmethod
    def index(cls, dtype: DType, shape: Shape) -> Self:
        """Say that a tensor cannot be used as an index of a Python sequence."""
        words = "only integer tensors of a single element can be converted to an index"
        advice = f"This one has dtype {dtype} and shape {shape}: round or select, then convert with int()."
        return cls(_compose(words, advice))


class RangeError(JitgradError, ValueError, RuntimeError):
    """A range of numbers was asked for that there is not."""

    @classmethod
    def sign(cls, start: object, end: object, step: object) -> Self:
        """Say that the steps lead away from the end."""
        words = "upper bound and lower bound inconsistent with step sign"
        advice = f"From {start} to {end} there is no way in steps of {step}."
        return cls(_compose(words, advice))

    @classmethod
    def step(cls) -> Self:
        """Say that steps of zero lead nowhere."""
        words = "step must be nonzero"
        advice = "For a number of equal elements use full()."
        return cls(_compose(words, advice))

    @classmethod
    def steps(cls, steps: int) -> Self:
        """Say that there is no negative number of elements."""
        words = "number of steps must be non-negative"
        advice = f"linspace() was asked for {steps} elements."
        return cls(_compose(words, advice))


class NoGradientError(JitgradError, TypeError, NotImplementedError):
    """An op that has no derivative was to be differentiated."""

    @classmethod
    def op(cls, op: str, operand: str | None = None, *, where: Location | None = None) -> Self:
        """Name the op and, when it has a derivative by others of its operands, the operand."""
        name, by = (op, "") if operand is None else (f"{op}: {operand}", f" by its operand {operand}")
        words = f"the derivative for '{name}' is not implemented."
        advice = (
            f"{op} cannot be differentiated{by}: if its result is to count as a constant, wrap the operand "
            "in stop_gradient() or detach() it."
        )
        return cls(_compose(words, advice, where))


# --- checking ----------------------------------------------------------------------------------------------


class GradCheckError(JitgradError, AssertionError):
    """A derivative differs from the numerical one by more than the tolerance."""

    @classmethod
    def mismatch(
        cls,
        output: int,
        input: int,
        numerical: npt.NDArray[Any],
        analytical: npt.NDArray[Any],
        *,
        mode: str,
        order: int = 1,
        atol: float,
        rtol: float,
    ) -> Self:
        """Show both derivatives; `mode` is ``"reverse"`` or ``"forward"``."""
        words = (
            f"Jacobian mismatch for output {output} with respect to input {input},\n"
            f"numerical:{numerical}\nanalytical:{analytical}"
        )
        advice = (
            f"The {mode}-mode derivative of order {order} is not within {atol:g} + {rtol:g} * |numerical|: "
            "correct the rule, or check at a point where the function is smooth and in float64."
        )
        return cls(_compose(words, advice))
