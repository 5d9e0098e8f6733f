"""Sizes that are fixed in a process and other ones in the next: after three the server has the graph with symbols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fresh
import pytest
import size_storm
from kiln.testing import Daemon

_SIZES = 5
_HIT = "hit, as one size of several"


@pytest.fixture(scope="module")
def storm() -> Iterator[Daemon]:
    daemon = Daemon()
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def runs(storm: Daemon) -> list[dict[str, Any]]:
    return [fresh.run("size_storm.py", "kiln", i, storm.address, str(i)) for i in range(_SIZES)]


@pytest.fixture(scope="module")
def eager() -> list[dict[str, Any]]:
    return [fresh.run("size_storm.py", "none", i, "", str(i)) for i in range(_SIZES)]


NAMES = list(size_storm.programs(0))


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_eagers(name: str, runs: list[dict[str, Any]], eager: list[dict[str, Any]]) -> None:
    for ours, theirs in zip(runs, eager, strict=True):
        assert fresh.close(ours[name]["answers"], theirs[name]["answers"], 1e-4)


@pytest.mark.parametrize("name", size_storm.SETTLE)
def test_from_the_fourth_size_nothing_is_traced(name: str, runs: list[dict[str, Any]]) -> None:
    for run in runs[:2]:
        assert set(run[name]["lookups"]) == {"not in the cache"}
    assert set(runs[2][name]["lookups"]) == {"not in the cache; with symbols for its sizes"}
    for run in runs[3:]:
        assert (run[name]["traced"], run[name]["compiles"]) == (0, 0)
        assert set(run[name]["lookups"]) == {_HIT}


@pytest.mark.parametrize("name", ["not linear", "another constant"])
def test_what_no_size_explains_is_compiled_for_each(name: str, runs: list[dict[str, Any]]) -> None:
    for run in runs:
        assert run[name]["lookups"] == ["not in the cache"]
        assert run[name]["traced"] == 1


def test_a_coincidence_of_three_sizes_is_noticed_at_the_fourth(runs: list[dict[str, Any]]) -> None:
    assert "with symbols" in runs[2]["a branch within"]["lookups"][0]
    for run in runs[3:]:
        assert run["a branch within"]["lookups"] == ["not in the cache"]


def test_what_is_traced_for_one_size_only_is_tried_once(runs: list[dict[str, Any]]) -> None:
    for run in runs[2:]:
        (lookup,) = run["a size that is fixed"]["lookups"]
        assert lookup.startswith("not in the cache; not generalized: ")
    for run in runs[3:]:
        assert "AOTAutograd is needed: " in run["a size that is fixed"]["lookups"][0]


def test_inputs_that_share_a_storage_are_not_generalized(runs: list[dict[str, Any]]) -> None:
    for run in runs[2:]:
        assert run["shared storages"]["lookups"][1] == "not in the cache"


def test_a_size_beyond_the_guards_is_traced(runs: list[dict[str, Any]]) -> None:
    assert runs[3]["chunks"]["lookups"] == [_HIT]
    assert runs[4]["chunks"]["lookups"] == ["not in the cache; with symbols for its sizes"]


def test_small_sizes_are_compiled_for_themselves(runs: list[dict[str, Any]]) -> None:
    assert runs[2]["size one"]["lookups"] != ["not in the cache"]
    for run in runs[3:]:
        assert run["size one"]["lookups"] == ["not in the cache"]


@pytest.mark.usefixtures("runs")
def test_the_option_turns_it_off(storm: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_GENERALIZE", "0")
    run = fresh.run("size_storm.py", "kiln", 4, storm.address, "4")
    for name in size_storm.SETTLE:
        assert set(run[name]["lookups"]) == {"not in the cache"}
