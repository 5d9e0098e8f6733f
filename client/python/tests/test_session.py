"""Connections: what is retried, what is waited for, what a failure says. A stand-in for the extension module plays the
server."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import kiln
import pytest
import torch
from kiln import record, session
from kiln.options import Options
from kiln.proto import artifact_pb2, compile_pb2


class RpcError(Exception):
    def __init__(self, name: str, message: str, node: int = -1) -> None:
        super().__init__(name)
        self.name, self.message, self.node = name, message, node


class Extension:
    """Plays kiln._kiln. `script` holds what the calls do, in order: an exception is raised, anything else succeeds."""

    RpcError = RpcError

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.calls: list[str] = []
        self.requests: list[bytes] = []
        extension = self

        class Client:
            def __init__(self, address: str) -> None:
                extension.calls.append(f"connect {address}")

            def capabilities(self, _timeout: float) -> bytes:
                extension.act("capabilities")
                return compile_pb2.Capabilities(protocol_version=1, build="b").SerializeToString()

            def compile(self, request: bytes, timeout: float, on_event: Any) -> bytes:
                assert 0 < timeout <= 600
                extension.requests.append(request)
                extension.act("compile")
                on_event(compile_pb2.CompileEvent(planning=compile_pb2.CompileEvent.Planning()).SerializeToString())
                artifact = artifact_pb2.Artifact(kernels=[artifact_pb2.KernelRef(key=b"\x01")])
                done = compile_pb2.Done(outcome=compile_pb2.Done.COMPILED, key=b"\xab", server_seconds=0.5)
                done.artifact = artifact.SerializeToString()
                return done.SerializeToString()

            def reset(self) -> None:
                extension.calls.append("reset")

        self.Client = Client

    def act(self, name: str) -> None:
        self.calls.append(name)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step

    def load(self, _artifact: bytes, _shared_object: bytes, _python_call: Any, _device: int) -> Any:
        class Loaded:
            signature = artifact_pb2.PlanSignature(num_inputs=1).SerializeToString()
            num_functions = 1

            @staticmethod
            def function(_i: int) -> Any:
                return lambda args: [t + 1 for t in args]

            @staticmethod
            def info() -> dict[str, Any]:
                return {"launches": [1], "external_calls": {"aten.mm.default": 1}}

        return Loaded

    def init(self, _library: str, probe: torch.Tensor) -> dict[str, int]:
        assert type(probe) is torch.Tensor
        return {"aoti_abi": 7, "kiln_abi": 1}

    def host_target(self) -> str:
        return "x86-64-v3"

    def recycle(self, on: bool, max_bytes: int) -> None:
        self.recycling = (on, max_bytes)

    def recycled(self, _reset: bool) -> dict[str, int]:
        return {"reused": 3}

    def trim(self) -> int:
        return 7


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    def start(*script: Any) -> Extension:
        extension = Extension(*script)
        monkeypatch.setattr(session, "_extension_module", extension)
        monkeypatch.setattr(session, "_facts", extension.init("", torch.zeros(1)))
        session.reset()
        return extension

    return start


OPTIONS = Options(server="host:1", job="j")


def _compile(options: Options = OPTIONS) -> session.Compiled:
    return session.compile_graph(compile_pb2.CompileRequest(), options)


def test_a_compile(play: Any) -> None:
    extension = play()
    compiled = _compile()
    assert compiled.signature.num_inputs == 1
    assert extension.calls == ["connect host:1", "capabilities", "compile"]
    request = compile_pb2.CompileRequest.FromString(extension.requests[0])
    assert (request.protocol_version, request.job.job, len(request.job.request_id)) == (1, "j", 16)
    assert (request.target.name, request.target.host.aoti_abi) == ("x86-64-v3", 7)
    assert request.target.host.torch_version == torch.__version__.partition("+")[0]
    (graph,) = kiln.graphs()
    assert (graph.key, graph.outcome, graph.kernels, graph.launches) == ("ab", "compiled", ("01",), 1)
    assert kiln.counters()["external_calls"] == {"aten.mm.default": 1}
    _compile()
    assert extension.calls[3:] == ["compile"]  # one connection, asked for its capabilities once
    assert kiln.counters()["kernels"] == 1  # the same kernel twice


def test_a_server_that_went_away_is_tried_once_more(play: Any) -> None:
    extension = play(None, RpcError("UNAVAILABLE", "gone"))
    _compile()
    assert extension.calls == ["connect host:1", "capabilities", "compile", "reset", "capabilities", "compile"]
    extension = play(RpcError("UNAVAILABLE", "refused"), RpcError("UNAVAILABLE", "refused"))
    with pytest.raises(kiln.ServerError, match=r"UNAVAILABLE: refused \[host:1\]"):
        _compile()
    assert extension.calls.count("capabilities") == 2


def test_refusals_are_not_retried_and_name_the_node(play: Any) -> None:
    extension = play(None, RpcError("INVALID_ARGUMENT", "nodes[3].op: out of range", node=3))
    with pytest.raises(kiln.ServerError, match=r"INVALID_ARGUMENT: nodes\[3\]") as e:
        _compile()
    assert (e.value.code, e.value.node) == ("INVALID_ARGUMENT", 3)
    assert extension.calls.count("compile") == 1


def test_silence_is_not_waited_for_again_for_a_while(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    extension = play(RpcError("DEADLINE_EXCEEDED", "no answer"))
    now = time.monotonic()
    monkeypatch.setattr(session.time, "monotonic", lambda: now)
    with pytest.raises(kiln.ServerError, match="host:1 did not answer in"):
        _compile()
    with pytest.raises(kiln.ServerError, match="asked again in 30 s"):
        _compile()
    assert extension.calls == ["connect host:1", "capabilities"]
    now += session.PAUSE_SECONDS + 1
    _compile()
    assert extension.calls[2:] == ["capabilities", "compile"]


def test_after_a_slow_compile_the_server_is_probed_first(play: Any) -> None:
    extension = play(None, RpcError("DEADLINE_EXCEEDED", "too slow"))
    with pytest.raises(kiln.ServerError, match="too slow"):
        _compile()
    _compile()
    assert extension.calls[3:] == ["capabilities", "compile"]


def test_requests_are_recorded_before_they_are_sent(play: Any, tmp_path: Path) -> None:
    play(RpcError("UNAVAILABLE", "x"), RpcError("UNAVAILABLE", "x"))
    path = str(tmp_path / "requests")
    with pytest.raises(kiln.ServerError):
        _compile(Options(server="host:1", record=path))
    (recorded,) = record.read(path)
    assert recorded.compile.job.request_id == ""  # the same graph is recorded once
    with pytest.raises(kiln.KilnError, match="cannot record into /nowhere/x"):
        _compile(Options(server="host:1", record="/nowhere/x", strict=True))
    # Otherwise the graph is compiled all the same.
    play()
    with pytest.warns(kiln.KilnWarning, match="cannot record into /nowhere/x"):
        _compile(Options(server="host:1", record="/nowhere/x"))


def test_recycling_is_as_the_last_graph_wants_it(play: Any) -> None:
    extension = play()
    _compile()
    assert extension.recycling == (True, 8 << 30)
    _compile(Options(server="host:1", recycle_outputs=False, recycle_bytes=5))
    assert extension.recycling == (False, 5)
    assert kiln.counters()["recycled"] == {"reused": 3}
    assert kiln.trim() == 7


def test_reset_forgets_connections(play: Any) -> None:
    extension = play()
    _compile()
    kiln.reset()
    assert kiln.graphs() == []
    _compile()
    assert extension.calls.count("connect host:1") == 2


def test_without_the_extension_the_reason_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_extension_module", None)
    monkeypatch.setitem(sys.modules, "kiln._kiln", None)
    with pytest.warns(kiln.KilnWarning, match=r"deploy/install\.sh builds it"):
        assert torch.compile(lambda x: x + 1, backend="kiln")(torch.ones(1)).tolist() == [2]


def test_local_daemon_not_found(monkeypatch: pytest.MonkeyPatch, play: Any) -> None:
    play()
    monkeypatch.setenv("KILN_KILND", "/nonexistent/kilnd")
    with pytest.raises(kiln.ServerError, match="No such file"):
        _compile(Options())
