"""Real processes that die: training goes on, and nothing that was stored is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import kiln
import pytest
import torch
from kiln.testing import Daemon, run_script


def _wait(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def _workers(daemon: Daemon) -> list[dict[str, Any]]:
    workers: list[dict[str, Any]] = daemon.ctl("status")["workers"]
    return workers


def _pids(daemon: Daemon) -> list[int]:
    return [int(w["pid"]) for w in _workers(daemon) if int(w["pid"]) > 0]


def _chain(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function whose graph no other test has."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(n):
            x = torch.tanh(x * (i + 1)).sum(0, keepdim=True) + x
        return x

    return f


def _compile_while(
    daemon: Daemon, f: Callable[[torch.Tensor], torch.Tensor], strike: Callable[[], None]
) -> torch.Tensor:
    x = torch.randn(8, 16)
    striker = threading.Thread(target=strike)
    striker.start()
    try:
        got = torch.compile(f, backend="kiln", options={"server": daemon.address})(x)
    finally:
        striker.join()
    torch.testing.assert_close(got, f(x))
    return got


def test_killed_workers_are_replaced(daemon: Daemon) -> None:
    _wait(lambda: len(_pids(daemon)) == 2)  # workers start ahead, not before the daemon answers
    before = _pids(daemon)
    os.kill(before[0], signal.SIGKILL)
    x = torch.randn(8)
    f = torch.compile(lambda x: torch.relu(x) * 3, backend="kiln", options={"server": daemon.address, "strict": True})
    torch.testing.assert_close(f(x), torch.relu(x) * 3)
    _wait(lambda: len(_pids(daemon)) == len(before) and before[0] not in _pids(daemon))


def _stop_idle_workers(daemon: Daemon, count: int) -> list[int]:
    """They take a job, and do nothing with it."""
    _wait(lambda: [w["state"] for w in daemon.ctl("status")["workers"]] == ["idle"] * count)
    pids = _pids(daemon)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


def _kill_busy_workers(daemon: Daemon, among: list[int], count: int) -> list[int]:
    """Kills the first `count` of `among` that get a job, one after the other."""
    killed: list[int] = []

    def kill_next() -> bool:
        busy = [pid for w in _workers(daemon) if w["job"] and (pid := int(w["pid"])) in among and pid not in killed]
        for pid in busy[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        return len(killed) == count

    _wait(kill_next)
    return killed


def test_a_worker_killed_in_a_compile_costs_a_retry(daemon: Daemon) -> None:
    stopped = _stop_idle_workers(daemon, 2)
    f = _chain(2)

    def strike() -> None:
        killed = _kill_busy_workers(daemon, stopped, 1)
        for pid in set(stopped) - set(killed):
            os.kill(pid, signal.SIGCONT)

    _compile_while(daemon, f, strike)
    assert kiln.counters()["fallbacks"] == []
    assert [g.outcome for g in kiln.graphs()] == ["compiled"]
    assert daemon.ctl("stats")["worker_restarts"] == 1


def test_two_workers_killed_by_a_graph_make_it_a_negative_entry(daemon: Daemon) -> None:
    stopped = _stop_idle_workers(daemon, 2)
    f = _chain(2)
    with pytest.warns(kiln.KilnWarning, match="cost 2 workers: killed by signal 9"):
        _compile_while(daemon, f, lambda: _kill_busy_workers(daemon, stopped, 2) and None)
    assert len(kiln.counters()["fallbacks"]) == 1
    assert daemon.ctl("stats")["negative"] == 1
    # The next one is told at once: no worker sees the graph again.
    torch._dynamo.reset()
    kiln.reset()
    with pytest.warns(kiln.KilnWarning, match="cost 2 workers"):
        _compile_while(daemon, f, lambda: None)
    assert daemon.ctl("stats")["worker_restarts"] == 2
    # An operator who knows better can let it be tried again.
    daemon.ctl("cache", "rm", "--negative")
    torch._dynamo.reset()
    kiln.reset()
    _compile_while(daemon, f, lambda: None)
    assert [g.outcome for g in kiln.graphs()] == ["compiled"]


def test_a_stopped_worker_is_ended_by_its_deadline() -> None:
    daemon = Daemon("--workers", "1", "--job-seconds", "1")
    daemon.start()
    try:
        stopped = _stop_idle_workers(daemon, 1)
        _compile_while(daemon, _chain(2), lambda: None)
        assert [g.outcome for g in kiln.graphs()] == ["compiled"]
        assert _pids(daemon) != stopped
        assert daemon.ctl("stats")["worker_restarts"] == 1
    finally:
        daemon.close()


_EARLIER = """
    import kiln, torch
    torch.compile(lambda x: torch.relu(x) * 3, backend="kiln", options={"strict": True})(torch.randn(8))
    result = [(g.key, g.outcome) for g in kiln.graphs()]
"""


def _earlier(daemon: Daemon) -> tuple[str, str]:
    """Key and outcome of one fixed graph, in a process of its own."""
    ((key, outcome),) = run_script(_EARLIER, env={"KILN_SERVER": daemon.address})
    return key, outcome


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05])
def test_a_daemon_killed_in_mid_compile(daemon: Daemon, delay: float) -> None:
    key, outcome = _earlier(daemon)
    assert outcome == "compiled"

    def strike() -> None:
        time.sleep(delay)
        daemon.kill()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kiln.KilnWarning)
        _compile_while(daemon, _chain(12), strike)
    daemon.start()
    assert _earlier(daemon) == (key, "hit")


def _no_kernel(x: torch.Tensor) -> torch.Tensor:
    return x @ x.t()


@pytest.mark.parametrize("what", ["graph", "kernel"])
@pytest.mark.parametrize("step", ["planned", "blobs_staged", "records_staged", "committed", "acknowledged"])
def test_a_daemon_killed_while_it_publishes(step: str, what: str) -> None:
    """The daemon dies in its first publication: that of a kernel, or of the graph itself where it has no kernel."""
    f = _no_kernel if what == "graph" else _chain(3)
    daemon = Daemon("--workers", "1")
    daemon.start()
    try:
        key, _ = _earlier(daemon)
        daemon.stop()
        daemon._flags = ("--workers", "1", f"--debug-crash-at={step}")
        daemon.start()
        x = torch.randn(2, 4)
        options = {"server": daemon.address}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = torch.compile(f, backend="kiln", options=options)(x)
        torch.testing.assert_close(got, f(x))
        assert len([w for w in caught if issubclass(w.category, kiln.KilnWarning)]) == 1
        daemon.kill()
        daemon._flags = ("--workers", "1")
        daemon.start()
        assert _earlier(daemon) == (key, "hit")
        torch._dynamo.reset()
        kiln.reset()
        strict = {"server": daemon.address, "strict": True}
        torch.testing.assert_close(torch.compile(f, backend="kiln", options=strict)(x), f(x))
        stored = what == "graph" and step in ("committed", "acknowledged")
        assert [g.outcome for g in kiln.graphs()] == ["hit" if stored else "compiled"]
    finally:
        daemon.close()
