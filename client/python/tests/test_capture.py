"""What capture writes: the same bytes for the same computation, a clear refusal for what it cannot express."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kiln
import pytest
import torch
from kiln.proto import compile_pb2, graph_pb2
from torch import nn
from torch.nn import functional as F

_NAMES = """
import sys
sys.path.insert(0, {tests!r})
import torch, kiln, interpreter
from kiln import session
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.{a} = nn.Linear(6, 6)
        self.{b} = nn.Parameter(torch.randn(6))
        self.register_buffer({c!r}, torch.zeros(6))
    def forward(self, {x}, {y}):
        self.{c}.add_(1)
        h = self.{a}({x}[: {y}.shape[0] + 1]).gelu() if hasattr(torch.Tensor, 'gelu') else \\
            nn.functional.gelu(self.{a}({x}[: {y}.shape[0] + 1]))
        return (h * self.{b}).view(-1, 3) + {x}.shape[0], torch.cat([{x}, {y}]) + torch.tensor([1.0] * 6)

sent = []
def compile_graph(request, options, *how):
    request.ClearField("debug")
    sent.append(request.SerializeToString(deterministic=True))
    return interpreter.compile_graph(request, options)
interpreter.replace_server(setattr, compile_graph)
net = torch.compile(Net(), backend=kiln.backend, dynamic=True, options=dict(strict=True))
a, b = net(torch.randn(9, 6), torch.randn(4, 6))
a.sum().backward()
with torch.no_grad():
    net(torch.randn(9, 6), torch.randn(4, 6))
