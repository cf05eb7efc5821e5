"""Tapes to keep: replayed, printed, differentiated, saved and loaded in a process without the source."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.errors import TapeError

X = np.array([0.1, 0.5, 0.9])


def model(params: Any, x: Any) -> Any:
    hidden = np.tanh(params["w"] @ x + params["b"])
    return {"loss": np.sum(hidden[1:] ** 2) - np.max(hidden), "hidden": (hidden, None), "name": "model"}


PARAMS = {"w": np.arange(6.0).reshape(2, 3) / 10, "b": np.array([0.5, -0.5])}


def loss(params: Any, x: Any) -> Any:
    return model(params, x)["loss"]


def test_replays() -> None:
    tape = jg.trace(model)(PARAMS, X)
    for k in (1.0, 2.0):
        found, wanted = tape(PARAMS, X * k), model(PARAMS, X * k)
        np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=1e-14)
        np.testing.assert_allclose(found["hidden"][0], wanted["hidden"][0], rtol=1e-14)
        assert found["hidden"][1] is None
        assert found["name"] == "model"


def test_is_printed_with_types_and_lines() -> None:
    tape = jg.trace(lambda x: np.sum(x * 2.0))(X)
    first, second, third, last = str(tape).splitlines()
    assert first == "%0: float64[3] = input"
    assert second.startswith("%2: float64[3] = multiply %0 2.0")
    assert "# test_tape.py:" in second
    assert third.startswith("%3: float64[] = sum %2 [axes=(0,), keepdims=False]")
    assert last == "return %3"
    assert repr(tape) == "<Tape of 2 instructions (float64[3])>"
    assert len(tape) == 2


def test_derivatives_are_tapes() -> None:
    tape = jg.trace(loss)(PARAMS, X)
    value, (db, dw, dx) = tape.vjp()(PARAMS, X, (1.0,))
    grads, gx = jg.grad(loss, argnums=(0, 1))(PARAMS, X)
    np.testing.assert_allclose(value, loss(PARAMS, X), rtol=1e-14)
    np.testing.assert_allclose(dw, grads["w"], rtol=1e-12)
    np.testing.assert_allclose(db, grads["b"], rtol=1e-12)
    np.testing.assert_allclose(dx, gx, rtol=1e-12)
    tangents = (np.ones(2), np.ones((2, 3)), np.ones(3))
    _, (moved,) = tape.jvp()(PARAMS, X, tangents)
    np.testing.assert_allclose(moved, np.sum(db) + np.sum(dw) + np.sum(dx), rtol=1e-12)
    # the derivative of a derivative: the Hessian times a direction
    still = (np.zeros(2), np.zeros((2, 3)), np.ones(3), 0.0)
    _, moved_bars = tape.vjp().jvp()(PARAMS, X, (1.0,), still)
    wanted = jg.hvp(lambda x: loss(PARAMS, x), (X,), (np.ones(3),))
    np.testing.assert_allclose(moved_bars[-1], wanted[0] if isinstance(wanted, tuple) else wanted, rtol=1e-10)


def test_integers_take_no_part_in_derivatives() -> None:
    tape = jg.trace(lambda x, index: x[index] * 2.0)(X, np.array([2, 0]))
    value, bars = tape.vjp()(X, np.array([0, 0]), (np.ones(2),))
    np.testing.assert_array_equal(value, [0.2, 0.2])
    assert len(bars) == 1
    np.testing.assert_array_equal(bars[0], [4.0, 0.0, 0.0])


def test_guards_are_checked() -> None:
    tape = jg.trace(lambda x: np.sin(x) if x > 0 else x)(1.0)
    assert tape(2.0) == np.sin(2.0)
    with pytest.raises(TapeError, match=r"Python has looked at one while it was recorded(?s:.*)test_tape.py"):
        tape(-1.0)
    assert tape(3.0) == np.sin(3.0)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((X,), "arguments of the structure"),
        ((PARAMS, X[:2]), r"type float64\[3\], and got float64\[2\]"),
        ((PARAMS, X.astype(np.float32)), r"type float64\[3\], and got float32\[3\]"),
        (({**PARAMS, "c": 1.0}, X), "arguments of the structure"),
    ],
)
def test_other_arguments_are_refused(args: Any, text: str) -> None:
    with pytest.raises(TapeError, match=text):
        jg.trace(model)(PARAMS, X)(*args)


def test_what_cannot_be_traced_is_refused() -> None:
    with pytest.raises(TapeError, match="a value of type str"):
        jg.trace(lambda x, how: x)(X, "fast")
    with pytest.raises(TapeError, match="positional arguments only, and got how"):
        jg.trace(lambda x, how: x)(X, how=1.0)
    assert jg.trace(functools.partial(lambda x, how: x * 2.0, how="fast"))(1.0)(2.0) == 4.0


def test_stats() -> None:
    stats = jg.trace(lambda a, b: np.sum(np.sin(a @ b)))(np.ones((4, 5)), np.ones((5, 6))).stats()
    assert stats.instructions == 3
    assert stats.python_steps == 0
    assert stats.flops == 2 * 4 * 5 * 6 + 24 + 24
    assert stats.bytes >= 24 * 8


def test_saved_and_loaded(tmp_path: Path) -> None:
    tape = jg.trace(loss)(PARAMS, X)
    path = tmp_path / "loss.npz"
    tape.vjp().save(path)
    loaded = jg.Tape.load(path)
    value, bars = loaded(PARAMS, X * 2, (1.0,))
    wanted, wanted_bars = tape.vjp()(PARAMS, X * 2, (1.0,))
    assert value == wanted
    for one, other in zip(bars, wanted_bars, strict=True):
        np.testing.assert_array_equal(one, other)
    script = (
        "import sys, numpy as np, jitgrad as jg\n"
        "tape = jg.Tape.load(sys.argv[1])\n"
        "params = {'w': np.arange(6.0).reshape(2, 3) / 10, 'b': np.array([0.5, -0.5])}\n"
        "print(repr(float(tape(params, np.array([0.2, 1.0, 1.8]), (1.0,))[0])))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert float(run.stdout) == wanted


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[::-1] + x[np.array([2, 0, 1])],
        lambda x: np.where(x > 0.3, x, -0.0) * np.float32(2.0),
        lambda x: np.einsum("i,j->ij", x, x).astype(np.float32),
        lambda x: x * np.array([1.0, np.nan, np.inf]) + 1j,
        lambda x: [x.reshape(3, 1), {"a": np.argmax(x), "b": ()}],
        lambda x: (x if np.sum(x) > 0 else -x)[None, ..., :2],
    ],
)
def test_every_kind_of_parameter_is_saved(f: Any, tmp_path: Path) -> None:
    import optree

    tape = jg.trace(f)(X)
    tape.save(tmp_path / "tape.npz")
    loaded = jg.Tape.load(tmp_path / "tape.npz")
    for one, other in zip(optree.tree_leaves(loaded(X)), optree.tree_leaves(tape(X)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert len(loaded) == len(tape)


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    Pair = namedtuple("Pair", "a b")
    tape = jg.trace(lambda x: Pair(x, x * 2.0))(X)
    with pytest.raises(TapeError, match="a container of type Pair"):
        tape.save(tmp_path / "tape.npz")
    np.savez(tmp_path / "other.npz", a=X)
    with pytest.raises(TapeError, match="does not hold a tape"):
        jg.Tape.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        jg.Tape.load(tmp_path / "missing.npz")
