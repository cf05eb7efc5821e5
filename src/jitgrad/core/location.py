"""Where in the user's code an instruction was recorded.

At record time only the code object and the offset in it are taken; file and line are worked out when asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

__all__ = ["PACKAGE", "Location", "resolve", "user_frame"]

PACKAGE = str(Path(__file__).resolve().parent.parent)


class Location(NamedTuple):
    """A line of a source file."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def user_frame(depth: int = 1) -> FrameType:
    """Return the innermost frame, from ``depth`` callers up, that is not jitgrad's own."""
    frame = sys._getframe(depth)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def resolve(code: CodeType, offset: int) -> Location:
    """Return the line of the instruction at ``offset`` of ``code``."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            line = number
            break
    return Location(code.co_filename, line, code.co_qualname)
