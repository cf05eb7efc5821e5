"""Results as tables: on the terminal, in Markdown, and pasted into the README."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.peers.sections import SUFFIX
from benchmarks.peers.tools import TOOLS

BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"
COMMAND = "python -m benchmarks.peers"


def digits(number: float) -> str:
    """Return a number with about three significant digits, never in exponent form."""
    if number <= 0.0:
        return f"{number:g}"
    decimals = 2 - math.floor(math.log10(number) + 1e-3)
    return f"{number:.{max(decimals if number >= 0.995 else decimals - 1, 0)}f}"


def amount(number: float, measure: str) -> str:
    """Return seconds or bytes for people."""
    if measure == "memory":
        return f"{digits(number / 1e6)} MB"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if number >= scale:
            return f"{digits(number / scale)} {unit}"
    return f"{digits(number / 1e-9)} ns"


def title(line: dict[str, Any]) -> str:
    return f"{line['title']}{SUFFIX[line['measure']]}"


def cell_text(line: dict[str, Any], tool: str) -> str:
    """Return what stands in a cell: the figure, and its ratio to ours in brackets."""
    cell = line["cells"].get(tool)
    if cell is None:
        return "error" if "error" in line else ""
    if "none" in cell:
        return str(cell["none"])
    text = amount(cell["median"], line["measure"])
    return f"{text} ({digits(cell['ratio'])})" if cell.get("ratio", 1.0) != 1.0 else text


def goals(section: dict[str, Any]) -> Iterator[tuple[str, str, float, float | None]]:
    """Yield title, peer, least ratio and measured ratio (None if it was not measured)."""
    for line in section["lines"]:
        for tool, goal in line["goals"].items():
            yield title(line), tool, goal, line["cells"].get(tool, {}).get("ratio")


def present(section: dict[str, Any]) -> list[str]:
    return [tool for tool in section["tools"] if tool not in section["absent"]]


def print_section(section: dict[str, Any], console: Console) -> None:
    """Print a table, the spread of each figure below it."""
    table = Table(title=section["title"], title_justify="left", row_styles=("", "on grey11"))
    table.add_column("workload")
    base = section["base"]
    for tool in present(section):
        table.add_column(TOOLS[tool].label, justify="right", style="bold" if tool == base else "")
    for line in section["lines"]:
        texts = []
        for tool in present(section):
            text = Text(cell_text(line, tool))
            cell = line["cells"].get(tool, {})
            if "ratio" in cell and tool != base:
                text.stylize("green" if cell["ratio"] >= 1.0 else "red")
            if "median" in cell:
                text.append(f"\n±{50 * (cell['high'] - cell['low']) / cell['median']:.0f} %", style="dim")
            texts.append(text)
        table.add_row(title(line), *texts)
    console.print(table)
    for name, tool, goal, ratio in goals(section):
        if ratio is not None:
            style, word = ("green", "met") if ratio >= goal else ("red", "missed")
            least = f"{TOOLS[tool].label} / {TOOLS[base].label} at least {digits(goal)}"
            console.print(f"{name}: {least}, measured {digits(ratio)}, [{style}]{word}[/]")
    for name, packages in section["absent"].items():
        console.print(f"{TOOLS[name].label} is absent: {', '.join(packages)} not installed")


def table_rows(header: list[str], body: list[list[str]], right: int) -> list[str]:
    """Return a Markdown table whose columns from ``right`` on are aligned to the right."""
    rule = ["---" if i < right else "--:" for i in range(len(header))]
    return ["| " + " | ".join(cells) + " |" for cells in [header, rule, *body]]


def per_operation(section: dict[str, Any]) -> list[str]:
    """Return the table of times for one recorded operation, forward and reverse; empty if there are none."""
    recorders = [tool for tool in present(section) if TOOLS[tool].records]
    body = [
        [
            title(line),
            *(
                amount(line["cells"][tool]["median"] / line["ops"], "call")
                if "median" in line["cells"].get(tool, {})
                else ""
                for tool in recorders
            ),
        ]
        for line in section["lines"]
        if line["ops"] and line["measure"] == "call"
    ]
    if not body or not recorders:
        return []
    return [
        "",
        *table_rows(["a recorded operation", *(TOOLS[tool].label for tool in recorders)], body, right=1),
    ]


def versions(section: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in section["versions"].items())


def section_markdown(section: dict[str, Any]) -> list[str]:
    """Return a section: the table, remarks, the goals, and what it was measured with."""
    base, tools = section["base"], present(section)
    machine = section["machine"]
    text = [f"### {section['title']}", ""]
    header = ["", *(TOOLS[tool].label for tool in tools)]
    body, remarks = [], []
    for line in section["lines"]:
        row = [title(line)]
        for tool in tools:
            cell = cell_text(line, tool)
            if cell and tool in line["remarks"]:
                if line["remarks"][tool] not in remarks:
                    remarks.append(line["remarks"][tool])
                cell += f" [{remarks.index(line['remarks'][tool]) + 1}]"
            row.append(f"**{cell}**" if cell and tool == base else cell)
        body.append(row)
    text += table_rows(header, body, right=1)
    text += [""]
    text.append(
        f"In brackets: the tool's figure over {TOOLS[base].label}'s (above 1, {TOOLS[base].label} is ahead). "
        f"Medians of {section['options']['rounds']} rounds in which the tools take turns, each in a process "
        "of its own; value and gradient together, agreement of all tools to 1e-8 checked first."
    )
    text += [f"[{i}] {remark}." for i, remark in enumerate(remarks, start=1)]
    text += [
        f"{label} absent: {', '.join(packages)} not installed."
        for label, packages in ((TOOLS[n].label, p) for n, p in section["absent"].items())
    ]
    text += [f"Error in {title(line)}: {line['error']}." for line in section["lines"] if "error" in line]
    text += per_operation(section)
    measured = [goal for goal in goals(section) if goal[3] is not None]
    if measured:
        text += [""]
        text += table_rows(
            ["goal", "at least", "measured", ""],
            [
                [
                    f"{name}, against {TOOLS[tool].label}",
                    digits(goal),
                    digits(ratio or 0.0),
                    "met" if (ratio or 0.0) >= goal else "**missed**",
                ]
                for name, tool, goal, ratio in measured
            ],
            right=1,
        )
    made_with = (
        f"{machine['processor']}, {machine['threads_for_each_tool']} threads for every tool, "
        f"Python {machine['python']}, {machine['system']}, {machine['date']}; {versions(section)}. "
        f"Made by `{COMMAND}`."
    )
    text += ["", made_with, ""]
    return text


def markdown(results: dict[str, Any]) -> str:
    """Return all sections as Markdown."""
    text = [line for section in results["sections"].values() for line in section_markdown(section)]
    return "\n".join(text).rstrip() + "\n"


def update_readme(readme: Path, text: str) -> None:
    """Replace what stands between the markers."""
    whole = readme.read_text(encoding="utf-8")
    if whole.count(BEGIN) != 1 or whole.count(END) != 1 or whole.index(BEGIN) > whole.index(END):
        raise SystemExit(f"{readme.name} must have one line {BEGIN} and, after it, one line {END}")
    before, _, rest = whole.partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