sys.stdout.buffer.write(b"".join(len(s).to_bytes(4, "little") + s for s in sent))
"""


def _capture_in_process(seed: str, **names: str) -> bytes:
    script = _NAMES.format(tests=str(Path(__file__).parent), **names)
    env = dict(os.environ, PYTHONHASHSEED=seed)
    run = subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, check=True)
    return run.stdout


def test_same_bytes_whatever_the_hash_seed_and_the_names() -> None:
    first = _capture_in_process("1", a="lin", b="scale", c="count", x="x", y="y")
    assert len(first) > 1000
    assert _capture_in_process("2", a="lin", b="scale", c="count", x="x", y="y") == first
    assert _capture_in_process("3", a="zz", b="aa", c="q_7", x="s0", y="a_long_name") == first


def _request(sent: list[Any], f: Any, *args: Any, **kw: Any) -> compile_pb2.CompileRequest:
    before = len(sent)
    torch.compile(f, backend=kiln.backend, options={"strict": True}, **kw)(*args)
    assert len(sent) == before + 1
    return sent[-1]


def test_arguments_in_schema_order_with_defaults(requests: list[Any]) -> None:
    graph = _request(requests, lambda x: torch.sub(x, 2.5, alpha=3), torch.ones(2)).graph
    (node,) = graph.nodes
    op = graph.ops[node.op]
    assert op.name == "aten.sub.Tensor"
    assert op.schema == "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert [a.WhichOneof("kind") for a in node.args] == ["value", "f", "i"]
    assert (node.args[0].value, node.args[1].f, node.args[2].i) == (0, 2.5, 3)
    graph = _request(requests, lambda x: x.add_(1), torch.ones(2)).graph
    assert [n.phase for n in graph.nodes] == [graph_pb2.Node.FORWARD] * 2
    assert [a.WhichOneof("kind") for a in graph.nodes[0].args] == ["value", "i", "i"]


def test_defaults_that_a_schema_gives_as_numbers(requests: list[Any]) -> None:
    graph = _request(requests, lambda: torch.randint(5, (3,)) + 0).graph
    assert [a.WhichOneof("kind") for a in graph.nodes[0].args] == ["i", "list", "dtype", "none", "device", "b"]
    assert graph.nodes[0].args[2].dtype == graph_pb2.INT64


def test_factories_say_their_dtype(requests: list[Any]) -> None:
    graph = _request(requests, lambda: torch.ones(2) + torch.full((2,), 3)).graph
    dtypes = [a.dtype for n in graph.nodes for a in n.args if a.WhichOneof("kind") == "dtype"]
    assert dtypes == [graph_pb2.FLOAT32, graph_pb2.INT64]


def test_types_are_interned_and_strided(requests: list[Any]) -> None:
    graph = _request(requests, lambda x, y: (x + y).t() * 2, torch.ones(2, 3), torch.ones(2, 3)).graph
    sizes = [[graph.syms.exprs[i].value for i in t.sizes] for t in graph.types]
    strides = [[graph.syms.exprs[i].value for i in t.strides] for t in graph.types]
    assert (sizes, strides) == ([[2, 3], [3, 2]], [[3, 1], [1, 3]])
    assert [i.type for i in graph.inputs] == [0, 0]


def test_joint_graph_and_phases(requests: list[Any]) -> None:
    x = torch.ones(3, requires_grad=True)
    request = _request(requests, lambda x, n: x.sin() * n, x, torch.ones(3))
    graph = request.graph
    assert graph.level == graph_pb2.Graph.JOINT
    assert (graph.num_primals, len(graph.inputs), graph.num_forward_outputs) == (2, 3, 1)
    assert [o.WhichOneof("kind") for o in graph.outputs] == ["value", "value", "none"]
    phases = {graph.ops[n.op].name: n.phase for n in graph.nodes}
    assert phases["aten.sin.default"] == graph_pb2.Node.FORWARD
    assert phases["aten.cos.default"] == graph_pb2.Node.BACKWARD
    assert [i.requires_grad for i in request.guards.inputs] == [True, False]
    assert request.debug.input_names == ["L['x']", "L['n']", "tangents_1"]
    assert len(request.debug.node_names) == len(graph.nodes)
    assert "test_capture.py:" in request.debug.stack_traces[0]


def test_recompute_tags(requests: list[Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.utils.checkpoint.checkpoint(lambda y: y.sin().exp(), x, use_reentrant=False)

    graph = _request(requests, f, torch.ones(3, requires_grad=True)).graph
    policy = torch.utils.checkpoint.CheckpointPolicy.PREFER_RECOMPUTE
    assert {n.recompute for n in graph.nodes if n.phase == graph_pb2.Node.FORWARD} == {1 + policy.value}


def test_what_a_checkpointed_region_hands_to_the_next_is_saved(requests: list[Any]) -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = torch.utils.checkpoint.checkpoint(lambda y: y.sin().exp(), x, use_reentrant=False)
        return x.sum()

    graph = _request(requests, f, torch.randn(3, requires_grad=True)).graph
    policy = torch.utils.checkpoint.CheckpointPolicy
    again, save = 1 + policy.PREFER_RECOMPUTE.value, 1 + policy.MUST_SAVE.value
    ops = [op.name for op in graph.ops]
    tags = {name: [n.recompute for n in graph.nodes if graph.ops[n.op].name == name] for name in ops}
    assert tags["aten.sin.default"] == [again, again, again]
    assert tags["aten.exp.default"] == [save, save, again]


def test_results_without_a_user_keep_their_ids(requests: list[Any]) -> None:
    graph = _request(requests, lambda x: x.sort().indices + 1, torch.ones(3)).graph
    assert len(graph.nodes[0].result_types) == 2
    assert graph.nodes[1].args[0].value == 2  # input 0, values 1 and 2


def test_constants(requests: list[Any]) -> None:
    graph = _request(requests, lambda x: x + torch.tensor([[1, 2]], dtype=torch.int16), torch.ones(2)).graph
    (constant,) = graph.constants
    assert constant.data == b"\x01\x00\x02\x00"
    assert graph.types[constant.type].dtype == graph_pb2.INT16


def test_symbols(requests: list[Any]) -> None:
    request = _request(requests, lambda x, y: (x.view(-1), y + 1), torch.ones(6, 4), torch.ones(9), dynamic=True)
    symbols = request.graph.syms.symbols
    assert [(s.min, s.size_class) for s in symbols] == [(2, 3), (2, 3), (2, 4)]
    kinds = [i.WhichOneof("kind") for i in request.graph.inputs]
    assert kinds == ["sym", "sym", "type", "sym", "type"]
    assert [s.size_class for s in request.guards.syms.symbols] == [0, 0, 0]  # a hint is not a guard


def test_predicates(requests: list[Any]) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x * 2, y]) if x.shape[0] * 2 > y.shape[0] + 3 else y

    guards = _request(requests, f, torch.ones(6), torch.ones(5), dynamic=True).guards
    assert any(p.op == graph_pb2.Predicate.LT for p in guards.predicates)


def test_guards_see_the_callers_state(requests: list[Any]) -> None:
    lin = nn.Linear(3, 3)
    x = torch.ones(2, 3)

    def state() -> dict[str, str]:
        return {g.name: g.value for g in _request(requests, lambda x: lin(x).relu(), x).guards.globals}

    plain = state()
    assert list(plain) == sorted(plain)
    assert (plain["grad_mode"], plain["autocast"], plain["default_dtype"]) == ("True", "off", "float32")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        changed = state()
    assert changed["grad_mode"] == "False"
    assert changed["autocast"] == "cpu:bfloat16,cache=True"
    torch.use_deterministic_algorithms(True)
    try:
        assert state()["deterministic"] == "True"
    finally:
        torch.use_deterministic_algorithms(False)
    static = [i.is_static for i in requests[-1].guards.inputs]
    assert static == [True, True, False] or static == [False, True, True]


class _Refused:
    """Programs that must be refused, and a word of the reason."""

    @staticmethod
    def control_flow(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    @staticmethod
    def float_of_a_size(x: torch.Tensor) -> Any:
        return torch.ops.aten.mul.Scalar(x, 1 / x.shape[0])

    @staticmethod
    def lazy_conjugate(x: torch.Tensor) -> Any:
        return torch.complex(x, x).conj()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("control_flow", "higher-order operator cond"),
        ("float_of_a_size", "SymFloat"),
        ("lazy_conjugate", "conjugate"),
    ],
)
def test_refused_by_name(requests: list[Any], name: str, word: str) -> None:
    f = getattr(_Refused, name)
    x = torch.randn(5)
    with pytest.warns(kiln.KilnWarning, match=word) as caught:
        actual = torch.compile(f, backend=kiln.backend, dynamic=True)(x)
    torch.testing.assert_close(actual, f(x))
    assert len([w for w in caught if w.category is kiln.KilnWarning]) == 1
    assert not requests
    (reason,) = kiln.counters()["fallbacks"]
    assert word in reason
    torch._dynamo.reset()
    with pytest.raises(Exception, match=word):
        torch.compile(f, backend=kiln.backend, dynamic=True, options={"strict": True})(x)


def test_generators_and_unbacked_sizes_are_refused() -> None:
    from kiln.capture import capture_inference
    from torch.fx.experimental.proxy_tensor import make_fx

    g = torch.Generator()
    gm = make_fx(lambda x: torch.ops.aten.bernoulli.p(x, 0.5, generator=g), tracing_mode="fake")(torch.ones(3))
    with pytest.raises(kiln.CaptureError, match="is a Generator"):
        capture_inference(gm, None)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = torch.compile(lambda x: x.nonzero() * 2, backend=kiln.backend, fullgraph=True, options={"strict": True})
        with pytest.raises(Exception, match="depends on data"):
            f(torch.ones(3))


@pytest.mark.parametrize(
    ("f", "word"),
    [
        (lambda x: x.to_sparse(), "sparse"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "q"),
        (lambda x: x.to(torch.complex64).conj(), "conjugate"),
        (lambda x: x.to("meta"), "device meta"),
    ],
)
def test_unusual_tensors_are_refused(f: Any, word: str) -> None:
    from kiln.capture import capture_inference
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = make_fx(f, tracing_mode="fake")(torch.ones(3))
    with pytest.raises(kiln.CaptureError, match=word):
        capture_inference(gm, None)


def test_mutating_operator_is_refused() -> None:
    from kiln.capture import capture_inference
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = make_fx(lambda x: x.sin().add_(1), tracing_mode="fake")(torch.ones(3))
    with pytest.raises(kiln.CaptureError, match=r"aten\.add_\.Tensor writes to its arguments"):
        capture_inference(gm, None)


def test_a_large_graph_is_captured_quickly(requests: list[Any]) -> None:
    """Near-linear; the bound is ten times what it takes, for slow machines."""
    import time

    from kiln.capture import capture_inference
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(1250):
            x = F.relu(x) + 1
        return x

    gm = make_fx(f, tracing_mode="fake")(torch.ones(3))
    start = time.process_time()
    capture = capture_inference(gm, None)
    capture.graph.SerializeToString(deterministic=True)
    assert len(capture.graph.nodes) == 2500
    assert time.process_time() - start < 0.5
