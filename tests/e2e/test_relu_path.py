"""The path in small: relu(x*2 + 1) through every process and the cache."""

from __future__ import annotations

import kiln
import pytest
import torch
from kiln.testing import Daemon, run_script


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2 + 1)


def test_values_and_counters(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_SERVER", daemon.address)
    monkeypatch.setenv("KILN_STRICT", "1")
    f = torch.compile(relu, backend="kiln")
    x = torch.tensor([-1, -0.25, 0.5])
    assert f(x).tolist() == [0, 0.5, 2]
    counters = kiln.counters()
    assert set(counters.pop("recycled")) == {"bytes", "idle_bytes", "reused", "fresh"}
    assert counters == {
        "compiles": 1,
        "joined": 0,
        "hits": 0,
        "traced": 1,
        "kernels": 1,
        "launches": 1,
        "external_calls": {},
        "fallbacks": [],
        "audits": 0,
        "audit_failures": [],
    }
    torch._dynamo.reset()
    assert f(x).tolist() == [0, 0.5, 2]
    assert (kiln.counters()["compiles"], kiln.counters()["hits"]) == (1, 1)
    first, second = kiln.graphs()
    assert (first.outcome, second.outcome) == ("compiled", "hit")
    assert (first.key, first.artifact, first.shared_object) == (second.key, second.artifact, second.shared_object)
    kiln.reset()
    assert kiln.counters()["compiles"] == 0
    assert f(x).tolist() == [0, 0.5, 2]


@pytest.mark.usefixtures("server")
def test_sizes_without_dynamic_shapes() -> None:
    f = torch.compile(relu, backend="kiln", dynamic=False)
    for n in (8, 8, 16, 8):
        x = torch.randn(n)
        torch.testing.assert_close(f(x), relu(x), rtol=0, atol=0)
    assert len(kiln.graphs()) == 2


@pytest.mark.usefixtures("server")
def test_one_artifact_serves_twenty_sizes() -> None:
    f = torch.compile(relu, backend="kiln", dynamic=True)
    for n in range(2, 22):
        x = torch.randn(n, requires_grad=True)
        y = f(x)
        torch.testing.assert_close(y, relu(x), rtol=0, atol=0)
        y.sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, (x * 2 + 1 > 0) * 2.0, rtol=0, atol=0)
    assert len(kiln.graphs()) == 1


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.uint8], ids=str)
def test_dtypes_and_special_values(dtype: torch.dtype) -> None:
    special = [-0.0, float("nan"), float("inf"), -float("inf")] if dtype.is_floating_point else []
    x = torch.tensor([-3, 0, 1, 100, 255, *special]).to(dtype)
    f = torch.compile(relu, backend="kiln")
    torch.testing.assert_close(f(x), relu(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 7), (2, 3, 4, 5)], ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(torch.compile(relu, backend="kiln")(x), relu(x), rtol=0, atol=0)


@pytest.mark.usefixtures("server")
def test_any_strides() -> None:
    f = torch.compile(relu, backend="kiln", dynamic=False)
    base = torch.randn(6, 8, 10)
    for x in (base.transpose(0, 2), base[::2, 1:, ::3], base[0].expand(4, 8, 10), base.permute(2, 0, 1)[:, :3]):
        torch.testing.assert_close(f(x), relu(x), rtol=0, atol=0, check_stride=True)


_SCRIPT = """
import torch, kiln
def f(x, w):
    return torch.softmax(torch.relu(x * 2 + 1) @ w, -1).sum(0)
x, w = torch.ones(4, 8, requires_grad=True), torch.ones(8, 3, requires_grad=True)
y = torch.compile(f, backend="kiln")(x, w)
y.sum().backward()
with torch.no_grad():
    torch.compile(lambda x: torch.relu(x * 2 + 1), backend="kiln")(x)
result = dict(counters=kiln.counters(), graphs=[[g.key, g.artifact, g.shared_object] for g in kiln.graphs()])
"""


def test_the_next_process_only_hits(daemon: Daemon) -> None:
    env = {"KILN_SERVER": daemon.address, "KILN_STRICT": "1"}
    first = run_script(_SCRIPT, env={**env, "PYTHONHASHSEED": "1"})
    second = run_script(_SCRIPT, env={**env, "PYTHONHASHSEED": "2"})
    assert first["counters"]["compiles"] == len(first["graphs"]) == 2
    assert (second["counters"]["compiles"], second["counters"]["hits"]) == (0, 2)
    assert second["graphs"] == first["graphs"]
    assert daemon.stop() == 0
    daemon.start()  # a restart keeps everything
    third = run_script(_SCRIPT, env=env)
    assert (third["counters"]["compiles"], third["graphs"]) == (0, first["graphs"])
