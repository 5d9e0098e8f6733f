"""Dynamo's own graph as a kiln.v1.Graph of level TORCH, canonical: what a look-up is keyed by.

Byte-identical in every process that captures the same computation: no name, path, address, value or hint of the user's
program is in it. What it cannot pin down raises CaptureError: callables that are not torch's own (their meaning is not
in the graph), arguments that have no place in the wire format. What the inputs are is the GuardSpec's to say.
"""

from __future__ import annotations

import math
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from kiln.errors import CaptureError
from kiln.proto import graph_pb2
from kiln.symbols import SymTableBuilder
from kiln.tensors import MEMORY_FORMATS, TypeTable, device_number, dtype_number

# Operators whose meaning comes with torch itself. Libraries of the user's own may change between two runs.
_NAMESPACES = frozenset({"aten", "prims", "prim"})

# Bytes of a constant within the graph. Parameters are inputs, unless Dynamo is told otherwise.
_MAX_CONSTANT = 1 << 20

# What the body of a higher-order operator may carry beside its graph. Anything else may be code that decides what the
# operator does, as a checkpoint's context_fn is.
_BODY_META = frozenset({"dynamo_compile_id"})


def capture_torch(gm: fx.GraphModule) -> graph_pb2.Graph:
    """CaptureError names the node that cannot be captured."""
    graph = graph_pb2.Graph(level=graph_pb2.Graph.TORCH)
    _Writer(gm, graph).write()
    return graph


class _Writer:
    def __init__(self, gm: fx.GraphModule, graph: graph_pb2.Graph) -> None:
        self._gm = gm
        self._graph = graph
        self._types = TypeTable(graph.types, SymTableBuilder(graph.syms, None, with_size_class=False))
        self._ops: dict[str, int] = {}
        self._ids: dict[fx.Node, int] = {}
        self._bodies: dict[fx.Node, int] = {}

    def write(self) -> None:
        nodes = self._gm.graph.nodes
        for node in nodes:
            if node.op == "placeholder":
                self._bind(node)
                self._graph.inputs.add()
        for node in nodes:
            if node.op == "get_attr":
                self._attribute(node)
        for node in nodes:
            try:
                if node.op == "call_function":
                    self._call(node, target_name(node.target))
                elif node.op == "call_method":
                    self._call(node, _method_name(node.target))
                elif node.op == "output":
                    if not isinstance(node.args[0], tuple | list):
                        raise CaptureError("a body that returns a value which is in no tuple")
                    for result in node.args[0]:
                        self._encode(self._graph.outputs.add().arg, result)
                elif node.op not in ("placeholder", "get_attr"):
                    raise CaptureError(f"{node.op} nodes are not supported")
            except CaptureError as e:
                raise CaptureError(f"{node.name}: {e}") from None

    def _bind(self, node: fx.Node) -> None:
        self._ids[node] = len(self._ids)

    def _attribute(self, node: fx.Node) -> None:
        value: Any = self._gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, fx.GraphModule):
            self._body(node, value)
        elif type(value) is torch.Tensor:
            if value.nbytes > _MAX_CONSTANT:
                raise CaptureError(f"{node.name}: constant {node.target} has {value.nbytes} bytes")
            self._bind(node)
            with unset_fake_temporarily():
                contiguous = value.detach().contiguous()
                data = contiguous.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
            self._graph.constants.add(type=self._types.of(value), data=data)
        else:
            raise CaptureError(f"{node.name}: attribute {node.target} is a {type(value).__name__}")

    def _body(self, node: fx.Node, body: fx.GraphModule) -> None:
        unknown = sorted(str(key) for key in body.meta if key not in _BODY_META)
        if unknown:
            raise CaptureError(f"{node.name}: a body with {', '.join(unknown)}")
        self._bodies[node] = len(self._graph.subgraphs)
        _Writer(body, self._graph.subgraphs.add(level=graph_pb2.Graph.TORCH)).write()

    def _call(self, node: fx.Node, name: str) -> None:
        index = self._ops.get(name)
        if index is None:
            index = self._ops[name] = len(self._ops)
            self._graph.ops.add(name=name)
        out = self._graph.nodes.add(op=index)
        args = out.args
        for arg in node.args:
            self._encode(args.add(), arg)
        if node.kwargs:
            for keyword in sorted(node.kwargs):
                out.keywords.append(keyword)
                self._encode(args.add(), node.kwargs[keyword])
        self._bind(node)

    def _encode(self, out: graph_pb2.Arg, arg: Any) -> None:
        kind = type(arg)
        if kind is fx.Node:
            value = self._ids.get(arg)
            if value is not None:
                out.value = value
            elif arg in self._bodies:
                out.subgraph = self._bodies[arg]
            else:
                raise CaptureError(f"uses {arg.name}, which is not a value of the graph")
        elif kind in _SEQUENCES:
            items = getattr(out, _SEQUENCES[kind])
            items.SetInParent()
            for item in arg:
                self._encode(items.items.add(), item)
        elif kind is slice:
            for item in (arg.start, arg.stop, arg.step):
                self._encode(out.slice.items.add(), item)
        elif isinstance(arg, dict):  # fx's own immutable one too
            out.dict.SetInParent()
            for key, item in arg.items():
                self._encode(out.dict.items.add(), key)
                self._encode(out.dict.items.add(), item)
        else:
            _encode_plain(out, arg)


