"""Trees of containers: which classes are seen through to the arrays in them.

Transforms look into tuples, lists, dicts and named tuples by themselves. A dataclass is looked into once it
has been registered here; without that it is a leaf, and being no number, an error.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, dataclass_transform, overload

import optree

from jitgrad.transforms.trace import NAMESPACE

__all__ = ["register_dataclass"]

C = TypeVar("C")


@overload
def register_dataclass(cls: type[C], /, *, static: Iterable[str] = ()) -> type[C]: ...


@overload
def register_dataclass(cls: None = None, /, *, static: Iterable[str] = ()) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform()
def register_dataclass(cls: type[C] | None = None, /, *, static: Iterable[str] = ()) -> Any:
    """Let transforms look into a dataclass: its fields are arrays, or trees of them.

    Works as a decorator, by itself or with arguments. A class that is not a dataclass yet is made one.

    Parameters
    ----------
    cls : type
        The class. Its subclasses are not registered with it.
    static : iterable of str
        Fields that are settings rather than arrays: names, sizes, functions. They are handed on as they are,
        and no derivative is taken with respect to them. Their values must be hashable.

    Returns
    -------
    type
        The class.

    Raises
    ------
    TypeError
        If ``static`` names no field that the constructor takes, or the constructor needs more than the
        fields (``InitVar``), so that an instance could not be made again.
    ValueError
        If the class is registered already.

    Notes
    -----
    Where a transform puts other values in the place of the arrays, it calls the class with all fields that
    its constructor takes. Fields with ``init=False`` are what the class computes from the others in
    ``__post_init__``: derivatives flow through that computation.

    Examples
    --------
    >>> import numpy as np
    >>> import jitgrad as jg
    >>> from jitgrad.trees import register_dataclass
    >>> @register_dataclass(static=["name"])
    ... class Line:
    ...     slope: float
    ...     offset: float
    ...     name: str = "line"
    >>> jg.grad(lambda line: line.slope * 3.0 + line.offset)(Line(1.0, 2.0))
    Line(slope=np.float64(3.0), offset=np.float64(1.0), name='line')
    """

    def register(cls: type[C]) -> type[C]:
        made: Any = cls if "__dataclass_fields__" in cls.__dict__ else dataclasses.dataclass(cls)
        names = [field.name for field in dataclasses.fields(made) if field.init]
        settings = tuple(static)
        for name in settings:
            if name not in names:
                raise TypeError(f"static names {name!r}, which is no field that {cls.__name__}() takes")
        for name, parameter in inspect.signature(made).parameters.items():
            if name not in names and parameter.default is parameter.empty:
                raise TypeError(f"{cls.__name__}() needs {name!r}, which an instance does not keep as a field")
        fixed = tuple(name for name in names if name in settings)
        varying = tuple(name for name in names if name not in settings)

        def flatten(instance: Any) -> tuple[list[Any], tuple[Any, ...], tuple[str, ...]]:
            values = [getattr(instance, name) for name in varying]
            return values, tuple(getattr(instance, name) for name in fixed), varying

        def unflatten(kept: Any, values: Iterable[Any]) -> Any:
            return made(**dict(zip(varying, values, strict=True)), **dict(zip(fixed, kept, strict=True)))

        optree.register_pytree_node(made, flatten, unflatten, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)
        registered: type[C] = made
        return registered

    return register if cls is None else register(cls)
