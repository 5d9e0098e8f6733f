"""Programs whose sizes are fixed within a process, and other ones in each.

    python tests/e2e/size_storm.py BACKEND I

Prints, as JSON, for each program what it gives at its I-th size, and how its graphs were served. BACKEND may be "none".
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# A module or function, and its inputs' shapes at each size.
Program = tuple[Callable[..., Any], Sequence[Sequence[tuple[int, ...]]]]


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        b, s, d = x.shape
        flat = self.second(F.gelu(self.first(self.norm(x).view(b * s, d))))
        return x + flat.reshape(b, s, 2, d // 2).flatten(2)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        q, k, v = (t.view(b, s, 4, 4).transpose(1, 2) for t in self.qkv(x).split(16, -1))
        seen = torch.ones(s, s, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-2, -1) / 2).masked_fill(~seen, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, 16))


class LanguageModel(nn.Module):
    """What each batch of a training loop does: the targets are those of the next position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.attention, self.head = nn.Embedding(20, 16), Attention(), nn.Linear(16, 20)

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x.detach().abs() * 5).long().clamp(max=19)
        logits = self.head(self.attention(self.embedding(tokens)))
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, 20), tokens[:, 1:].reshape(-1))
        return loss + x.mean()


def rounded(x: Tensor) -> Tensor:
    half = (x.shape[0] * x.shape[0] + 1) // 3
    return x.sum(0).expand(half, 8) * 2


def in_place(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.sin()
    y.view(-1)[: x.shape[0]].add_(1)
    return y.t(), y


def broken(x: Tensor) -> Tensor:
    y = x.relu()
    torch._dynamo.graph_break()
    return (y.view(-1, 2, 4) * y.shape[0]).sum(1)


def strided(x: Tensor) -> Tensor:
    y, z = (x * 2).t(), (x * 3)[:, :4]
    torch._dynamo.graph_break()
    return y @ z + y.sum()


def written(x: Tensor) -> Tensor:
    y = x * 2
    torch._dynamo.graph_break()
    y[1:].mul_(y.shape[0])
    return y.sin()


def shared(x: Tensor) -> Tensor:
    y = x * 2
    z = y.view(-1)
    torch._dynamo.graph_break()
    return y.sin().view(z.shape[0]) + z.cos()


@torch.no_grad()
def inferred(x: Tensor) -> Tensor:
    return x.view(x.shape[0] * 2, 4).softmax(0)


@torch.inference_mode()
def served(x: Tensor) -> Tensor:
    y = x.cos()
    torch._dynamo.graph_break()
    return (x.view(x.shape[0] * 2, 4) * y.view(-1, 4)).softmax(0)


def checkpointed(x: Tensor) -> Tensor:
    return checkpoint(lambda y: y.sin().exp().softmax(-1), x, use_reentrant=False) * x.shape[0]


def chunked(x: Tensor) -> Tensor:
    return torch.cat([c.cumsum(0) for c in torch.chunk(x, 4)])


def spaced(x: Tensor) -> Tensor:
    return x * torch.linspace(0, 1, x.shape[0]).unsqueeze(1)


_BATCHES = (5, 7, 9, 12, 33)
_BOTH = ((2, 7), (3, 9), (5, 12), (4, 6), (9, 9))


def _constant(factor: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x * factor


def programs(i: int) -> dict[str, Program]:
    rows = [[(b, 8)] for b in _BATCHES]
    return {
        "perceptron": (Perceptron(), [[(b, 3, 8)] for b in _BATCHES]),
        "attention": (Attention(), [[(b, s, 16)] for b, s in _BOTH]),
        "language model": (LanguageModel(), [[(b, s)] for b, s in _BOTH]),
        "two inputs": (lambda a, b: torch.cat([a, b @ b.t()], 1), [[(b, 8), (b, 8)] for b in _BATCHES]),
        "in place": (in_place, rows),
        "a graph break": (broken, rows),
        "strided inputs": (strided, rows),
        "a written input": (written, rows),
        "inference": (inferred, rows),
        "inference mode": (served, rows),
        "a checkpoint": (checkpointed, rows),
        "shared storages": (shared, rows),
        "chunks": (chunked, [[(b, 8)] for b in (8, 12, 16, 20, 7)]),
        "a size that is fixed": (spaced, rows),
        "not linear": (rounded, rows),
        "another constant": (_constant(i + 12), [[(5, 8)]] * 5),
        "a branch within": (lambda x: x[: min(x.shape[0], 10)].cumsum(0), rows),
        "size one": (lambda x: (x.sin() * x.shape[0]).sum(0), [[(b, 8)] for b in (5, 7, 9, 1, 0)]),
    }


# Every graph of these is served without a trace from the fourth size on.
SETTLE = (
    "perceptron",
    "attention",
    "language model",
    "two inputs",
    "in place",
    "a graph break",
    "strided inputs",
    "a written input",
    "inference",
    "inference mode",
    "a checkpoint",
)


def main() -> None:
    warnings.filterwarnings("ignore")
    import kiln

    backend, i = sys.argv[1], int(sys.argv[2])
    results: dict[str, Any] = {}
    options = {"options": {"strict": True}} if backend == "kiln" else {}
    torch.manual_seed(0)
    for name, (f, shapes) in programs(i).items():
        torch._dynamo.reset()
        kiln.reset()
        call = f if backend == "none" else torch.compile(f, backend=backend, dynamic=False, **options)
        inputs = [torch.randn(shape).requires_grad_() for shape in shapes[i]]
        outputs = call(*inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        loss = sum((o * torch.linspace(0, 1, o.numel()).view(o.shape)).sum() for o in outputs)
        if loss.requires_grad:
            loss.backward()
        parameters = list(f.parameters()) if isinstance(f, nn.Module) else []
        results[name] = {
            "answers": [
                [o.tolist() for o in outputs],
                [list(o.stride()) for o in outputs],
                [p.grad.tolist() for p in (*inputs, *parameters) if p.grad is not None],
            ],
            "lookups": [g.lookup for g in kiln.graphs()],
            **{key: kiln.counters()[key] for key in ("compiles", "traced", "hits")},
        }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
