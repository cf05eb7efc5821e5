"""Registered dataclasses are containers as dicts are."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.errors import DifferentiationTypeError
from jitgrad.trees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Layer:
    weights: Any
    offset: Any


@register_dataclass(static=["name", "power"])
@dataclasses.dataclass
class Model:
    layers: list[Layer]
    scale: float
    name: str
    power: int = 2
    total: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = self.scale * 3.0


def energy(model: Model) -> Any:
    first, second = model.layers
    return np.sum(first.weights * second.weights) * model.scale + second.offset * model.total


def make() -> Model:
    return Model([Layer(np.array([1.0, 2.0]), 0.5), Layer(np.array([3.0, 5.0]), 4.0)], 2.0, "m")


def test_gradient_has_the_structure_of_the_argument() -> None:
    gradient = jg.grad(energy)(make())
    assert type(gradient) is Model
    assert (gradient.name, gradient.power) == ("m", 2)
    first, second = gradient.layers
    assert type(first) is Layer
    np.testing.assert_array_equal(first.weights, [6.0, 10.0])
    np.testing.assert_array_equal(second.weights, [2.0, 4.0])
    assert (first.offset, second.offset) == (0.0, 6.0)
    # through the field that __post_init__ computes too
    assert gradient.scale == 13.0 + 4.0 * 3.0


def test_functions_may_return_registered_classes() -> None:
    out, pullback = jg.vjp(lambda x: Layer(x * 2.0, np.sum(x)), np.array([1.0, 2.0]))
    assert isinstance(out, Layer)
    assert out.offset == 3.0
    (bar,) = pullback(Layer(np.array([1.0, 0.0]), 10.0))
    np.testing.assert_array_equal(bar, [12.0, 10.0])


def test_forward_mode() -> None:
    x = Layer(np.array([1.0, 2.0]), 3.0)
    _, moved = jg.jvp(lambda x: np.sum(x.weights) * x.offset, (x,), (Layer(np.array([1.0, 0.0]), 2.0),))
    assert moved == 3.0 + 3.0 * 2.0


def test_unregistered_dataclasses_are_not_looked_into() -> None:
    @dataclasses.dataclass
    class Plain:
        x: float

    with pytest.raises(DifferentiationTypeError, match="Plain"):
        jg.grad(lambda p: p.x * 2.0)(Plain(1.0))


def test_errors_name_the_field() -> None:
    with pytest.raises(DifferentiationTypeError, match="offset"):
        jg.grad(lambda layer: layer.weights)(Layer(1.0, 2))


def test_a_class_that_is_no_dataclass_yet_is_made_one() -> None:
    @register_dataclass
    class Point:
        x: float
        y: float

    assert dataclasses.is_dataclass(Point)
    assert jg.grad(lambda p: p.x * p.y)(Point(2.0, 3.0)) == Point(3.0, 2.0)


def test_a_subclass_is_not_registered_with_its_base() -> None:
    @register_dataclass
    class Base:
        x: float

    class Derived(Base):
        pass

    with pytest.raises(DifferentiationTypeError, match="Derived"):
        jg.grad(lambda p: p.x)(Derived(1.0))


def test_static_must_name_fields() -> None:
    with pytest.raises(TypeError, match="'size'"):
        register_dataclass(dataclasses.make_dataclass("Thing", ["x"]), static=["size"])


def test_constructor_must_take_no_more_than_the_fields() -> None:
    @dataclasses.dataclass
    class Thing:
        x: float
        n: dataclasses.InitVar[int]

    with pytest.raises(TypeError, match="'n'"):
        register_dataclass(Thing)


def test_registering_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="already registered"):
        register_dataclass(Layer)
