"""This process's connections to compile servers: made lazily, and anew after a fork and after a server's restart."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import logging
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from kiln import record
from kiln.counters import CompiledGraph, counters
from kiln.errors import KilnError, KilnWarning, ServerError
from kiln.external import python_call
from kiln.local import local_address
from kiln.logs import Progress
from kiln.opaque import BoxedFunction
from kiln.options import Options
from kiln.proto import artifact_pb2, call_spec_pb2, compile_pb2, generalization_pb2

log = logging.getLogger("kiln.session")

_Reply = TypeVar("_Reply")

PROTOCOL_VERSION = 1
# A server answers Capabilities at once, whatever it is compiling: silence means that it hangs or cannot be reached.
PROBE_SECONDS = 5.0
# After silence, how long graphs fall back without waiting again. A refused connection costs nothing: no pause.
PAUSE_SECONDS = 30.0

HIT = "hit"  # by Dynamo's own graph
GENERAL_HIT = "hit, as one size of several"  # by that graph with symbols for its sizes (kiln.generalize)

_OUTCOMES = {compile_pb2.Done.HIT: "hit", compile_pb2.Done.COMPILED: "compiled", compile_pb2.Done.JOINED: "joined"}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A loaded artifact: the server's signature, and one boxed function for inference or two for a joint graph."""

    key: bytes
    signature: artifact_pb2.PlanSignature
    functions: list[BoxedFunction]
    request: bytes = b""  # SHA-256 of the request that was compiled, as it is recorded
    graph: CompiledGraph | None = None


@dataclasses.dataclass(frozen=True)
class Found:
    """What a look-up of Dynamo's graph found. `compiled` is None where the variant says that its kind is refused."""

    variant: call_spec_pb2.Variant
    compiled: Compiled | None


@dataclasses.dataclass(frozen=True)
class Watched:
    """A compile, with all that it was about."""

    request: compile_pb2.CompileRequest
    artifact: bytes
    graph: CompiledGraph


_watched: list[Watched] | None = None


@contextlib.contextmanager
def watch() -> Iterator[list[Watched]]:
    """Collects this process's compiles; while it does, every graph is traced, also where its look-up hits."""
    global _watched
    before, _watched = _watched, []
    try:
        yield _watched
    finally:
        _watched = before


def watching() -> bool:
    return _watched is not None


def address(request: compile_pb2.CompileRequest, options: Options, gpu: int) -> None:
    """Fills in what a request says beside its graph and guards: protocol version, target, job. `gpu`: the CUDA device's
    number, -1 for a graph on the CPU."""
    request.protocol_version = PROTOCOL_VERSION
    request.target.CopyFrom(_target(gpu))
    request.job.job = options.job


def compile_graph(request: compile_pb2.CompileRequest, options: Options, lookup: str = "", gpu: int = -1) -> Compiled:
    """Sends a graph, waits for all of its code, loads it. KilnError if anything fails; nothing has run by then.

    Fills in the request's protocol version, target and job. `lookup` says what a look-up of Dynamo's graph gave; `gpu`
    is the CUDA device's number, -1 for a graph on the CPU.
    """
    start = time.monotonic()
    address(request, options, gpu)
    data = request.SerializeToString(deterministic=True)
    _record(options, compile_pb2.Recorded(compile=request))
    digest, deadline = hashlib.sha256(data).digest(), start + options.timeout
    data += compile_pb2.CompileRequest(job=_new_request(options)).SerializeToString()
    done = _ask(options, lambda server: server.compile(data, deadline))
    compiled = _load(done, options, start, lookup, gpu)
    if _watched is not None and compiled.graph is not None:
        _watched.append(Watched(request, done.artifact, compiled.graph))
    return dataclasses.replace(compiled, request=digest)


def lookup(digest: bytes, hints: Sequence[int], options: Options, outcome: str = HIT, gpu: int = -1) -> Found | None:
    """Asks for the graph whose request has this SHA-256, and loads its code. None: there is none. KilnError.

    `outcome` is what a hit counts as: HIT or GENERAL_HIT.
    """
    start = time.monotonic()
    request = compile_pb2.LookupRequest(
        protocol_version=PROTOCOL_VERSION, request_digest=digest, hints=hints, job=_new_request(options)
    )
    data, deadline = request.SerializeToString(), start + options.timeout
    reply = _ask(options, lambda server: server.lookup(data, deadline))
    if not reply.HasField("variant"):
        return None
    return Found(reply.variant, _load(reply.done, options, start, outcome, gpu) if reply.hit else None)


def find_generalization(
    request: compile_pb2.CompileRequest, options: Options
) -> generalization_pb2.Generalization | None:
    """Asks what this graph, which a look-up by digest has missed, has in common with others of other sizes. None:
    nothing that the server knows of. KilnError."""
    lookup = compile_pb2.LookupRequest(protocol_version=PROTOCOL_VERSION, request=request, job=_new_request(options))
    data, deadline = lookup.SerializeToString(), time.monotonic() + options.timeout
    reply = _ask(options, lambda server: server.lookup(data, deadline))
    return reply.generalization if reply.HasField("generalization") else None


