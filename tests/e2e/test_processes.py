"""Several processes: forks, many at once, recorded requests compiled ahead."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kiln.testing import Daemon, binary, run_script


def test_fork(server: Daemon) -> None:
    """A child of a process that has a connection gets its own; the parent's goes on working."""
    result = run_script(
        """
        import os, torch, kiln
        f = torch.compile(lambda x: x.cos() + 1, backend="kiln", dynamic=False)
        assert f(torch.zeros(2)).tolist() == [2, 2]
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                ok = f(torch.zeros(2)).tolist() == [2, 2] and f(torch.zeros(5)).tolist() == [2] * 5
                os.write(w, b"ok" if ok else b"wrong")
            finally:
                os._exit(0)
        os.close(w)
        answer = os.read(r, 100).decode()
        os.waitpid(pid, 0)
        result = [answer, f(torch.zeros(7)).tolist(), kiln.counters()["fallbacks"]]
        """
    )
    assert result == ["ok", [2] * 7, []]


_TRAIN = """
import torch, kiln
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
x, y = torch.randn(8, 16), torch.randint(4, (8,))
loss = torch.nn.functional.cross_entropy(torch.compile(m, backend="kiln")(x), y)
loss.backward()
result = dict(loss=loss.item(), counters=kiln.counters(), graphs=[[g.key, g.artifact] for g in kiln.graphs()])
"""


def test_many_processes_compile_once(daemon: Daemon) -> None:
    env = {"KILN_SERVER": daemon.address, "KILN_STRICT": "1"}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run_script(_TRAIN, env=env), range(4)))
    counters = [r["counters"] for r in results]
    assert sum(c["compiles"] for c in counters) == len(results[0]["graphs"]) == 1
    assert sum(c["joined"] + c["hits"] for c in counters) == 3
    assert all(r["graphs"] == results[0]["graphs"] and r["loss"] == results[0]["loss"] for r in results)


def test_recorded_requests_are_compiled_ahead(daemon: Daemon, tmp_path: Path) -> None:
    record = tmp_path / "requests"
    env = {"KILN_SERVER": daemon.address, "KILN_STRICT": "1"}
    first = run_script(_TRAIN, env={**env, "KILN_RECORD": str(record), "KILN_JOB": "recorded"})
    assert first["counters"]["compiles"] == 1
    assert daemon.stop() == 0
    daemon.wipe()
    daemon.start()
    subprocess.run(
        [binary("kilnctl"), "prewarm", str(record)], env={**env, "PATH": "/usr/bin:/bin"}, check=True, timeout=300
    )
    second = run_script(_TRAIN, env=env)
    assert (second["counters"]["compiles"], second["counters"]["hits"]) == (0, 1)
    assert second["graphs"] == first["graphs"]
    assert (first["counters"]["traced"], second["counters"]["traced"]) == (1, 0)


def test_record_needs_no_server(tmp_path: Path) -> None:
    record = tmp_path / "requests"
    run_script(_TRAIN, env={"KILN_SERVER": "unix:/tmp/kiln-nobody-listens-here", "KILN_RECORD": str(record)})
    assert record.stat().st_size > 1000
