"""Programs whose sizes change: never more compiles than Inductor, in the process that misses and in one that hits."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shape_programs
from kiln.testing import Daemon


def _run(backend: str, seed: str, address: str = "") -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "KILN_SERVER": address, "OMP_NUM_THREADS": "1"}
    script = str(Path(__file__).parent / "shape_programs.py")
    run = subprocess.run(
        [sys.executable, script, backend], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=900
    )
    results: dict[str, Any] = json.loads(run.stdout)
    return results


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, dict[str, Any]]]:
    daemon = Daemon()
    daemon.start()
    try:
        miss = _run("kiln", "1", daemon.address)
        hit = _run("kiln", "2", daemon.address)
        # aot_eager goes through AOTAutograd as Inductor does, which then adds guards of its own: never fewer graphs.
        yield {"miss": miss, "hit": hit, "aot": _run("aot_eager", "3"), "eager": _run("none", "4")}
    finally:
        daemon.close()


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list):
        return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


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
    assert _close(runs[run][name]["answers"], runs["eager"][name]["answers"])
