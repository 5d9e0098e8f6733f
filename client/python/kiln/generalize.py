"""Dynamo's graph with symbols in place of sizes that it holds as numbers, as the server has found them to vary.

A process whose sizes are fixed (dynamic=False, or its first compile) gets a graph for these sizes alone. What the
server says of it (proto/generalization.proto) is never trusted: each expression must give, at this process's sizes,
just the number that stands there. So the graph with symbols is, at these sizes, the graph of Dynamo, whose guards hold
as they are; at which other sizes its compiled code holds, AOTAutograd's guards on the symbols say.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from kiln.call_spec import Refused, evaluate
from kiln.errors import KilnError
from kiln.guards import EntryState
from kiln.proto import generalization_pb2, graph_pb2
from kiln.torch_graph import map_integers

_MAX_SYMBOLS = 16
_OPS = (graph_pb2.SymExpr.CONST, graph_pb2.SymExpr.SYMBOL, graph_pb2.SymExpr.ADD, graph_pb2.SymExpr.MUL)


@dataclasses.dataclass(frozen=True)
class General:
    """The graph with symbols. Its first inputs are their values."""

    gm: fx.GraphModule
    examples: list[Any]  # the symbols and Dynamo's example inputs
    hints: tuple[int, ...]  # this process's values of the symbols
    entry: EntryState
    fake_mode: Any
    varying: dict[int, torch.Tensor]  # those of the inputs that have symbolic sizes, as fake tensors

    def fakes(self) -> list[Any]:
        """What AOTAutograd traces with: `examples`, as fake tensors. KilnError if they can't be made."""
        fakes: list[Any] = []
        with unset_fake_temporarily():
            for i, example in enumerate(self.examples):
                if not isinstance(example, torch.Tensor):
                    fakes.append(example)
                elif i in self.varying:
                    fakes.append(self.varying[i])
                elif isinstance(example, FakeTensor):
                    raise KilnError(f"input {i - len(self.hints)} is a fake tensor")
                else:
                    fakes.append(self.fake_mode.from_tensor(example, static_shapes=True))
        return fakes

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """AOTAutograd's trace, beside Dynamo's own: no guard of it gets into the user's function. Raises Refused where
        it would need one on which inputs are the same."""
        from torch._guards import TracingContext, tracing

        context = TracingContext(self.fake_mode)
        with unset_fake_temporarily(), tracing(context):
            yield
        if len(context.guards_context.aotautograd_guards):
            raise Refused("AOTAutograd guards on which inputs share a storage")

    def check(self) -> None:
        """Refused if the trace has fixed a symbol: what comes of it is for this size alone."""
        for size in self.examples[: len(self.hints)]:
            if not self.fake_mode.shape_env.simplify(size.node.expr).free_symbols:
                raise Refused("tracing fixes a size")


def generalize(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    entry: EntryState,
    guards: graph_pb2.GuardSpec,
    generalization: generalization_pb2.Generalization,
) -> General:
    """`guards` are those of the graph's request. KilnError if the generalization does not fit it, or such inputs can't
    be made."""
    return _Maker(gm, example_inputs, entry, guards, generalization).make()


