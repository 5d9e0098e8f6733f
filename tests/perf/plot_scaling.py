"""Plots what plan_scaling prints: seconds of planning by nodes of the graph, into a PNG. Needs matplotlib.

bazel run //tests/perf:plan_scaling | .venv/bin/python tests/perf/plot_scaling.py compiler/scaling.png
"""

from __future__ import annotations

import re
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

_ROW = re.compile(r"^\s*(\d+)\s+([\d.]+)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+\d+$")


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    series: dict[str, list[tuple[int, float]]] = {}
    title = ""
    for line in sys.stdin:
        if row := _ROW.match(line):
            series.setdefault(title, []).append((int(row[1]), float(row[2])))
        elif not line.lstrip().startswith(("nodes", "10,000")):
            title = line.strip()
    if not series:
        sys.exit("no rows of plan_scaling on the standard input")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
        nodes, seconds = points[0]
        last = points[-1][0]
        axes.plot([nodes, last], [seconds, seconds * last / nodes], ":", color=axes.lines[-1].get_color())
    axes.set(xlabel="nodes", ylabel="seconds of planning (dotted: in proportion to the first)", xlim=0, ylim=0)
    axes.legend()
    figure.savefig(sys.argv[1], dpi=100, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
