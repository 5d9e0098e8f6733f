"""End to end: real kilnd, real worker processes, real generated code."""

from __future__ import annotations

from collections.abc import Iterator

import kiln
import pytest
import torch
from kiln.testing import Daemon


@pytest.fixture(scope="session")
def shared_daemon() -> Iterator[Daemon]:
    """One daemon for all tests that do not stop it."""
    daemon = Daemon("--workers", "2")
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon of the test's own, running and empty."""
    daemon = Daemon("--workers", "2")
    daemon.start()
    yield daemon
    daemon.close()


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (
        "STRICT",
        "FALLBACK",
        "TIMEOUT",
        "PRECISION",
        "MEMORY_BUDGET",
        "RECORD",
        "JOB",
        "RECYCLE_OUTPUTS",
        "RECYCLE_BYTES",
        "AUDIT",
    ):
        monkeypatch.delenv(f"KILN_{name}", raising=False)
    torch._dynamo.reset()
    torch.manual_seed(0)
    kiln.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def server(shared_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """The shared daemon, and nothing may fall back: tests that want a fallback say strict=False."""
    monkeypatch.setenv("KILN_SERVER", shared_daemon.address)
    monkeypatch.setenv("KILN_STRICT", "1")
    return shared_daemon
