"""A hit equals a miss, and what AOTAutograd itself does: every case of hit_cases.py in fresh processes."""

from __future__ import annotations

from typing import Any

import fresh
import hit_cases
import pytest
from kiln.testing import Daemon

# Complex arguments have no place in a plan; within torch.func Dynamo runs the function itself.
NOT_COMPILED = {"complex_numbers_within", "a_functional_gradient_around"}


# Of messages: what follows names what was saved, which is the partitioner's to choose.
_SAME_WORDS = 110
_TOLERANCE = 2e-2  # some cases are in bfloat16


@pytest.fixture(scope="module")
def runs() -> dict[str, dict[str, Any]]:
    return fresh.runs("hit_cases.py")


NAMES = [*hit_cases.CASES, *hit_cases.BEHAVIOURS]


@pytest.mark.parametrize("name", NAMES)
def test_a_hit_is_as_the_miss(name: str, runs: dict[str, dict[str, Any]]) -> None:
    assert runs["hit"][name]["calls"] == runs["miss"][name]["calls"]
    if name not in NOT_COMPILED:
        assert set(runs["hit"][name]["outcomes"]) == {"hit"}


@pytest.mark.parametrize("name", NAMES)
def test_a_hit_is_as_aotautograd(name: str, runs: dict[str, dict[str, Any]]) -> None:
    if name in NOT_COMPILED:
        pytest.skip("not compiled")
    eager = runs["eager"][name]["calls"]
    for ours, theirs, plain in zip(runs["hit"][name]["calls"], runs["aot"][name]["calls"], eager, strict=True):
        if isinstance(ours, dict):
            assert ours.pop("versions") in (theirs.pop("versions"), plain["versions"])  # aot_eager counts twice
            assert {k: v for k, v in ours.items() if fresh.close(v, theirs[k], _TOLERANCE)} == ours
        elif isinstance(ours, str):
            assert ours[:_SAME_WORDS] == theirs[:_SAME_WORDS]
        else:
            assert fresh.close(ours, theirs, _TOLERANCE)


def test_the_six_models_give_the_same_bits(daemon: Daemon) -> None:
    miss = fresh.run("model_steps.py", "kiln", 1, daemon.address)
    hit = fresh.run("model_steps.py", "kiln", 2, daemon.address)
    for name, seen in miss.items():
        graphs = seen["served"][2]
        assert graphs >= 2
        assert hit[name]["digests"] == seen["digests"], name
        assert hit[name]["served"] == [0, graphs, 0], name
