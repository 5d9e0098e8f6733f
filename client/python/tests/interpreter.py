"""A compile server's work done with the host's own operators: what capture ships must be enough to compute with.

`compile_graph` stands in for kiln.session.compile_graph. It reads nothing but the request's bytes.
"""

from __future__ import annotations

from typing import Any

import torch
from kiln import session
from kiln.external import python_call
from kiln.opaque import boxed
from kiln.proto import artifact_pb2, compile_pb2, graph_pb2
from kiln.session import Compiled
from kiln.tensors import TORCH_DTYPES

_NO_RESULT = 0xFFFFFFFF
_E = graph_pb2.SymExpr


class Interpreter:
    """Runs parts of one graph: some inputs given, some values computed."""

    def __init__(self, graph: graph_pb2.Graph) -> None:
        self.graph = graph
        self.first = []  # first value id of each node
        next_id = len(graph.inputs) + len(graph.constants)
        for node in graph.nodes:
            self.first.append(next_id)
            next_id += len(node.result_types)
        self.num_values = next_id

    def run(self, nodes: list[int], values: dict[int, Any], symbols: dict[int, int], outputs: list[Any]) -> list[Any]:
        """`values` by id, `symbols` by number; `outputs` are ("value", id), ("sym", expr) or None."""
        for i, c in enumerate(self.graph.constants):
            values[len(self.graph.inputs) + i] = self._constant(c)
        for n in nodes:
            node = self.graph.nodes[n]
            op = self.graph.ops[node.op]
            result = python_call(op.name, op.schema)(*[self.arg(a, values, symbols) for a in node.args])
            if len(node.result_types) == 1 and isinstance(result, torch.Tensor):
                result = [result]
            for k in range(len(node.result_types)):
                values[self.first[n] + k] = result[k]
        return [None if o is None else values[o[1]] if o[0] == "value" else self.size(o[1], symbols) for o in outputs]

    def arg(self, arg: graph_pb2.Arg, values: dict[int, Any], symbols: dict[int, int]) -> Any:
        kind = arg.WhichOneof("kind")
        if kind == "none":
            return None
        if kind == "value":
            return values[arg.value]
        if kind == "sym":
            return self.size(arg.sym, symbols)
        if kind == "list":
            return [self.arg(item, values, symbols) for item in arg.list.items]
        if kind == "dtype":
            return TORCH_DTYPES[arg.dtype]
        if kind == "device":
            return torch.device("cpu")
        return getattr(arg, kind)

    def size(self, index: int, symbols: dict[int, int]) -> int:
        e = self.graph.syms.exprs[index]
        if e.op == _E.CONST:
            return e.value
        if e.op == _E.SYMBOL:
            return symbols[e.value]
        a = [self.size(i, symbols) for i in e.args]
        if e.op == _E.ADD:
            return sum(a)
        if e.op == _E.MUL:
            product = 1
            for x in a:
                product *= x
            return product
        return {
            _E.FLOOR_DIV: lambda: a[0] // a[1],
            _E.MOD: lambda: a[0] % a[1],
            _E.MIN: lambda: min(a),
            _E.MAX: lambda: max(a),
        }[e.op]()

    def check(self, value: torch.Tensor, type_index: int, symbols: dict[int, int]) -> None:
        t = self.graph.types[type_index]
        assert value.dtype == TORCH_DTYPES[t.dtype]
        assert list(value.shape) == [self.size(i, symbols) for i in t.sizes]

    def symbols_of(self, index: int) -> set[int]:
        e = self.graph.syms.exprs[index]
        if e.op == _E.SYMBOL:
            return {e.value}
        return set().union(*[self.symbols_of(i) for i in e.args])

    def used(self, args: Any) -> set[int]:
        found = set()
        for a in args:
            if a.WhichOneof("kind") == "value":
                found.add(a.value)
            found |= self.used(a.list.items)
        return found

    def used_syms(self, args: Any) -> set[int]:
        found: set[int] = set()
        for a in args:
            if a.WhichOneof("kind") == "sym":
                found |= self.symbols_of(a.sym)
            found |= self.used_syms(a.list.items)
        return found

    def _constant(self, c: graph_pb2.Graph.Constant) -> torch.Tensor:
        t = self.graph.types[c.type]
        sizes = [self.size(i, {}) for i in t.sizes]
        if not c.data:
            return torch.empty(sizes, dtype=TORCH_DTYPES[t.dtype])
        return torch.frombuffer(bytearray(c.data), dtype=TORCH_DTYPES[t.dtype]).reshape(sizes)

    def bind(self, first: int, args: list[Any], values: dict[int, Any], symbols: dict[int, int]) -> None:
        for i, arg in enumerate(args, first):
            entry = self.graph.inputs[i]
            if entry.WhichOneof("kind") == "sym":
                assert type(arg) is int
                symbols[self.graph.syms.exprs[entry.sym].value] = arg
            else:
                values[i] = arg
        for i, entry in enumerate(self.graph.inputs):
            if entry.WhichOneof("kind") == "type" and i in values:
                self.check(values[i], entry.type, symbols)


