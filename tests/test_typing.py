"""What type checkers know of tensors: the methods that ops install, from the registry."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import jitgrad as jg
from tools.stub import STUB, text

USER = """
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import jitgrad as jg

w = jg.ones(3, requires_grad=True)
data = np.ones((2, 3))
y: jg.Tensor = jg.ones(2, 3).sum(axis=0).T @ w
from_array: jg.Tensor = data @ w
numbers: jg.Tensor = 2.0 * y - y**2 / 3 + -abs(y) // 1
columns: jg.Tensor = w[..., None][0, :]
chosen: jg.Tensor = (w > 0) & (w == w)
shape: tuple[int, ...] = w.reshape(3, 1).mT.shape
rows: list[jg.Tensor] = [row.exp().add_(1.0) for row in jg.ones(2, 3)]
backwards: Iterator[jg.Tensor] = reversed(w)
pair: tuple[jg.Tensor, jg.Tensor] = divmod(w, 2.0)
array: npt.NDArray[np.float64] = w.detach().numpy()
loss: jg.Tensor = ((data @ w - 1.0) ** 2).mean()
loss.backward(retain_graph=True)
if w.grad is not None:
    w.data -= 0.1 * w.grad
    w[0] = w.grad.max()
w.requires_grad = False
name: str = loss.grad_fn.name() if loss.grad_fn is not None else ""
size: int = w.numel() + len(w) + w.size + w.dim() + int(w[0])


def model(x: jg.Tensor, *, scale: float = 1.0) -> jg.Tensor:
    hidden = (x @ x.T).tanh().clip(min=0.0)
    hidden *= scale
    return hidden.mean(axis=(0, 1), keepdims=True).squeeze()
"""

# Each line is wrong, and what is wrong with it is said.
MISTAKES = {
    "jg.ones(2).summ()": 'has no attribute "summ"',
    "jg.ones(2).sum(axes=0)": 'Unexpected keyword argument "axes"',
    "a: int = jg.ones(2).sum()": "Incompatible types in assignment",
    "b: str = jg.ones(2).shape": "Incompatible types in assignment",
    "c: jg.Tensor = jg.ones(2).numpy()": "Incompatible types in assignment",
    "jg.ones(2).is_leaf = True": "read-only",
    "jg.ones(2).exp(2.0)": "Too many arguments",
    "jg.ones(2).grad.sum()": '"None" of "Tensor | None" has no attribute',
}


def checked(folder: Path, source: str) -> dict[int, str]:
    """Check a program as strictly as mypy can; return what it says, by line."""
    program = folder / "program.py"
    program.write_text(dedent(source), encoding="utf-8")
    place = Path(jg.__file__).resolve().parent.parent
    found = "" if place.name.endswith("-packages") else f"mypy_path = {place}\n"
    # errors in jitgrad's own files, which refer to libraries without types, are for the linter to find
    config = f"[mypy]\nstrict = True\nfollow_imports = silent\ncache_dir = {folder}\n{found}"
    (folder / "mypy.ini").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini"), str(program)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    messages = re.findall(r"^program\.py:(\d+): error: (.*)$", run.stdout, re.MULTILINE)
    assert len(messages) == len({line for line, _ in messages}), run.stdout
    return {int(line): message for line, message in messages}


def test_declarations_are_what_is_installed() -> None:
    assert STUB.read_text(encoding="utf-8") == text(), "run `python tools/stub.py`"


def test_programs_on_tensors_are_checked(tmp_path: Path) -> None:
    assert checked(tmp_path, USER) == {}
    lines = ["import jitgrad as jg", *MISTAKES]
    messages = checked(tmp_path, "\n".join(lines))
    assert set(messages) == set(range(2, len(lines) + 1))
    for line, message in messages.items():
        assert MISTAKES[lines[line - 1]] in message
