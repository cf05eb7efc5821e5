"""The kernel cache: object code on disk, one file a kernel, loaded without importing Numba.

The folder's name holds what changes the meaning of all kernels (the compilers' versions, the processor); a file's name
holds the fingerprint of what was compiled. Files are written whole, then renamed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding as llvm

__all__ = ["folder", "is_ours", "load", "root", "sources", "store"]

_CHECKSUM = hashlib.sha256().digest_size


def root() -> Path:
    """Where the kernels of all machines and versions are kept."""
    chosen = os.environ.get("JITGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "jitgrad"


@functools.cache
def folder() -> Path:
    """Where the kernels for this machine and these versions are kept."""
    digest = hashlib.sha256()
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(f"{package} {version(package)}\n".encode())
    digest.update(f"{sys.implementation.cache_tag} {llvm.get_default_triple()}\n".encode())
    digest.update(f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}\n".encode())
    return root() / digest.hexdigest()[:24]


def is_ours(path: Path) -> bool:
    """Tell whether a folder has such a name as `folder` gives."""
    return len(path.name) == 24 and not path.name.strip("0123456789abcdef")


@functools.cache
def sources(*names: str) -> str:
    """Return a fingerprint of modules and packages of `jitgrad.kernels`, to name what is compiled from them."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for name in ("compile", "intrinsics", "layout", *names):
        module = here / f"{name}.py"
        for source in [module] if module.exists() else sorted((here / name).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def load(name: str) -> bytes | None:
    """The object code kept under ``name``, or None where there is none or the file is not what was written."""
    try:
        data = (folder() / f"{name}.o").read_bytes()
    except OSError:
        return None
    checksum, code = data[:_CHECKSUM], data[_CHECKSUM:]
    return code if hashlib.sha256(code).digest() == checksum else None


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"jitgrad cannot keep its compiled kernels in {folder()} ({reason}); they are compiled again in every "
        "process. Set JITGRAD_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


def store(name: str, code: bytes) -> None:
    """Keep object code under ``name``; a folder that cannot be written costs one warning and no more."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder(), prefix=name, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(temporary, folder() / f"{name}.o")
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        _warn_once(error.strerror or type(error).__name__)