def map_integers(arg: Any, f: Callable[[int], Any]) -> Any:
    """`arg` with f(i) for each integer i within it, in the order in which they are written."""
    kind = type(arg)
    if kind is int:
        return f(arg)
    if kind in _SEQUENCES:
        items = [map_integers(item, f) for item in arg]
        return tuple(items) if _SEQUENCES[kind] == "tuple" else items
    if kind is slice:
        return slice(*[map_integers(item, f) for item in (arg.start, arg.stop, arg.step)])
    if isinstance(arg, dict):
        result = {}
        for key, item in arg.items():
            if map_integers(key, f) != key:
                raise CaptureError("a key of a dictionary would change")
            result[key] = map_integers(item, f)
        return result
    return arg


_SEQUENCES = {
    tuple: "tuple",
    torch.Size: "tuple",
    list: "list",
    fx.immutable_collections.immutable_list: "list",
}


def _encode_plain(out: graph_pb2.Arg, arg: Any) -> None:
    encode = _PLAIN.get(type(arg))
    if encode is not None:
        encode(out, arg)
    elif callable(arg):
        out.function = target_name(arg)
    else:
        raise CaptureError(f"an argument is a {type(arg).__name__}")


def _encode_int(out: graph_pb2.Arg, arg: int) -> None:
    if not -(1 << 63) <= arg < 1 << 63:
        raise CaptureError(f"integer {arg} does not fit in 64 bits")
    out.i = arg


def _encode_complex(out: graph_pb2.Arg, arg: complex) -> None:
    out.complex.items.add(f=arg.real)
    out.complex.items.add(f=arg.imag)


def _encode_layout(out: graph_pb2.Arg, arg: torch.layout) -> None:
    if arg is not torch.strided:
        raise CaptureError(f"layout {arg} is not supported")
    out.layout = 0


_PLAIN: dict[type, Any] = {
    type(None): lambda out, arg: out.none.SetInParent(),
    bool: lambda out, arg: setattr(out, "b", arg),
    int: _encode_int,
    float: lambda out, arg: setattr(out, "f", arg),
    complex: _encode_complex,
    str: lambda out, arg: setattr(out, "s", arg),
    type(...): lambda out, arg: out.ellipsis.SetInParent(),
    torch.dtype: lambda out, arg: setattr(out, "dtype", dtype_number(arg)),
    torch.device: lambda out, arg: setattr(out, "device", device_number(arg)),
    torch.layout: _encode_layout,
    torch.memory_format: lambda out, arg: setattr(out, "memory_format", MEMORY_FORMATS[arg]),
}


_names: dict[Any, str] = {}


def target_name(target: Any) -> str:
    """ "torch.nn.functional.gelu" and the like: what torch calls exactly this object. CaptureError if it is not
    torch's (or Python's operator and math modules')."""
    found = _names.get(target)
    if found is None:
        found = _names[target] = _find_name(target)
    return found


def _find_name(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        name = str(target)
        if name.split(".")[0] not in _NAMESPACES:
            raise CaptureError(f"{name} is an operator of another library than torch's own")
        return name if isinstance(target, torch._ops.OpOverload) else f"torch.ops.{name}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        if not type(target).__module__.startswith("torch."):
            raise CaptureError(f"{target} is not torch's")
        return f"hop:{target.name()}"
    module = getattr(target, "__module__", None)
    for holder, prefix in _HOLDERS:
        name = getattr(target, "__name__", "")
        if holder.get(name) is target:
            return f"{prefix}.{name}"
    name = getattr(target, "__qualname__", "")
    if isinstance(module, str) and module.split(".")[0] == "torch" and _resolve(module, name) is target:
        return f"{module}.{name}"
    dispatched = _boolean_dispatches().get(target)
    if dispatched is not None:
        return f"torch.nn.functional.{dispatched}"
    if isinstance(target, types.BuiltinFunctionType) and str(module).startswith("torch."):
        # The qualified name is of pybind11's making.
        raise CaptureError(f"calls {module}.{target.__name__}, of which a key cannot say what it does")
    raise CaptureError(f"calls {module}.{name or target!r}, which is not torch's own")


_HOLDERS: tuple[tuple[dict[str, Any], str], ...] = (
    (vars(operator), "operator"),
    (vars(math), "math"),
    (vars(torch), "torch"),
    (vars(torch.nn.functional), "torch.nn.functional"),
    (vars(torch._C._nn), "torch._C._nn"),
    (vars(torch._C.TensorBase), "torch.Tensor"),
)


def _resolve(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _boolean_dispatches() -> dict[Any, str]:
    """max_pool2d and the like, which are all called boolean_dispatch.<locals>.fn."""
    return {
        value: name
        for name, value in sorted(vars(torch.nn.functional).items(), reverse=True)
        if getattr(value, "__qualname__", "").startswith("boolean_dispatch.")
    }


def _method_name(method: str) -> str:
    """Methods of tensors, and of nothing else: Dynamo calls others' code itself."""
    found = getattr(torch.Tensor, method, None)
    if found is None or not str(getattr(found, "__module__", None) or "torch").startswith("torch"):
        raise CaptureError(f"calls method {method}, which is not torch's own")
    return f"method:{method}"
