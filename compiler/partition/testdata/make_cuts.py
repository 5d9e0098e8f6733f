"""Writes cuts.txt: 200 random networks and the values of their minimum cuts, as PyTorch's partitioner solves them.

    .venv/bin/python compiler/partition/testdata/make_cuts.py

torch._functorch.partitioners gives its network to networkx.minimum_cut, and so does this. A line is a network: the
number of vertices, the value of the cut between the first and the last of them, and edges as from,to,capacity; "inf" is
infinite. Networks are like the partitioner's: two vertices for a node with as much capacity between them as its result
has bytes, infinite edges from operands, and nodes that may not be computed again or are needed by the backward.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import networkx as nx

GRAPHS = 200
Edge = tuple[int, int, float]


def network(rng: random.Random) -> tuple[int, list[Edge]]:
    nodes = rng.randint(2, 20)
    source, sink = 0, 2 * nodes + 1
    edges: list[Edge] = []
    for node in range(nodes):
        into, out = 1 + 2 * node, 2 + 2 * node
        infinite = rng.random() < 0.05
        edges.append((into, out, math.inf if infinite else rng.choice((0, 1, 4, 8, 64, rng.randint(1, 1 << 20)))))
        operands = rng.sample(range(node), min(node, rng.randint(0, 3)))
        edges += [(2 + 2 * operand, into, math.inf) for operand in operands]
        if not operands or rng.random() < 0.3:
            edges.append((source, into, math.inf))
        if node + 1 == nodes or rng.random() < 0.25:
            edges.append((into if rng.random() < 0.03 else out, sink, math.inf))
    return sink + 1, edges


def cut_value(vertices: int, edges: list[Edge]) -> float:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(vertices))
    for start, end, capacity in edges:
        graph.add_edge(start, end, capacity=capacity)
    try:
        return nx.minimum_cut(graph, 0, vertices - 1)[0]
    except nx.NetworkXUnbounded:
        return math.inf


def text(number: float) -> str:
    return "inf" if number == math.inf else str(int(number))


def main() -> None:
    rng = random.Random(2026)
    lines = []
    for _ in range(GRAPHS):
        vertices, edges = network(rng)
        columns = [f"{start},{end},{text(capacity)}" for start, end, capacity in edges]
        lines.append(f"{vertices} {text(cut_value(vertices, edges))} {' '.join(columns)}\n")
    Path(__file__).with_name("cuts.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
