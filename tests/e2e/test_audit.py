"""A hit rests on somebody's word: audited, it is traced all the same and compared."""

from __future__ import annotations

import importlib
from typing import Any

import kiln
import pytest
import torch
from kiln import call_spec
from kiln.testing import Daemon

pytestmark = pytest.mark.usefixtures("server")


def step() -> list[torch.Tensor]:
    """Of a graph that is compiled anew."""
    torch._dynamo.reset()
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    y = torch.compile(lambda x: torch.sin(x).cumsum(0) * 1.25, backend="kiln", dynamic=False)(x)
    y.sum().backward()
    assert x.grad is not None
    return [y.detach(), x.grad]


def test_a_right_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    want = step()
    monkeypatch.setenv("KILN_AUDIT", "1")
    for got, expected in zip(step(), want, strict=True):
        assert torch.equal(got, expected)
    counters = kiln.counters()
    assert (counters["audits"], counters["audit_failures"]) == (1, [])
    assert [g.lookup for g in kiln.graphs()] == ["not in the cache", "hit", "audited"]


def test_a_wrong_entry_is_replaced(monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    monkeypatch.setenv("KILN_SERVER", daemon.address)

    def lie(traced: call_spec.Traced, num_inputs: int) -> Any:
        spec = call_spec.derive(traced, num_inputs)
        spec.deterministic = not spec.deterministic
        return spec

    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("kiln.backend"), "derive", lie)
        want = step()
    monkeypatch.setenv("KILN_AUDIT", "1")
    with pytest.warns(kiln.KilnWarning, match="the entry of request [0-9a-f]{64} has another call"):
        for got, expected in zip(step(), want, strict=True):
            assert torch.equal(got, expected)
    assert len(kiln.counters()["audit_failures"]) == 1
    step()
    assert (kiln.counters()["audits"], len(kiln.counters()["audit_failures"])) == (2, 1), "it is right now"
    monkeypatch.delenv("KILN_AUDIT")
    step()
    assert kiln.graphs()[-1].lookup == "hit"


def test_an_entry_where_there_may_be_none(monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    monkeypatch.setenv("KILN_SERVER", daemon.address)
    step()

    def refuse(_traced: call_spec.Traced, _num_inputs: int) -> Any:
        raise call_spec.Refused("a reason")

    monkeypatch.setenv("KILN_AUDIT", "1")
    with monkeypatch.context() as patch, pytest.warns(kiln.KilnWarning, match="a call where AOTAutograd is needed"):
        patch.setattr(importlib.import_module("kiln.backend"), "derive", refuse)
        step()
    assert (kiln.counters()["audits"], len(kiln.counters()["audit_failures"])) == (1, 1)
    step()
    assert kiln.graphs()[-1].lookup == "AOTAutograd is needed: a reason"
