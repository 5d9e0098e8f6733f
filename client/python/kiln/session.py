"""This process's connections to compile servers: made lazily, and anew after a fork and after a server's restart."""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import threading
import time
import uuid
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from kiln import record
from kiln.counters import CompiledGraph, counters
from kiln.errors import KilnError, ServerError
from kiln.external import python_call
from kiln.local import local_address
from kiln.logs import Progress
from kiln.opaque import BoxedFunction
from kiln.options import Options
from kiln.proto import artifact_pb2, compile_pb2

log = logging.getLogger("kiln.session")

PROTOCOL_VERSION = 1
# A server answers Capabilities at once, whatever it is compiling: silence means that it hangs or cannot be reached.
PROBE_SECONDS = 5.0
# After silence, how long graphs fall back without waiting again. A refused connection costs nothing: no pause.
PAUSE_SECONDS = 30.0

_OUTCOMES = {compile_pb2.Done.HIT: "hit", compile_pb2.Done.COMPILED: "compiled", compile_pb2.Done.JOINED: "joined"}


class Compiled:
    """A loaded artifact: the server's signature, and one boxed function for inference or two for a joint graph."""

    def __init__(self, signature: artifact_pb2.PlanSignature, functions: list[BoxedFunction]) -> None:
        self.signature = signature
        self.functions = functions


def compile_graph(request: compile_pb2.CompileRequest, options: Options) -> Compiled:
    """Sends a graph, waits for all of its code, loads it. KilnError if anything fails; nothing has run by then.

    Fills in the request's protocol version, target and job.
    """
    start = time.monotonic()
    request.protocol_version = PROTOCOL_VERSION
    request.target.CopyFrom(_target())
    request.job.job = options.job
    data = request.SerializeToString(deterministic=True)
    if options.record:
        try:
            record.append(options.record, data)
        except OSError as e:
            raise KilnError(f"cannot record into {options.record}: {e.strerror}") from e
    done = _compile(data, options, start + options.timeout)
    return _load(done, start)


def reset() -> None:
    """Forgets every connection; the next graph connects again."""
    global _local
    with _lock:
        _servers.clear()
        _local = None


class _Server:
    """One address. Thread-safe."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = _extension().Client(address)
        self._lock = threading.Lock()
        self._probed = False
        self._silent_until = 0.0

    def compile(self, data: bytes, deadline: float) -> compile_pb2.Done:
        """ServerError. One that is "UNAVAILABLE" may be tried again at once; the channel is new then."""
        self._probe()
        progress = Progress(log)
        try:
            return compile_pb2.Done.FromString(
                self._client.compile(data, max(deadline - time.monotonic(), 0.001), progress.event)
            )
        except _extension().RpcError as e:
            self._probed = False
            raise self._error(e) from None
        finally:
            progress.close()

    def _probe(self) -> None:
        """Makes sure that somebody is there before a call that may wait for long."""
        with self._lock:
            pause = self._silent_until - time.monotonic()
            if pause > 0:
                raise ServerError(
                    "DEADLINE_EXCEEDED", f"{self.address} did not answer; it is asked again in {pause:.0f} s"
                )
            if self._probed:
                return
            start = time.monotonic()
            try:
                answer = compile_pb2.Capabilities.FromString(self._client.capabilities(PROBE_SECONDS))
            except _extension().RpcError as e:
                error, now = self._error(e), time.monotonic()
                # A connection that nobody answers ends as UNAVAILABLE too, but not at once.
                if error.code == "DEADLINE_EXCEEDED" or now - start > PROBE_SECONDS / 2:
                    self._silent_until = now + PAUSE_SECONDS
                    error = ServerError("DEADLINE_EXCEEDED", f"{self.address} did not answer in {now - start:.1f} s")
                raise error from None
            self._probed = True
            log.info("connected to %s, build %s", self.address, answer.build)

    def _error(self, e: Any) -> ServerError:
        if e.name == "UNAVAILABLE":
            self._client.reset()  # or gRPC would go on refusing for its back-off time
        return ServerError(e.name, f"{e.message} [{self.address}]", getattr(e, "node", -1))


_lock = threading.Lock()
_servers: dict[str, _Server] = {}
_local: str | None = None  # the local daemon's address, as long as it answers there
_left_behind: list[Any] = []


def _forget_after_fork() -> None:
    """A channel's threads do not exist in a forked child: the parent's clients are neither used nor destroyed there."""
    global _lock, _servers
    _left_behind.append(_servers)
    _lock, _servers = threading.Lock(), {}


os.register_at_fork(after_in_child=_forget_after_fork)


def _server(address: str) -> _Server:
    with _lock:
        server = _servers.get(address)
        if server is None:
            server = _servers[address] = _Server(address)
        return server


def _compile(data: bytes, options: Options, deadline: float) -> compile_pb2.Done:
    """One more try where the server is gone: it may have just been restarted, and the local daemon starts on demand."""
    data += compile_pb2.CompileRequest(job=compile_pb2.JobInfo(request_id=uuid.uuid4().hex[:16])).SerializeToString()
    for last in (False, True):
        address = options.server or _local_daemon(again=last)
        try:
            return _server(address).compile(data, deadline)
        except ServerError as e:
            if last or e.code != "UNAVAILABLE":
                raise
            log.info("%s; trying again", e)
    raise AssertionError("not reached")


def _local_daemon(*, again: bool) -> str:
    """The local daemon's address; asks kilnd, which starts it, the first time and where it is gone (`again`)."""
    global _local
    with _lock:
        if _local is None or again:
            _local = local_address()
        return _local


