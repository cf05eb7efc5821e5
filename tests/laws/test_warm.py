"""A process that finds the kernels of an earlier one compiles nothing: what they are kept under is the same in each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys

import numpy as np

import jitgrad as jg
from jitgrad.core.op import REGISTRY
from tests.laws.cases import case_of, is_inexact, parts, seeded

for op in list(REGISTRY.values()):
    for index in range(len(list(op.samples(seeded(op.name))))):
        case = case_of(op, index)
        out = case.run()
        if case.varying and is_inexact(parts(out)[0]):
            out, pullback = jg.vjp(case.f, *case.point)
            pullback(case.cotangents(out))
            jg.jvp(case.f, case.point, case.tangents())
            jg.jit(case.f)(*case.point)
    if "numba" in sys.modules:
        sys.exit(f"{op.name} was compiled")
"""


@pytest.mark.slow
def test_nothing_is_compiled_twice() -> None:
    first = PROGRAM.replace('if "numba" in sys.modules:', "if False:")
    for program in (first, PROGRAM):
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=900, check=False
        )
        assert run.returncode == 0, run.stderr
