"""What the six models save for their backward, in bytes, beside what PyTorch's min-cut partitioner saves.

Parameters and buffers are left out on both sides: they are there anyway. Prints a line a model (`pytest -s`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kiln
import pytest
import torch
from kiln import session
from kiln.proto import artifact_pb2, compile_pb2, graph_pb2
from kiln.testing import Daemon
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

sys.path.insert(0, str(Path(__file__).parent))

from zoo import MODELS

Compile = Callable[..., Any]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    daemon = Daemon("--workers", "2")
    daemon.start()
    yield daemon
    daemon.close()


def saved_by_kiln(request: compile_pb2.CompileRequest, signature: artifact_pb2.PlanSignature) -> int:
    """Bytes of the values that the server saves; all sizes are numbers."""
    graph = request.graph
    types = [entry.type if entry.WhichOneof("kind") == "type" else None for entry in graph.inputs]
    types += [constant.type for constant in graph.constants]
    types += [t for node in graph.nodes for t in node.result_types]
    static = {i for i, guard in enumerate(request.guards.inputs) if guard.is_static}
    values = zip(signature.saved_values, signature.saved_dtypes, strict=True)
    return sum(_bytes(graph, types[v], dtype) for v, dtype in values if dtype or v not in static)


def _bytes(graph: graph_pb2.Graph, index: int | None, dtype: int) -> int:
    assert index is not None
    tensor = graph.types[index]
    name = graph_pb2.DType.Name(dtype or tensor.dtype)
    item = 1 if name == "BOOL" else int("".join(c for c in name if c.isdigit())) // 8
    return item * math.prod(graph.syms.exprs[s].value for s in tensor.sizes)


def saved_by_torch(
    compile_model: Callable[[Compile], None], decompositions: Any = None, before: Callable[[Any], Any] | None = None
) -> int:
    """Bytes of the distinct storages that PyTorch's partitioner saves, of the graph that AOTAutograd traces."""
    saved = []

    def partition(gm: Any, joint_inputs: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(gm)
        forward, backward = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        inputs = forward.graph.find_nodes(op="placeholder")
        static = {inputs[i] for i in kwargs.get("static_lifetime_input_indices") or ()}
        (output,) = forward.graph.find_nodes(op="output")
        storages = {}
        for node in output.args[0][kwargs["num_fwd_outputs"] :]:
            if node not in static and isinstance(node.meta["val"], torch.Tensor):
                storage = node.meta["val"].untyped_storage()
                storages[storage._cdata] = storage.nbytes()
        saved.append(sum(storages.values()))
        return forward, backward

    def nothing(gm: Any, _: Any) -> Any:
        return gm

    backend = aot_autograd(
        fw_compiler=nothing, bw_compiler=nothing, partition_fn=partition, decompositions=decompositions or {}
    )
    with torch._functorch.config.patch(donated_buffer=False):
        compile_model(backend)
    (only,) = saved
    return only


def saved_by_inductor(compile_model: Callable[[Compile], None]) -> int:
    from torch._inductor.compile_fx import _recursive_joint_graph_passes
    from torch._inductor.decomposition import select_decomp_table

    with torch._inductor.config.patch(fallback_random=True):  # draws as eager does, as kiln does
        return saved_by_torch(compile_model, select_decomp_table(), _recursive_joint_graph_passes)


@pytest.mark.parametrize("name", MODELS)
def test_saves_no_more_than_pytorch(name: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_model(backend: Any, **options: Any) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        torch.compile(model.train(), backend=backend, dynamic=False, **options)(**inputs)

    saved = []

    def compile_graph(request: Any, *how: Any, original: Any = session.compile_graph) -> Any:
        compiled = original(request, *how)
        saved.append(saved_by_kiln(request, compiled.signature))
        return compiled

    monkeypatch.setattr(session, "compile_graph", compile_graph)
    kiln.reset()
    compile_model("kiln", options={"server": daemon.address, "strict": True})
    (ours,) = saved
    same_graph, inductor = saved_by_torch(compile_model), saved_by_inductor(compile_model)
    print(
        f"\n{name}: {ours} bytes saved; PyTorch's partitioner on the same graph {same_graph} "
        f"({ours / same_graph:.3f}), on Inductor's {inductor} ({ours / inductor:.3f})"
    )
    assert ours <= 1.02 * same_graph
    assert ours <= 1.02 * inductor
