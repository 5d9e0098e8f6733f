"""Code for GPUs, made where there is none: graphs that were captured on the CPU, compiled as if for a CUDA device."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from kiln import session
from kiln.errors import ServerError
from kiln.options import Options
from kiln.proto import artifact_pb2, compile_pb2, graph_pb2
from kiln.testing import Daemon, binary

from tests.models.zoo import MODELS

HERE = Path(__file__).parent
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90")
CUDA = Path(sys.prefix) / f"lib/python3.{sys.version_info[1]}/site-packages/nvidia/cu13"
PTXAS, LIBDEVICE = CUDA / "bin/ptxas", CUDA / "nvvm/libdevice/libdevice.10.bc"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    daemon = Daemon("--workers", "2")
    daemon.start()
    yield daemon
    daemon.close()


class Stopped(Exception):
    """There is nothing that could run."""


def request_of(step: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> compile_pb2.CompileRequest:
    """What torch.compile sends of a step's first graph, with its tensors on a GPU."""
    sent: list[compile_pb2.CompileRequest] = []

    def compile_graph(request: compile_pb2.CompileRequest, options: Options, lookup: str, gpu: int) -> Any:
        session.address(request, options, gpu)
        sent.append(request)
        raise Stopped

    monkeypatch.setattr(session, "compile_graph", compile_graph)
    monkeypatch.setattr(session, "lookup", lambda *_: None)
    monkeypatch.setattr(session, "find_generalization", lambda *_: None)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="Stopped"):
        step()
    request = sent[0]
    _move(request.graph)
    _move(request.guards)
    return request


def _move(message: Any) -> None:
    for field, value in message.ListFields():
        if field.name == "device":
            message.device = graph_pb2.CUDA
        elif field.message_type is not None:
            for item in [value] if hasattr(value, "ListFields") else value:
                _move(item)


def compiled(
    daemon: Daemon, request: compile_pb2.CompileRequest, target: str
) -> tuple[artifact_pb2.Artifact, list[bytes]]:
    request.target.name = target
    done = session._Server(daemon.address).compile(request.SerializeToString(), time.monotonic() + 120)
    code = artifact_pb2.CudaCode.FromString(done.shared_object)
    return artifact_pb2.Artifact.FromString(done.artifact), list(code.modules)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_compile(name: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    call = torch.compile(model, backend="kiln", options={"strict": True, "server": daemon.address})
    artifact, modules = compiled(daemon, request_of(lambda: call(**inputs), monkeypatch), "sm_90")
    assert len(modules) == len(artifact.kernels) > 0
    assert [f.name for f in artifact.functions] == ["forward", "backward"]
    assert all(k.threads == 1 or k.threads % 32 == 0 for k in artifact.kernels)
    assert all(module.startswith(b"\x7fELF") for module in modules)


def test_what_a_newer_gpu_gets(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas makes it of the newest PTX that LLVM writes; one that ptxas does not know compiles the PTX itself."""
    call = torch.compile(lambda x: torch.relu(x * 2 + 1), backend="kiln", options={"strict": True})
    request = request_of(lambda: call(torch.randn(1024)), monkeypatch)
    assert compiled(daemon, request, "sm_100")[1][0].startswith(b"\x7fELF")
    with pytest.raises(ServerError, match=r"target.name: 'sm_75', this server makes .*sm_80"):
        compiled(daemon, request, "sm_75")


def test_cubins_do_not_depend_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> Any:
        call = torch.compile(lambda x: torch.softmax(x, -1) @ x, backend="kiln", options={"strict": True})
        return call(torch.randn(64, 64))

    request = request_of(step, monkeypatch)
    digests = set()
    for workers in ("1", "3"):
        daemon = Daemon("--workers", workers)
        daemon.start()
        try:
            digests.add(tuple(hashlib.sha256(m).hexdigest() for m in compiled(daemon, request, "sm_90")[1]))
        finally:
            daemon.close()
    assert len(digests) == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("libdevice", [False, True], ids=["own functions", "libdevice"])
def test_kernels_assemble(target: str, libdevice: bool, tmp_path: Path) -> None:
    for graph in sorted((HERE / "kernels").glob("*.kir")):
        command = [binary("kiln-opt"), str(graph), "--target", target, "--stop-after", "asm"]
        command += ["--libdevice", str(LIBDEVICE)] if libdevice else []
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for ptx in listing.split("//\n// Generated by LLVM")[1:]:
            source = tmp_path / "kernel.ptx"
            source.write_text("//\n// Generated by LLVM" + ptx.split("\n# ")[0])
            done = subprocess.run(
                [PTXAS, f"--gpu-name={target}", "--warn-on-spills", "-o", os.devnull, source],
                capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, (graph.stem, done.stderr)
