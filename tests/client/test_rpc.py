"""The extension's client where there is no server; with one, tests/e2e."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
from kiln import _kiln


def test_no_server_is_an_error_at_once(tmp_path: Path) -> None:
    client = _kiln.Client(f"unix:{tmp_path}/nobody")
    assert client.address == f"unix:{tmp_path}/nobody"
    start = time.monotonic()
    calls = (lambda: client.capabilities(10.0), lambda: client.compile(b"", 10.0), lambda: client.lookup(b"", 10.0))
    for call in calls:
        with pytest.raises(_kiln.RpcError) as info:
            call()
        assert (info.value.code, info.value.name, info.value.node) == (14, "UNAVAILABLE", -1)
        assert str(info.value) == f"UNAVAILABLE: {info.value.message}"
        assert info.value.details == b""
        client.reset()
    assert time.monotonic() - start < 5


def test_what_is_not_a_request_is_a_value_error() -> None:
    client = _kiln.Client("unix:/nowhere")
    with pytest.raises(ValueError, match=r"kiln\.v1\.CompileRequest"):
        client.compile(b"\xff", 1.0)
    with pytest.raises(TypeError):
        client.compile("text", 1.0)


def _in_child(client: object) -> None:
    with pytest.raises(_kiln.RpcError):
        client.capabilities(5.0)  # type: ignore[attr-defined]


def test_forked_child_may_use_a_client(tmp_path: Path) -> None:
    client = _kiln.Client(f"unix:{tmp_path}/nobody")
    with pytest.raises(_kiln.RpcError):
        client.capabilities(5.0)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(client,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
