"""Fixtures of the client's unit tests: they need no server, no extension module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import interpreter
import kiln
from kiln import session


@pytest.fixture(autouse=True)
def _fresh_torch() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    kiln.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The reference interpreter in the server's place; collects what was sent."""
    sent: list[Any] = []

    def compile_graph(request: Any, options: Any, *_how: Any) -> session.Compiled:
        sent.append(request)
        return interpreter.compile_graph(request, options)

    interpreter.replace_server(monkeypatch.setattr, compile_graph)
    return sent
