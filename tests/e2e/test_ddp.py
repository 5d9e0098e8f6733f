"""Data-parallel training on two gloo ranks: one compile for both, and the same gradients as without a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from kiln.testing import Daemon

_RANK = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
import torch, torch.distributed as dist
import kiln
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
how, backend = sys.argv[4], sys.argv[5]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
torch.manual_seed(0)
class Net(nn.Module):  # of the user's own: Dynamo does not begin within torch.nn
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)
    def forward(self, x):
        return self.layers(x)
layers = [layer for _ in range(3) for layer in (nn.Linear(600, 600), nn.GELU(), nn.LayerNorm(600))]
model = Net(*layers, nn.Linear(600, 4))
options = {"options": {"strict": True}} if backend == "kiln" else {}
compiled = lambda m: m if backend == "none" else torch.compile(m, backend=backend, **options)
if how == "compile, then wrap":
    model = DistributedDataParallel(compiled(model))
else:  # in small buckets, so that DDPOptimizer splits the graph
    model = compiled(DistributedDataParallel(model, bucket_cap_mb=1))
losses = []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for _ in range(3):
    x, y = torch.randn(8, 600), torch.randint(4, (8,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
result = {
    "losses": losses,
    "parameters": [p.detach().double().sum().item() for p in model.parameters()],
    "graphs": [[g.key, g.outcome, g.traced] for g in kiln.graphs()],
    "fallbacks": kiln.counters()["fallbacks"],
}
dist.barrier()
print("RESULT" + json.dumps(result), flush=True)
os._exit(0)  # gloo's threads may outlive the interpreter, and abort
"""


def _train(how: str, backend: str, store: str, address: str = "") -> list[dict[str, Any]]:
    environment = {**os.environ, "KILN_SERVER": address, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_RANK), str(rank), "2", store, how, backend],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    results = []
    for rank in ranks:
        out, _ = rank.communicate(timeout=300)
        assert rank.returncode == 0
        (line,) = (line for line in out.splitlines() if line.startswith("RESULT"))
        results.append(json.loads(line.removeprefix("RESULT")))
    return results


@pytest.mark.parametrize("how", ["compile, then wrap", "wrap, then compile"])
def test_two_ranks_share_one_compile(how: str, daemon: Daemon, tmp_path: Any) -> None:
    eager = _train(how, "none", str(tmp_path / "eager"))
    first = _train(how, "kiln", str(tmp_path / "first"), daemon.address)
    second = _train(how, "kiln", str(tmp_path / "second"), daemon.address)
    for ranks in (first, second):
        for rank, plain in zip(ranks, eager, strict=True):
            assert rank["fallbacks"] == []
            assert rank["losses"] == pytest.approx(plain["losses"], rel=1e-4)
            assert rank["parameters"] == pytest.approx(plain["parameters"], rel=1e-3, abs=1e-4)
        keys = [[key for key, _, _ in rank["graphs"]] for rank in ranks]
        assert keys[0] == keys[1]
    graphs = first[0]["graphs"]
    assert len(graphs) > 1  # DDPOptimizer has split it, one a bucket
    for i in range(len(graphs)):  # one of the two compiled it
        assert sorted(rank["graphs"][i][1] == "compiled" for rank in first) == [False, True]
    assert all(not traced and outcome == "hit" for rank in second for _, outcome, traced in rank["graphs"])
