"""Two GraphModules that AOTAutograd takes for the forward and backward graph: one opaque call each.

AOTAutograd reads only placeholders, the output node and `meta["val"]` of the modules that a partitioner returns; it
never interprets them. So nothing of the joint graph is copied, and what the server saves is all there is to know.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from kiln.capture import Capture
from kiln.errors import KilnError
from kiln.meta import as_dtype
from kiln.proto import artifact_pb2, graph_pb2
from kiln.tensors import TORCH_DTYPES

BoxedFunction = Callable[[list[Any]], Any]


class Handle:
    """The target of an opaque call: carries the compiled function from the partitioner to the compilers."""

    def __init__(self, name: str, function: BoxedFunction) -> None:
        self.__name__ = name
        self.function = function

    def __call__(self, *args: Any) -> Any:
        raise KilnError(f"{self.__name__} stands for a compiled function; it cannot be traced or interpreted")

    def __deepcopy__(self, _memo: Any) -> Handle:
        return self  # AOTAutograd copies the backward module before it compiles it


def function_of(gm: fx.GraphModule) -> BoxedFunction:
    """The compiled function of a module made here. KilnError if something was added to the module on the way, as
    inlined saved-tensor hooks are."""
    handles = []
    for node in gm.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, Handle):
            handles.append(node.target)
        elif node.op not in ("placeholder", "output") and node.target is not operator.getitem:
            raise KilnError(f"AOTAutograd added {node.target} to the graph (saved tensor hooks?)")
    if len(handles) != 1:
        raise KilnError(f"expected one compiled function in the graph, found {len(handles)}")
    return handles[0].function


def split(
    capture: Capture, signature: artifact_pb2.PlanSignature, forward: BoxedFunction, backward: BoxedFunction
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and backward modules of a joint graph.

    `forward` takes the primals and returns the forward's outputs, the saved values and the saved sizes; `backward`
    takes the saved sizes, the saved values and the tangents and returns one gradient a primal; saved ones in the
    signature's order. AOTAutograd wants saved tensors without version check last: reordered where it needs to be.
    """
    count = capture.graph.num_forward_outputs
    outputs, gradients = capture.outputs[:count], capture.outputs[count:]
    dtypes = signature.saved_dtypes or [0] * len(signature.saved_values)
    values = [_saved_value(capture, i, t) for i, t in zip(signature.saved_values, dtypes, strict=True)]
    syms = [_saved_sym(capture, i) for i in signature.saved_syms]
    _check_sizes_saved(capture, values, syms)
    order = sorted(range(len(values)), key=lambda k: _unchecked(values[k]))
    if order != list(range(len(values))):
        forward = _permute_outputs(forward, count, order)
        backward = _permute_inputs(backward, len(syms), order)
    saved = [values[k] for k in order]
    return (
        _module("kiln_forward", forward, capture.primals, [*outputs, *saved, *syms]),
        _module("kiln_backward", backward, [*syms, *saved, *capture.tangents], gradients),
    )


def _unchecked(node: fx.Node) -> bool:
    return bool(node.meta.get("saved_tensor_with_no_vc_check", False))


def _saved_value(capture: Capture, value: int, dtype: int) -> fx.Node:
    """The node of a saved value; of one that the graph does not have, a node that stands for it."""
    node = capture.values[value] if value < len(capture.values) else None
    if node is None or not isinstance(node.meta.get("val"), torch.Tensor):
        raise KilnError(f"the server saves value {value}, which is not a tensor of the graph")
    if not dtype:
        return node
    alike = fx.Graph().placeholder(f"{node.name}_as_{graph_pb2.DType.Name(dtype).lower()}")
    alike.meta["val"] = as_dtype(node.meta["val"], TORCH_DTYPES[dtype])
    return alike


def _saved_sym(capture: Capture, index: int) -> fx.Node:
    """The input that binds the symbol at `index` of the expression table."""
    for node, entry in zip(capture.inputs, capture.graph.inputs, strict=True):
        if entry.WhichOneof("kind") == "sym" and entry.sym == index and isinstance(node.meta["val"], torch.SymInt):
            return node
    raise KilnError(f"the server saves expression {index}, which no input binds")


def _check_sizes_saved(capture: Capture, values: Sequence[fx.Node], syms: Sequence[fx.Node]) -> None:
    """The backward's placeholders may name a symbol only if it is saved: AOTAutograd's wrappers read it from there."""
    saved = {s.meta["val"].node.expr for s in syms if isinstance(s.meta["val"], torch.SymInt)}
    for node in (*values, *capture.tangents):
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            for size in (*value.shape, *value.stride()):
                if isinstance(size, torch.SymInt) and not size.node.expr.free_symbols <= saved:
                    raise KilnError(f"the server does not save a symbol of {size} of {node.name}")


def _module(name: str, function: BoxedFunction, inputs: Sequence[fx.Node], outputs: Sequence[Any]) -> fx.GraphModule:
    """`outputs` holds nodes, None and Python numbers. An output that is an input is that placeholder itself:
    AOTAutograd's alias analysis looks at it."""
    graph = fx.Graph()
    placeholders: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        placeholder = graph.placeholder(node.name)
        placeholder.meta = dict(node.meta)
        placeholders[node] = placeholder
    call = graph.call_function(Handle(name, function), tuple(placeholders.values()))
    results: list[Any] = []
    for i, output in enumerate(outputs):
        if not isinstance(output, fx.Node):
            results.append(output)
        elif output in placeholders:
            results.append(placeholders[output])
        else:
            result = graph.call_function(operator.getitem, (call, i))
            result.meta = dict(output.meta)
            results.append(result)
    graph.output(tuple(results))
    return fx.GraphModule(torch.nn.Module(), graph)


def boxed(function: BoxedFunction) -> BoxedFunction:
    """Marks a function that takes one list, which it may clear."""
    function._boxed_call = True  # type: ignore[attr-defined]
    return function


def _permute_outputs(forward: BoxedFunction, first: int, order: Sequence[int]) -> BoxedFunction:
    def run(args: list[Any]) -> list[Any]:
        out = list(forward(args))
        out[first : first + len(order)] = [out[first + k] for k in order]
        return out

    return boxed(run)


def _permute_inputs(backward: BoxedFunction, first: int, order: Sequence[int]) -> BoxedFunction:
    """The inverse: position `order[i]` of what `backward` takes is argument i."""

    def run(args: list[Any]) -> Any:
        saved = args[first : first + len(order)]
        for value, k in zip(saved, order, strict=True):
            args[first + k] = value
        del saved
        return backward(args)

    return boxed(run)
