"""What this process asked of the server and got back."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from typing import Any


@dataclasses.dataclass(frozen=True)
class CompiledGraph:
    """One captured graph, forward and backward together, as it was served."""

    key: str  # hex
    outcome: str  # "hit", "compiled" or "joined"
    traced: bool  # by AOTAutograd, for want of an entry for Dynamo's graph
    lookup: str  # "hit", "hit, as one size of several", or why there was none
    artifact: str  # SHA-256 of the artifact, hex
    shared_object: str  # likewise; empty where there are no kernels
    server_seconds: float
    client_seconds: float
    # Seconds of it: "start" of kiln's extension (the first time), "capture" of Dynamo's graph, "server", "load",
    # "wrapper". Only "server" and "load" where AOTAutograd has traced.
    parts: dict[str, float]
    kernels: tuple[str, ...]  # kernel keys, hex
    launches: int  # entries into the threads, each for generated kernels that follow each other
    external_calls: dict[str, int]  # by op, in the plans


class Counters:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._graphs: list[CompiledGraph] = []
        self._fallbacks: list[str] = []
        self._audits = 0
        self._audit_failures: list[str] = []

    def add(self, graph: CompiledGraph) -> None:
        with self._lock:
            self._graphs.append(graph)

    def add_fallback(self, reason: str) -> None:
        with self._lock:
            self._fallbacks.append(reason)

    def add_audit(self, failure: str) -> None:
        """An empty `failure`: the entry was right."""
        with self._lock:
            self._audits += 1
            if failure:
                self._audit_failures.append(failure)

    def reset(self) -> None:
        with self._lock:
            self._audits = 0
            self._audit_failures.clear()
            self._graphs.clear()
            self._fallbacks.clear()

    def graphs(self) -> list[CompiledGraph]:
        with self._lock:
            return list(self._graphs)

    def read(self) -> dict[str, Any]:
        """See kiln.counters()."""
        with self._lock:
            graphs, fallbacks = list(self._graphs), list(self._fallbacks)
            audits, audit_failures = self._audits, list(self._audit_failures)
        outcomes = Counter(g.outcome for g in graphs)
        external: Counter[str] = Counter()
        for g in graphs:
            external.update(g.external_calls)
        return {
            "compiles": outcomes["compiled"],
            "joined": outcomes["joined"],
            "hits": outcomes["hit"],
            "traced": sum(g.traced for g in graphs),
            "kernels": len({k for g in graphs for k in g.kernels}),
            "launches": sum(g.launches for g in graphs),
            "external_calls": dict(sorted(external.items())),
            "fallbacks": fallbacks,
            "audits": audits,
            "audit_failures": audit_failures,
        }


counters = Counters()
