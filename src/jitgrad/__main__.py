"""The command line: ``python -m jitgrad cache info``, ``cache clear``, ``precompile``."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from jitgrad.kernels import cache


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 100_000 else f"{n_bytes / 1e3:.1f} kB"


def info() -> str:
    """Return what is in the kernel cache."""
    root, mine = cache.root(), cache.folder()
    lines = [f"kernel cache: {root}"]
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    for folder in folders:
        files = [path for path in folder.iterdir() if path.is_file()]
        total = sum(path.stat().st_size for path in files)
        note = "this machine and these versions" if folder == mine else "another machine, or other versions"
        lines.append(f"  {folder.name}: {len(files)} files, {_size(total)} ({note})")
    if not folders:
        lines.append("  empty")
    return "\n".join(lines)


def clear() -> str:
    """Delete the kernel cache; say how much that was."""
    root = cache.root()
    folders = [path for path in root.iterdir() if path.is_dir() and cache.is_ours(path)] if root.is_dir() else []
    files = [path for folder in folders for path in folder.iterdir() if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    for folder in folders:
        shutil.rmtree(folder)
    return f"deleted {len(files)} files, {_size(total)}, from {root}"


def kernels() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of every kernel that can be compiled before it is needed, and what compiles it."""
    from jitgrad.core.elementwise import Elementwise
    from jitgrad.core.op import REGISTRY
    from jitgrad.kernels.rows import KERNELS
    from jitgrad.machine import kernels as rows

    yield "compiled calls", rows.call_address
    for name in rows.ENTRIES:
        yield f"compiled replay, {name}", partial(rows.entry, name)
    for name in KERNELS:
        yield f"compiled rows, {name}", partial(rows.address_of, name)
    for op in REGISTRY.values():
        if not isinstance(op, Elementwise):
            continue
        for dtype, letter in ((0, "d"), (1, "f")):
            yield f"{op.name} {letter}", partial(op.forward_address, dtype)
            for k, operand in enumerate(op.operands or ()):
                if operand in op.partials:
                    yield f"{op.name} {letter}, VJP by {operand}", partial(op.vjp_address, k, dtype)
            yield f"{op.name} {letter}, scalar", op.assembly(letter)[2]


def precompile() -> str:
    """Compile every kernel into the cache, with a progress bar; say what there is then."""
    for _, compile_one in _shown(list(kernels())):
        compile_one()
    return info()


def _shown(work: Sequence[tuple[str, Callable[[], object]]]) -> Iterable[tuple[str, Callable[[], object]]]:
    try:
        from rich.progress import track
    except ImportError:  # rich is an extra: a line for each tenth then
        return _counted(work)
    return track(work, description="compiling kernels")


def _counted(work: Sequence[tuple[str, Callable[[], object]]]) -> Iterator[tuple[str, Callable[[], object]]]:
    for number, item in enumerate(work):
        if number % max(len(work) // 10, 1) == 0:
            print(f"compiling kernels: {number} of {len(work)}", file=sys.stderr, flush=True)
        yield item


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jitgrad", description="The kernel cache of jitgrad.")
    commands = parser.add_subparsers(dest="command", required=True)
    of_cache = commands.add_parser("cache", help="what is in the kernel cache, or delete it")
    of_cache.add_argument("action", choices=("info", "clear"))
    commands.add_parser("precompile", help="compile every kernel into the cache, for images and clusters")
    chosen = parser.parse_args(arguments)
    if chosen.command == "precompile":
        print(precompile())
    else:
        print(info() if chosen.action == "info" else clear())
    return 0


if __name__ == "__main__":
    sys.exit(main())
