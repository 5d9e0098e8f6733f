"""kiln.explain(f)(*args): what torch.compile and the server make of a call, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kiln import session
from kiln.backend import backend
from kiln.counters import CompiledGraph, counters
from kiln.proto import artifact_pb2, graph_pb2

_BITS = {
    graph_pb2.BOOL: 8,
    graph_pb2.UINT8: 8,
    graph_pb2.INT8: 8,
    graph_pb2.INT16: 16,
    graph_pb2.UINT16: 16,
    graph_pb2.FLOAT16: 16,
    graph_pb2.BFLOAT16: 16,
    graph_pb2.INT32: 32,
    graph_pb2.UINT32: 32,
    graph_pb2.FLOAT32: 32,
    graph_pb2.COMPLEX32: 32,
    graph_pb2.COMPLEX128: 128,
    graph_pb2.FLOAT8_E4M3FN: 8,
    graph_pb2.FLOAT8_E5M2: 8,
    graph_pb2.FLOAT8_E4M3FNUZ: 8,
    graph_pb2.FLOAT8_E5M2FNUZ: 8,
}


@dataclasses.dataclass(frozen=True)
class Break:
    """Where Dynamo ended a graph."""

    reason: str
    file: str
    line: int


@dataclasses.dataclass(frozen=True)
class Graph:
    """One graph, forward and backward together. Bytes are None where a size is variable."""

    served: CompiledGraph
    nodes: int  # of AOTAutograd's graph
    bytes_moved: int | None  # by the kernels: each reads and writes what it uses once
    bytes_unfused: int | None  # the same, if each operator in them were a kernel of its own


@dataclasses.dataclass(frozen=True)
class Explanation:
    graphs: list[Graph]
    breaks: list[Break]
    recompiles: list[str]  # reasons
    guards: list[str]  # of all frames, as Dynamo names them
    fallbacks: list[str]  # reasons, one a graph that does not run compiled

    def __str__(self) -> str:
        return "\n".join(_report(self))


def explain(f: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """A function that calls `f` compiled, and returns what there is to know of it. `options` are torch.compile's.

    The graphs are compiled or found on the server as ever, and traced by AOTAutograd in any case. Dynamo forgets what
    it has compiled before, of all functions.
    """
    original = getattr(f, "_torchdynamo_orig_callable", None) or getattr(f, "_orig_mod", None) or f

    def run(*args: Any, **kwargs: Any) -> Explanation:
        from torch._dynamo.utils import get_compilation_metrics

        torch._dynamo.reset()
        breaks: list[Break] = []
        guards: list[str] = []
        fallbacks_before = len(counters.read()["fallbacks"])
        known = get_compilation_metrics()  # torch keeps the last few alone: they are told apart by identity

        def compile_graph(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
            reason = getattr(gm, "compile_subgraph_reason", None)
            if reason is not None and reason.graph_break:
                breaks.append(_break(reason))
            return backend(gm, example_inputs, options=options)

        def export(found: Any) -> None:
            guards.extend(f"{guard.create_fn_name()} {guard.name}" for guard in sorted(found))

        with session.watch() as watched:
            torch._dynamo.optimize(compile_graph, guard_export_fn=export)(original)(*args, **kwargs)
        seen = {id(metrics) for metrics in known}
        new = [metrics for metrics in get_compilation_metrics() if id(metrics) not in seen]
        return Explanation(
            graphs=[_graph(seen) for seen in watched],
            breaks=breaks,
            recompiles=[m.recompile_reason for m in new if m.recompile_reason],
            guards=guards,
            fallbacks=counters.read()["fallbacks"][fallbacks_before:],
        )

    return run


def _break(reason: Any) -> Break:
    frame = reason.user_stack[-1] if reason.user_stack else None
    text = str(reason.reason).strip().splitlines()
    return Break(text[0] if text else "", frame.filename if frame else "", (frame.lineno or 0) if frame else 0)


def _graph(seen: session.Watched) -> Graph:
    artifact = artifact_pb2.Artifact.FromString(seen.artifact)
    return Graph(
        served=seen.graph,
        nodes=len(seen.request.graph.nodes),
        bytes_moved=_total(_moved(function) for function in artifact.functions),
        bytes_unfused=_unfused(seen.request.graph, set(seen.graph.external_calls)),
    )


def _total(amounts: Iterator[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _bytes(dtype: int, sizes: Any, syms: graph_pb2.SymTable) -> int | None:
    """None where a size is no constant."""
    elements = 1
    for size in sizes:
        if syms.exprs[size].op != graph_pb2.SymExpr.CONST:
            return None
        elements *= syms.exprs[size].value
    return elements * _BITS.get(dtype, 64) // 8


def _moved(function: artifact_pb2.Function) -> int | None:
    return _total(
        _bytes(function.values[value].dtype, function.values[value].sizes, function.syms)
        for step in function.steps
        if step.WhichOneof("kind") == "launch"
        for value in set(step.launch.buffers)
    )


def _unfused(graph: graph_pb2.Graph, external: set[str]) -> int | None:
    """Operands and results of every operator that is computed in kernels; views move nothing."""
    types: list[int] = [i.type if i.WhichOneof("kind") == "type" else -1 for i in graph.inputs]
    types += [constant.type for constant in graph.constants]
    amounts: list[int | None] = []
    for node in graph.nodes:
        op = graph.ops[node.op]
        if op.name not in external and "(a" not in op.schema.split("->")[0]:
            used = {arg.value for arg in node.args if arg.WhichOneof("kind") == "value"}
            used |= {i.value for arg in node.args for i in arg.list.items if i.WhichOneof("kind") == "value"}
            operands = [types[value] for value in used]
            for index in (*operands, *node.result_types):
                if 0 <= index < len(graph.types):
                    amounts.append(_bytes(graph.types[index].dtype, graph.types[index].sizes, graph.syms))
        types.extend(node.result_types)
    return _total(iter(amounts))


def _report(e: Explanation) -> Iterator[str]:
    counts: dict[str, list[Any]] = {
        "graphs": e.graphs,
        "graph breaks": e.breaks,
        "recompiles": e.recompiles,
        "guards": e.guards,
    }
    yield ", ".join(f"{what}: {len(found)}" for what, found in counts.items())
    for i, graph in enumerate(e.graphs):
        served = graph.served
        yield (
            f"graph {i}: {graph.nodes} nodes, {len(served.kernels)} distinct kernels, {served.launches} launches, "
            f"{sum(served.external_calls.values())} external calls; key {served.key[:12]}"
        )
        yield f"  look-up: {served.lookup}; code: {served.outcome}"
        if graph.bytes_moved is not None and graph.bytes_unfused is not None:
            unfused = f"one operator a kernel: {graph.bytes_unfused / 1e6:.1f} MB"
            yield f"  moves {graph.bytes_moved / 1e6:.1f} MB in kernels; {unfused}"
        calls = ", ".join(f"{count} {op}" for op, count in served.external_calls.items())
        if calls:
            yield f"  external: {calls}"
    for at in e.breaks:
        yield f"graph break at {at.file}:{at.line}: {at.reason}"
    for reason in e.recompiles:
        yield f"recompiled: {reason}"
    for reason in e.fallbacks:
        yield f"runs through the fallback: {reason}"
