"""What is stored is damaged on disk, or cannot be stored: a miss, counted and repaired, never wrong code."""

from __future__ import annotations

from pathlib import Path

import kiln
import pytest
import torch
from kiln.testing import Daemon


def _outcome(daemon: Daemon) -> str:
    """Compiles one fixed graph, and checks its value."""
    torch._dynamo.reset()
    kiln.reset()
    x = torch.arange(-4.0, 4.0)
    f = torch.compile(lambda x: torch.tanh(x) * 3, backend="kiln", options={"server": daemon.address, "strict": True})
    torch.testing.assert_close(f(x), torch.tanh(x) * 3)
    (graph,) = kiln.graphs()
    return graph.outcome


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("files", ["largest", "all"])
def test_a_flipped_bit_is_a_miss_and_is_repaired(files: str, daemon: Daemon) -> None:
    assert _outcome(daemon) == "compiled"
    daemon.stop()
    daemon.start()  # moves what the log holds to tables
    daemon.stop()
    tables = sorted((daemon.dir / "data").rglob("*.sst"), key=lambda path: path.stat().st_size)
    for path in tables[-1:] if files == "largest" else tables:
        _flip(path, path.stat().st_size // 3)
    daemon.start()
    assert _outcome(daemon) == "compiled"
    assert daemon.ctl("stats")["corrupt"] >= 1
    assert _outcome(daemon) == "hit"
    daemon.stop()
    daemon.start()
    assert _outcome(daemon) == "hit"
