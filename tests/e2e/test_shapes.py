"""Programs whose sizes change: never more compiles than Inductor, in the process that misses and in one that hits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fresh
import pytest
import shape_programs
from kiln.testing import Daemon


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, dict[str, Any]]]:
    daemon = Daemon()
    daemon.start()
    try:
        # aot_eager goes through AOTAutograd as Inductor does, which then adds guards of its own: never fewer graphs.
        yield {
            "miss": fresh.run("shape_programs.py", "kiln", 1, daemon.address),
            "hit": fresh.run("shape_programs.py", "kiln", 2, daemon.address),
            "aot": fresh.run("shape_programs.py", "aot_eager", 3),
            "eager": fresh.run("shape_programs.py", "none", 4),
        }
    finally:
        daemon.close()


def test_there_are_forty() -> None:
    assert len(shape_programs.PROGRAMS) >= 40


@pytest.mark.parametrize("name", shape_programs.PROGRAMS)
def test_no_more_graphs_than_inductor(name: str, runs: dict[str, dict[str, Any]]) -> None:
    assert runs["miss"][name]["graphs"] <= runs["aot"][name]["graphs"]
    assert runs["hit"][name]["graphs"] == runs["miss"][name]["graphs"]


@pytest.mark.parametrize("name", shape_programs.PROGRAMS)
def test_the_second_process_compiles_and_traces_nothing(name: str, runs: dict[str, dict[str, Any]]) -> None:
    assert (runs["hit"][name]["compiles"], runs["hit"][name]["traced"]) == (0, 0)


@pytest.mark.parametrize("name", shape_programs.PROGRAMS)
@pytest.mark.parametrize("run", ["miss", "hit"])
def test_values_are_eagers(run: str, name: str, runs: dict[str, dict[str, Any]]) -> None:
    assert fresh.close(runs[run][name]["answers"], runs["eager"][name]["answers"], 1e-4)