def _outputs(outputs: Any) -> list[Any]:
    kinds = [(o.WhichOneof("kind"), o) for o in outputs]
    return [None if k == "none" else (k, getattr(o, k)) for k, o in kinds]


def replace_server(setattr_: Any, compile_graph: Any) -> None:
    """`compile_graph` in the place of the server, which then knows no graph before it is compiled."""
    setattr_(session, "compile_graph", compile_graph)
    setattr_(session, "address", lambda request, options, gpu: None)
    setattr_(session, "lookup", lambda digest, hints, options, outcome, gpu: None)
    setattr_(session, "find_generalization", lambda request, options: None)
    setattr_(session, "put_call_spec", lambda request, compiled, options: None)


def compile_graph(request: compile_pb2.CompileRequest, _options: Any = None, _lookup: str = "") -> Compiled:
    request = compile_pb2.CompileRequest.FromString(request.SerializeToString())
    interpreter = Interpreter(request.graph)
    if request.graph.level == graph_pb2.Graph.INFERENCE:
        return _inference(interpreter)
    return _joint(interpreter)


def _inference(p: Interpreter) -> Compiled:
    def run(args: list[Any]) -> list[Any]:
        values: dict[int, Any] = {}
        symbols: dict[int, int] = {}
        p.bind(0, list(args), values, symbols)
        args.clear()
        return p.run(list(range(len(p.graph.nodes))), values, symbols, _outputs(p.graph.outputs))

    return Compiled(b"", artifact_pb2.PlanSignature(num_inputs=len(p.graph.inputs)), [boxed(run)])


def _joint(p: Interpreter) -> Compiled:
    g = p.graph
    backward_values = set(range(g.num_primals, len(g.inputs)))
    forward_nodes, backward_nodes = [], []
    for n, node in enumerate(g.nodes):
        if node.phase == graph_pb2.Node.BACKWARD or p.used(node.args) & backward_values:
            backward_nodes.append(n)
            backward_values |= {p.first[n] + k for k in range(len(node.result_types))}
        else:
            forward_nodes.append(n)
    outputs = _outputs(g.outputs)
    gradients = outputs[g.num_forward_outputs :]
    needed = {o[1] for o in gradients if o is not None and o[0] == "value"}
    for n in backward_nodes:
        needed |= p.used(g.nodes[n].args)
    constants = range(len(g.inputs), len(g.inputs) + len(g.constants))
    saved = sorted(v for v in needed - backward_values if v not in constants)
    saved_syms = _saved_syms(p, backward_nodes, saved)

    def forward(args: list[Any]) -> list[Any]:
        values: dict[int, Any] = {}
        symbols: dict[int, int] = {}
        p.bind(0, list(args), values, symbols)
        args.clear()
        extra = [("value", v) for v in saved] + [("sym", s) for s in saved_syms]
        return p.run(forward_nodes, values, symbols, outputs[: g.num_forward_outputs] + extra)

    def backward(args: list[Any]) -> list[Any]:
        n, m = len(saved_syms), len(saved)
        symbols = {g.syms.exprs[s].value: a for s, a in zip(saved_syms, args[:n], strict=True)}
        values = dict(zip(saved, args[n : n + m], strict=True))
        p.bind(g.num_primals, list(args[n + m :]), values, symbols)
        args.clear()
        return p.run(backward_nodes, values, symbols, gradients)

    signature = artifact_pb2.PlanSignature(saved_values=saved, saved_syms=saved_syms)
    return Compiled(b"", signature, [boxed(forward), boxed(backward)])


def _saved_syms(p: Interpreter, backward_nodes: list[int], saved: list[int]) -> list[int]:
    g = p.graph
    found: set[int] = set()
    types = [g.inputs[i].type for i in range(g.num_primals, len(g.inputs))]
    types += [g.inputs[v].type for v in saved if v < len(g.inputs)]
    for n, node in enumerate(g.nodes):
        types += [t for k, t in enumerate(node.result_types) if t != _NO_RESULT and p.first[n] + k in saved]
    for t in types:
        for i in (*g.types[t].sizes, *g.types[t].strides):
            found |= p.symbols_of(i)
    for n in backward_nodes:
        found |= p.used_syms(g.nodes[n].args)
    for o in g.outputs[g.num_forward_outputs :]:
        if o.WhichOneof("kind") == "sym":
            found |= p.symbols_of(o.sym)
    by_symbol = {e.value: i for i, e in enumerate(g.syms.exprs) if e.op == _E.SYMBOL}
    return [by_symbol[s] for s in sorted(found)]
