"""What a backward computes again never changes a gradient, and a smaller budget never saves more."""

from __future__ import annotations

import copy
from typing import Any

import kiln
import pytest
import torch
from kiln import session
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("server")


class Block(nn.Module):
    """A residual block with attention written out, norms, dropout and a wide pointwise middle."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(-1, -2) / 6, -1) @ v
        return x + self.down(F.dropout(F.gelu(self.up(x)) * torch.sigmoid(self.up(x)), 0.1, self.training))


class Model(nn.Module):
    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x.square().mean()


def _gradients(call: Any, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(3)
    call(x).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


@pytest.fixture
def saved_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry a compile: how many values the server saves that are no inputs."""
    counts: list[int] = []

    def compile_graph(request: Any, *how: Any, original: Any = session.compile_graph) -> Any:
        compiled = original(request, *how)
        counts.append(sum(v >= len(request.graph.inputs) for v in compiled.signature.saved_values))
        return compiled

    monkeypatch.setattr(session, "compile_graph", compile_graph)
    monkeypatch.setattr(session, "lookup", lambda *_: None)  # else a graph that is known is not compiled
    return counts


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_gradients_are_bit_equal_whatever_the_budget(dynamic: bool, saved_counts: list[int]) -> None:
    model, x = Model(), torch.randn(4, 12, 32)
    results = []
    for budget in (1.0, 0.5, 0.0):
        torch._dynamo.reset()
        m = copy.deepcopy(model)
        compiled = torch.compile(m, backend="kiln", dynamic=dynamic, options={"memory_budget": budget})
        results.append(_gradients(compiled, m, x))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
    for actual, expected in zip(results[0], _gradients(model, model, x), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert saved_counts[0] > saved_counts[1] > saved_counts[2]
    assert len({g.key for g in kiln.graphs()}) == 3


def test_the_default_is_torchs_own_setting(saved_counts: list[int]) -> None:
    with torch._functorch.config.patch(activation_memory_budget=0.0):
        torch.compile(Model(), backend="kiln")(torch.randn(4, 12, 32))
    torch._dynamo.reset()
    torch.compile(Model(), backend="kiln")(torch.randn(4, 12, 32))
    assert saved_counts[0] < saved_counts[1]


def test_checkpointed_blocks_are_computed_again(saved_counts: list[int]) -> None:
    x, results = torch.randn(4, 12, 32), []
    model = Model()
    for checkpointed in (False, True):
        torch._dynamo.reset()
        m = copy.deepcopy(model)
        m.checkpointed = checkpointed
        results.append(_gradients(torch.compile(m, backend="kiln"), m, x))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert saved_counts[1] < saved_counts[0] / 2


def test_a_written_input_whose_new_value_is_needed() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return (x * w).sin().sum()

    expected, w = torch.full((5,), 3.0), torch.randn(5, requires_grad=True)
    f(expected, w).backward()
    want, w.grad = w.grad, None
    x = torch.full((5,), 3.0)
    torch.compile(f, backend="kiln")(x, w).backward()
    torch.testing.assert_close(w.grad, want)
    assert torch.equal(x, expected)