def _load(done: compile_pb2.Done, start: float) -> Compiled:
    with unset_fake_temporarily():
        try:
            loaded = _extension().load(done.artifact, done.shared_object, python_call)
        except Exception as e:
            raise KilnError(f"cannot load the artifact: {e}") from e
    signature = artifact_pb2.PlanSignature.FromString(loaded.signature)
    functions = [loaded.function(i) for i in range(loaded.num_functions)]
    graph = _describe(done, loaded.info(), time.monotonic() - start)
    counters.add(graph)
    log.info(
        "%s %s: server %.3f s, all %.3f s, %d kernels, %d launches, %d external calls",
        graph.outcome, graph.key[:12], graph.server_seconds, graph.client_seconds, len(graph.kernels), graph.launches,
        sum(graph.external_calls.values()),
    )  # fmt: skip
    return Compiled(signature, functions)


def _describe(done: compile_pb2.Done, info: dict[str, Any], client_seconds: float) -> CompiledGraph:
    artifact = artifact_pb2.Artifact.FromString(done.artifact)
    return CompiledGraph(
        key=done.key.hex(),
        outcome=_OUTCOMES.get(done.outcome, "compiled"),
        artifact=hashlib.sha256(done.artifact).hexdigest(),
        shared_object=hashlib.sha256(done.shared_object).hexdigest() if done.shared_object else "",
        server_seconds=done.server_seconds,
        client_seconds=client_seconds,
        kernels=tuple(k.key.hex() for k in artifact.kernels),
        launches=sum(info["launches"]),
        external_calls=info["external_calls"],
    )


_extension_module: Any = None
_facts: dict[str, Any] = {}


def _extension() -> Any:
    """The C++ client, bound to this torch. KilnError where it is not built or does not understand this torch."""
    global _extension_module, _facts
    if _extension_module is None:
        try:
            module = importlib.import_module("kiln._kiln")
        except ImportError as e:
            raise KilnError(f"kiln's extension module cannot be loaded ({e}); deploy/install.sh builds it") from e
        library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
        try:
            with unset_fake_temporarily():
                _facts = dict(module.init(library, torch.zeros(2, 3)))
        except Exception as e:
            raise KilnError(f"kiln's run time does not work with torch {torch.__version__}: {e}") from e
        _extension_module = module
    return _extension_module


def _target() -> artifact_pb2.Target:
    extension = _extension()
    return artifact_pb2.Target(
        name=extension.host_target(),
        host=artifact_pb2.HostAbi(
            torch_version=torch.__version__.partition("+")[0],
            aoti_abi=_facts["aoti_abi"],
            kiln_abi=_facts["kiln_abi"],
        ),
    )
