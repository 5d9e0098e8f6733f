"""The same request gives the same bytes: in any server, with any number of workers, in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kiln.testing import Daemon, run_script

_SCRIPT = """
    import kiln, os, torch
    os.chdir({cwd!r})

    def relu(x):
        return torch.relu(x * 2 + 1)

    def mean_square(x, w):
        return (torch.tanh(x @ w) ** 2).mean(-1)

    def bias(x, b):
        return (torch.nn.functional.gelu(x + b) * x).sum(0)

    cases = [(relu, (40,)), (mean_square, (6, 8), (8, 5)), (bias, (12, 33), (33,))]
    for f, *shapes in cases[::{order}]:
        tensors = [torch.randn(*s, requires_grad=True) for s in shapes]
        torch.compile(f, backend="kiln", options={{"strict": True}})(*tensors).sum().backward()
    result = sorted((g.key, g.artifact, g.shared_object) for g in kiln.graphs())
"""


def _artifacts(workers: int, hash_seed: int, cwd: Path, order: int) -> Any:
    daemon = Daemon("--workers", str(workers))
    daemon.start()
    try:
        env = {"KILN_SERVER": daemon.address, "PYTHONHASHSEED": str(hash_seed), "USER": f"user{workers}"}
        return run_script(_SCRIPT.format(cwd=str(cwd), order=order), env=env)
    finally:
        daemon.close()


def test_three_servers_make_the_same_bytes(tmp_path: Path) -> None:
    first = _artifacts(1, 0, Path("/"), 1)
    assert len(first) == 3
    assert _artifacts(2, 1, tmp_path, -1) == first
    assert _artifacts(4, 2, tmp_path, 1) == first