class _Maker:
    def __init__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        entry: EntryState,
        guards: graph_pb2.GuardSpec,
        generalization: generalization_pb2.Generalization,
    ) -> None:
        self._gm = gm
        self._inputs = example_inputs
        self._entry = entry
        self._guards = guards
        self._syms = generalization.syms
        self._exprs = {place.value: place.expr for place in generalization.places}
        nodes = gm.graph.find_nodes(op="placeholder")
        self._values = [node.meta.get("example_value", real) for node, real in zip(nodes, example_inputs, strict=True)]

    def make(self) -> General:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        hints = self._hints()
        self._check(hints)
        shape_env = ShapeEnv(duck_shape=False)
        fake_mode = FakeTensorMode(shape_env=shape_env)
        symbols = [_symbol(shape_env, i, hint) for i, hint in enumerate(hints)]
        count = len(symbols)
        with unset_fake_temporarily():
            varying = self._varying(fake_mode, evaluate(self._syms, symbols))
        values = [varying.get(i, value) for i, value in enumerate(self._values)]
        entry = dataclasses.replace(
            self._entry,
            names=("",) * count + self._entry.names,
            requires_grad=(False,) * count + self._entry.requires_grad,
        )
        gm = self._graph([*symbols, *values])
        inputs = {count + i: fake for i, fake in varying.items()}
        return General(gm, [*symbols, *self._inputs], tuple(hints), entry, fake_mode, inputs)

    def _hints(self) -> list[int]:
        """The symbols' values: each is the size of an input."""
        count = len(self._syms.symbols)
        if not 0 < count <= _MAX_SYMBOLS:
            raise KilnError(f"a generalization with {count} symbols")
        if any(expr >= len(self._syms.exprs) for expr in self._exprs.values()):
            raise KilnError("a generalization that names an expression that is not there")
        for i, expr in enumerate(self._syms.exprs):
            if expr.op not in _OPS or any(arg >= i for arg in expr.args):
                raise KilnError("a generalization whose expressions are not well formed")
            if (expr.op in (graph_pb2.SymExpr.ADD, graph_pb2.SymExpr.MUL)) != bool(expr.args):
                raise KilnError("a generalization whose expressions are not well formed")
            if expr.op == graph_pb2.SymExpr.SYMBOL and not 0 <= expr.value < count:
                raise KilnError("a generalization that names a symbol that is not there")
        hints: dict[int, int] = {}
        position = 0
        for value in self._values:
            if not isinstance(value, torch.Tensor):
                raise KilnError("the graph has symbols already")
            for dim, size in enumerate(value.shape):
                expr = self._syms.exprs[self._exprs[position + dim]] if position + dim in self._exprs else None
                if expr is not None and expr.op == graph_pb2.SymExpr.SYMBOL:
                    hints.setdefault(expr.value, _number(size))
            position += 2 * value.dim() + 1
        if len(hints) != count or min(hints.values()) < 2:
            raise KilnError("a generalization over symbols that are no sizes of inputs, or small ones")
        return [hints[i] for i in range(count)]

    def _check(self, hints: Sequence[int]) -> None:
        """What stands at each place is what its expression gives."""
        numbers = evaluate(self._syms, hints)
        values: list[int] = []
        for value in self._values:
            values += [_number(n) for n in (*value.shape, *value.stride(), value.storage_offset())]

        def take(integer: int) -> int:
            values.append(integer)
            return integer

        for node in self._gm.graph.nodes:
            if node.op in _CALLS:
                _map_node(node, take)
        for position, expr in self._exprs.items():
            if position >= len(values) or values[position] != numbers[expr]:
                raise KilnError(f"a generalization that does not fit: value {position}")

    def _varying(self, fake_mode: Any, exprs: Sequence[Any]) -> dict[int, torch.Tensor]:
        varying, position = {}, 0
        for i, (value, real) in enumerate(zip(self._values, self._inputs, strict=True)):
            numbers: list[Any] = [*value.shape, *value.stride(), value.storage_offset()]
            here = range(position, position + len(numbers))
            position = here.stop
            if not any(p in self._exprs for p in here):
                continue
            guard = self._guards.inputs[i]
            if guard.alias_group or guard.is_static or numbers[-1] != 0:
                raise KilnError(f"the sizes of input {i}, which is more than sizes and strides, vary")
            numbers = [exprs[self._exprs[p]] if p in self._exprs else n for p, n in zip(here, numbers, strict=True)]
            sizes, strides = numbers[: value.dim()], numbers[value.dim() : -1]
            varying[i] = _fake(fake_mode, real, sizes, strides)
        return varying

    def _graph(self, values: Sequence[Any]) -> fx.GraphModule:
        """`values` are what its inputs are like."""
        graph = fx.Graph()
        count = len(values) - len(self._inputs)
        sizes = [graph.placeholder(f"size_{i}") for i in range(count)]
        for i, size in enumerate(sizes):
            size._dynamo_source = _source(i)
        copies: dict[fx.Node, fx.Node] = {}
        for node in self._gm.graph.find_nodes(op="placeholder"):
            copies[node] = graph.node_copy(node)
            copies[node]._dynamo_source = getattr(node, "_dynamo_source", None)
        for copy, value in zip(graph.find_nodes(op="placeholder"), values, strict=True):
            copy.meta["example_value"] = value
        exprs = evaluate(self._syms, [fx.Proxy(size) for size in sizes])
        computed = [node for node in graph.nodes if node.op == "call_function"]
        position = sum(2 * value.dim() + 1 for value in self._values)

        def replace(integer: int) -> Any:
            nonlocal position
            expr = self._exprs.get(position)
            position += 1
            value = integer if expr is None else exprs[expr]
            return value.node if isinstance(value, fx.Proxy) else value

        for node in self._gm.graph.nodes:
            if node.op == "placeholder":
                continue
            copies[node] = copy = graph.node_copy(node, lambda n: copies[n])
            copy.meta.pop("example_value", None)  # has Dynamo's sizes
            if node.op in _CALLS:
                copy.args, copy.kwargs = _map_node(copy, replace)
        for node in reversed(computed):
            if not node.users:
                graph.erase_node(node)
        gm = fx.GraphModule(self._gm, graph)
        gm.meta.update(self._gm.meta)
        gm._param_name_to_source = getattr(self._gm, "_param_name_to_source", {})
        return gm


_CALLS = ("call_function", "call_method")


def _map_node(node: fx.Node, f: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The node's arguments with f(i) for each integer i."""
    args = tuple([map_integers(arg, f) for arg in node.args])
    return args, {name: map_integers(node.kwargs[name], f) for name in sorted(node.kwargs)}


def _number(size: Any) -> int:
    if type(size) is not int:
        raise KilnError("the graph has symbols already")
    return size


def _source(i: int) -> Any:
    from torch._dynamo.source import ConstantSource

    return ConstantSource(f"size_{i}")


def _symbol(shape_env: Any, i: int, hint: int) -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    symbol = shape_env.create_symbol(hint, _source(i), dynamic_dim=DimDynamic.DYNAMIC)
    return shape_env.create_symintnode(symbol, hint=hint, source=_source(i))


def _fake(fake_mode: Any, real: torch.Tensor, sizes: Sequence[Any], strides: Sequence[Any]) -> torch.Tensor:
    """With what AOTAutograd reads of an input: whether a gradient reaches it, and whether it has a history."""
    with torch.inference_mode(real.is_inference()), fake_mode:
        fake = torch.empty_strided(sizes, strides, dtype=real.dtype, device=real.device)
        if real.requires_grad and real.is_leaf:
            fake.requires_grad_()
        elif real.requires_grad:
            with torch.enable_grad():
                fake.copy_(torch.zeros((), dtype=real.dtype, device=real.device, requires_grad=True))
    return fake
