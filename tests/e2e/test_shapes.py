"""Programs whose sizes change: never more compiles than Inductor, in the process that misses and in one that hits."""

from __future__ import annotations

from typing import Any

import fresh
import pytest
import shape_programs


@pytest.fixture(scope="module")
def runs() -> dict[str, dict[str, Any]]:
    return fresh.runs("shape_programs.py")


def test_there_are_forty() -> None:
    assert len(shape_programs.PROGRAMS) >= 40


@pytest.mark.parametrize("name", shape_programs.PROGRAMS)
def test_no_more_graphs_than_inductor(name: str, runs: dict[str, dict[str, Any]]) -> None:
    # Inductor comes after AOTAutograd as aot_eager does, and may add guards of its own: never fewer graphs.
    assert runs["miss"][name]["graphs"] <= runs["aot"][name]["graphs"]
    assert runs["hit"][name]["graphs"] == runs["miss"][name]["graphs"]


@pytest.mark.parametrize("name", shape_programs.PROGRAMS)
def test_the_second_process_compiles_and_traces_nothing(name: str, runs: dict[str, dict[str, Any]]) -> None:
    assert (runs["hit"][name]["compiles"], runs["hit"][name]["traced"]) == (0, 0)


@pytest.mark.parametrize("name", shape_programs.PROGRAMS)
@pytest.mark.parametrize("run", ["miss", "hit"])
def test_values_are_eagers(run: str, name: str, runs: dict[str, dict[str, Any]]) -> None:
    assert fresh.close(runs[run][name]["answers"], runs["eager"][name]["answers"], 1e-4)
