"""Real processes that die: training goes on, and nothing that was stored is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable

import kiln
import pytest
import torch
from kiln.testing import Daemon, run_script


def _wait(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def _pids(daemon: Daemon) -> list[int]:
    return [int(w["pid"]) for w in daemon.ctl("status")["workers"] if int(w["pid"]) > 0]


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


def test_every_worker_killed_again_and_again_costs_one_warning(daemon: Daemon) -> None:
    over = threading.Event()

    def strike() -> None:
        while not over.is_set():
            for pid in _pids(daemon):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    x = torch.randn(8, 16)
    striker = threading.Thread(target=strike)
    striker.start()
    f = _chain(30)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = torch.compile(f, backend="kiln", options={"server": daemon.address})(x)
    finally:
        over.set()
        striker.join()
    torch.testing.assert_close(got, f(x))
    if kiln.counters()["fallbacks"]:  # it may have slipped through
        assert len([w for w in caught if issubclass(w.category, kiln.KilnWarning)]) == 1


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
    return torch.cumsum(x, 0)


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
