"""Results as a picture: how many times our figure each tool's is, on a logarithmic axis."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from benchmarks.peers.report import amount, present, title
from benchmarks.peers.tools import TOOLS

MARKERS = {
    "autograd": ("o", "#0072b2"),
    "torch": ("s", "#d55e00"),
    "jax": ("^", "#56b4e9"),
    "jax_jit": ("D", "#009e73"),
    "casadi": ("P", "#cc79a7"),
    "numba": ("*", "#444444"),
    "numpy": ("|", "#888888"),
}


def draw_section(axes: Any, section: dict[str, Any]) -> None:
    """Draw a line for each workload, a mark for each peer."""
    base = section["base"]
    lines = [line for line in section["lines"] if "median" in line["cells"].get(base, {})]
    labels = []
    for height, line in enumerate(reversed(lines)):
        labels.append(f"{title(line)}\n{TOOLS[base].label}: {amount(line['cells'][base]['median'], line['measure'])}")
        axes.axhline(height, color="0.9", zorder=0)
        for tool, (marker, color) in MARKERS.items():
            cell = line["cells"].get(tool, {})
            if "ratio" in cell:
                axes.plot(cell["ratio"], height, marker, color=color, markersize=9, markeredgewidth=1.5)
    for tool in present(section):
        if tool in MARKERS:
            marker, color = MARKERS[tool]
            axes.plot([], [], marker, color=color, markersize=9, label=TOOLS[tool].label)
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1)
    low, high = axes.get_xlim()
    axes.axvspan(1.0, high, color="#009e73", alpha=0.06, zorder=0)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel(f"the tool's figure over {TOOLS[base].label}'s: right of 1 {TOOLS[base].label} is ahead")
    axes.set_title(section["title"], loc="left", fontweight="bold")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)


def draw(results: dict[str, Any], path: Path) -> bool:
    """Write the picture; return whether there were ratios to draw."""
    sections = [
        section
        for section in results["sections"].values()
        if any("ratio" in cell for line in section["lines"] for cell in line["cells"].values())
    ]
    if not sections:
        return False
    heights = [1.2 + 0.55 * len(section["lines"]) for section in sections]
    figure, grid = plt.subplots(
        len(sections),
        1,
        figsize=(11.0, sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, section in zip(grid[:, 0], sections, strict=True):
        draw_section(axes, section)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True
