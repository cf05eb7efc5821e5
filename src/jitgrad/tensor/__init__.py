"""The imperative face: tensors that one makes, computes with, and calls ``backward()`` on, as in PyTorch.

Importing this installs the methods. ``jitgrad.tensor`` itself is the function that makes tensors; what is in here can
be imported under its full name all the same.
"""

from jitgrad.tensor import (
    attributes,
    backward,
    conversion,
    creation,
    graph,
    hooks,
    methods,
    modes,
    printing,
)

__all__ = [
    "attributes",
    "backward",
    "conversion",
    "creation",
    "graph",
    "hooks",
    "methods",
    "modes",
    "printing",
]