def put_call_spec(request: compile_pb2.PutCallSpecRequest, compiled: Compiled | None, options: Options) -> None:
    """`request` lacks the compiled code's key, if it is about any. KilnError."""
    request.protocol_version = PROTOCOL_VERSION
    request.action = compiled.request if compiled is not None else b""
    _record(options, compile_pb2.Recorded(call_spec=request))
    request.action = compiled.key if compiled is not None else b""
    data, deadline = request.SerializeToString(), time.monotonic() + options.timeout
    _ask(options, lambda server: server.put_call_spec(data, deadline))


def _record(options: Options, recorded: compile_pb2.Recorded) -> None:
    if not options.record:
        return
    try:
        record.append(options.record, recorded)
    except OSError as e:
        reason = f"cannot record into {options.record}: {e.strerror}"
        if options.strict:
            raise KilnError(reason) from e
        warnings.warn(f"kiln: {reason}", KilnWarning, stacklevel=2)


def written_apart(inputs: tuple[Any, ...], written: tuple[int, ...]) -> bool:
    """Whether the tensors at the positions `written` share no memory with another of the inputs."""
    apart: bool = _extension().written_apart(inputs, written)
    return apart


def recycled(*, reset: bool = False) -> dict[str, int]:
    """The memory of outputs that may be used again, see kiln.counters(). `reset` zeroes the counts after that."""
    if _extension_module is None:
        return {"bytes": 0, "idle_bytes": 0, "reused": 0, "fresh": 0}
    return dict(_extension_module.recycled(reset))


def trim() -> int:
    """Gives idle memory of outputs back; its bytes."""
    return 0 if _extension_module is None else int(_extension_module.trim())


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
        progress = Progress(log)
        try:
            done = self._call(self._client.compile, data, deadline, progress.event)
        finally:
            progress.close()
        return compile_pb2.Done.FromString(done)

    def lookup(self, data: bytes, deadline: float) -> compile_pb2.LookupReply:
        """Likewise."""
        return compile_pb2.LookupReply.FromString(self._call(self._client.lookup, data, deadline))

    def put_call_spec(self, data: bytes, deadline: float) -> None:
        """Likewise."""
        self._call(self._client.put_call_spec, data, deadline)

    def _call(self, method: Callable[..., bytes], data: bytes, deadline: float, *more: Any) -> bytes:
        self._probe()
        try:
            return method(data, max(deadline - time.monotonic(), 0.001), *more)
        except _extension().RpcError as e:
            self._probed = False
            raise self._error(e) from None

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


def _new_request(options: Options) -> compile_pb2.JobInfo:
    return compile_pb2.JobInfo(job=options.job, request_id=uuid.uuid4().hex[:16])


def _ask(options: Options, call: Callable[[_Server], _Reply]) -> _Reply:
    """One more try where the server is gone: it may have just been restarted, and the local daemon starts on demand."""
    for last in (False, True):
        address = options.server or _local_daemon(again=last)
        try:
            return call(_server(address))
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


def _load(done: compile_pb2.Done, options: Options, start: float, lookup: str, gpu: int) -> Compiled:
    answered = time.monotonic()
    _extension().recycle(options.recycle_outputs, options.recycle_bytes)
    with unset_fake_temporarily():
        try:
            resolve = functools.partial(python_call, gpu=gpu)
            loaded = _extension().load(done.artifact, done.shared_object, resolve, gpu)
        except Exception as e:
            raise KilnError(f"cannot load the artifact: {e}") from e
    signature = artifact_pb2.PlanSignature.FromString(loaded.signature)
    functions = [loaded.function(i) for i in range(loaded.num_functions)]
    now = time.monotonic()
    parts = {"server": answered - start, "load": now - answered}
    graph = _describe(done, loaded.info(), lookup, now - start, parts)
    counters.add(graph)
    log.info(
        "%s %s: server %.3f s, all %.3f s, %d kernels, %d launches, %d external calls",
        graph.outcome, graph.key[:12], graph.server_seconds, graph.client_seconds, len(graph.kernels), graph.launches,
        sum(graph.external_calls.values()),
    )  # fmt: skip
    return Compiled(done.key, signature, functions, graph=graph)


def _describe(
    done: compile_pb2.Done, info: dict[str, Any], lookup: str, client_seconds: float, parts: dict[str, float]
) -> CompiledGraph:
    artifact = artifact_pb2.Artifact.FromString(done.artifact)
    return CompiledGraph(
        key=done.key.hex(),
        outcome=_OUTCOMES.get(done.outcome, "compiled"),
        traced=lookup not in (HIT, GENERAL_HIT),
        lookup=lookup,
        artifact=hashlib.sha256(done.artifact).hexdigest(),
        shared_object=hashlib.sha256(done.shared_object).hexdigest() if done.shared_object else "",
        server_seconds=done.server_seconds,
        client_seconds=client_seconds,
        parts=parts,
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
        if _facts.get("not_recycled"):
            log.warning("the memory of outputs is not used again: %s", _facts["not_recycled"])
        _extension_module = module
    return _extension_module


def _target(gpu: int) -> artifact_pb2.Target:
    extension = _extension()
    try:
        name = extension.cuda_target(gpu) if gpu >= 0 else extension.host_target()
    except RuntimeError as e:
        raise KilnError(str(e)) from e
    return artifact_pb2.Target(
        name=name,
        host=artifact_pb2.HostAbi(
            torch_version=torch.__version__.partition("+")[0],
            aoti_abi=_facts["aoti_abi"],
            kiln_abi=_facts["kiln_abi"],
        ),
    )
