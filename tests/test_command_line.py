"""``python -m jitgrad``: what is in the kernel cache, and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitgrad import __main__ as command_line
from jitgrad.kernels import cache


def test_info_names_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["cache", "info"]) == 0
    printed = capsys.readouterr().out
    assert str(cache.root()) in printed
    assert f"{cache.folder().name}: " in printed
    assert "this machine and these versions" in printed


def test_clear_deletes_kernels_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    kernels, others = tmp_path / ("0123456789ab" * 2), tmp_path / "notes"
    for folder in (kernels, others):
        folder.mkdir()
        (folder / "file.o").write_bytes(b"x" * 2000)
    command_line.main(["cache", "info"])
    assert "1 files, 2.0 kB (another machine, or other versions)" in capsys.readouterr().out
    command_line.main(["cache", "clear"])
    assert capsys.readouterr().out == f"deleted 1 files, 2.0 kB, from {tmp_path}\n"
    assert not kernels.exists()
    assert (others / "file.o").exists()


def test_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "none"))
    command_line.main(["cache", "info"])
    assert "empty" in capsys.readouterr().out
    command_line.main(["cache", "clear"])
    assert "deleted 0 files" in capsys.readouterr().out


def test_precompile_compiles_what_it_lists(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name, _ in command_line.kernels()]
    assert len(names) == len(set(names)) > 500
    assert "tanh d, VJP by x" in names
    assert "compiled calls" in names
    compiled: list[str] = []
    monkeypatch.setattr(command_line, "kernels", lambda: [(n, lambda n=n: compiled.append(n)) for n in ("a", "b")])
    command_line.main(["precompile"])
    assert compiled == ["a", "b"]
    assert "kernel cache: " in capsys.readouterr().out


def test_a_mistake_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["cache", "burn"])
    assert "invalid choice: 'burn'" in capsys.readouterr().err
