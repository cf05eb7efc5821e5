"""The command line: ``python -m benchmarks.peers --help``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.peers import environment, machine, report, run, tools
from benchmarks.peers.sections import SECTIONS, Row

RESULTS = Path(__file__).parent / "results"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0])
    rows = sorted({row.key for section in SECTIONS.values() for row in section.rows})
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Compare jitgrad with other tools, side by side. A run of whole sections is written to "
        "benchmarks/peers/results, any other to benchmarks/peers/results/partial.",
    )
    parser.add_argument(
        "--sections",
        nargs="+",
        choices=SECTIONS,
        default=list(SECTIONS),
        metavar="NAME",
        help=f"of {', '.join(SECTIONS)}",
    )
    parser.add_argument("--workloads", nargs="+", choices=rows, metavar="NAME", help=f"of {', '.join(rows)}")
    parser.add_argument("--tools", nargs="+", choices=tools.TOOLS, metavar="NAME", help=f"of {', '.join(tools.TOOLS)}")
    parser.add_argument("--rounds", type=int, default=11, help="turns that each tool gets (11)")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="seconds for a first value and gradient, compilation included (120)",
    )
    parser.add_argument("--quick", action="store_true", help="three short rounds: does everything work?")
    parser.add_argument("--render", action="store_true", help="do not measure: make table and plot again")
    parser.add_argument("--output", type=Path, help="folder for results.md, results.png and results.json")
    parser.add_argument(
        "--update-readme",
        action="store_true",
        help=f"paste the tables between {report.BEGIN} and {report.END} in README.md",
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    options.partial = bool(options.quick or options.workloads or options.tools)
    if options.partial and options.update_readme:
        parser.error("the README takes whole runs only: no --quick, --workloads or --tools")
    return options


def run_section(name: str, arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure a section; return it as it goes into the results."""
    section = SECTIONS[name]
    wanted = [tool for tool in section.tools if arguments.tools is None or tool in arguments.tools]
    absent = {tool: lacking for tool in wanted if (lacking := tools.missing(tool))}
    used = [tool for tool in wanted if tool not in absent]
    rows: list[Row] = [row for row in section.rows if arguments.workloads is None or row.key in arguments.workloads]
    options = run.Options(
        rounds=3 if arguments.quick else arguments.rounds,
        budget=0.03 if arguments.quick else 0.2,
        batch=0.005 if arguments.quick else 0.02,
        limit=arguments.limit,
    )
    description = machine.describe()
    progress = Progress(
        TextColumn("{task.description:40}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    )
    with run.Processes() as processes, progress:
        versions: dict[str, str] = {}
        for tool in used:
            versions |= processes[tool].request("versions")
        task = progress.add_task(name, total=len(rows))
        lines = []
        for row in rows:
            lines.append(
                run.measure(
                    row,
                    used,
                    section.base,
                    options,
                    processes,
                    lambda text: progress.update(task, description=text),
                )
            )
            progress.advance(task)
    return {
        "title": section.title,
        "base": section.base,
        "tools": wanted,
        "absent": absent,
        "options": options._asdict(),
        "machine": description,
        "versions": versions,
        "lines": lines,
    }


def failures(section: dict[str, Any]) -> list[str]:
    """Return what went wrong, with the tracebacks."""
    found = [f"{report.title(line)}: {line['error']}" for line in section["lines"] if "error" in line]
    for line in section["lines"]:
        for tool, cell in line["cells"].items():
            if "error" in cell:
                found.append(f"{report.title(line)}, {tool}:\n{cell.pop('error')}")
    return found


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    console = Console()
    folder = options.output or (RESULTS / "partial" if options.partial else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "results.json"
    results: dict[str, Any] = {"sections": {}}
    if store.exists() and (options.render or not options.partial):
        results = json.loads(store.read_text(encoding="utf-8"))
    failed: list[str] = []
    if not options.render:
        environment.pin()
        for name in options.sections:
            section = run_section(name, options, console)
            failed += failures(section)
            results["sections"][name] = section
        store.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for section in results["sections"].values():
        report.print_section(section, console)
    text = report.markdown(results)
    (folder / "results.md").write_text(text, encoding="utf-8")
    from benchmarks.peers import plot  # takes a second to import: not before the measurements

    if not plot.draw(results, folder / "results.png"):
        console.print("No plot: there is no ratio without the section's base among the tools.")
    if options.update_readme:
        report.update_readme(environment.ROOT / "README.md", text)
    for failure in failed:
        console.print(f"failed: {failure}", style="red", highlight=False, markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
