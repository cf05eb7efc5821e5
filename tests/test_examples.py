"""The examples run and reach what they promise."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    # a process of its own, as the user runs it
    environment = {**os.environ, "PYTHONWARNINGS": "error::RuntimeWarning"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accuracy_in(output: str) -> float:
    (line,) = (line for line in output.splitlines() if line.startswith("held-out accuracy"))
    return float(line.split()[2])


def test_digits_are_recognised_and_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "digits.png"
    assert accuracy_in(run("digits.py", "--output", str(picture))) >= 95
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_digits_with_tensors_are_recognised() -> None:
    assert accuracy_in(run("pytorch_style.py")) >= 95


def test_logistic_regression_finds_the_optimum_of_scikit_learn() -> None:
    example = load("logistic_scipy")
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    x, labels = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    ours = example.fit(x, 2.0 * labels - 1.0)
    solver = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}
    reference = LogisticRegression(C=1 / example.PENALTY, **solver).fit(x, labels)
    np.testing.assert_allclose(ours.x, np.append(reference.coef_[0], reference.intercept_), rtol=0, atol=1e-6)
    assert ours.fun == pytest.approx(example.objective(ours.x, x, 2.0 * labels - 1.0), rel=1e-12)
