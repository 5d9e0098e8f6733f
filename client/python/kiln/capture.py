"""AOTAutograd's graphs as kiln.v1.Graph messages: everything that determines the result, nothing that does not.

Arithmetic on sizes vanishes into the expression table, getitem into value ids. What has no place in the wire format
(higher-order operators, data-dependent sizes, symbolic floats, …) raises CaptureError, which names the node.
"""

from __future__ import annotations

import dataclasses
import operator as py_operator
import re
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy

from kiln.errors import CaptureError
from kiln.meta import actual_value
from kiln.operators import ArgEncoder, Operator, operator_of
from kiln.proto import graph_pb2
from kiln.symbols import SymTableBuilder
from kiln.tensors import TypeTable

_NO_RESULT = 0xFFFFFFFF
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n +(.*))?')
_RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_BACKWARD_TAGS = frozenset({"is_backward", "must_be_in_backward"})


@dataclasses.dataclass
class Capture:
    """A captured graph, and how to find its parts again.

    Outputs are nodes, None (no gradient) or Python ints. `values[id]` is the node of a value id, None where the trace
    has none (a result that nothing uses, a SymInt input).
    """

    graph: graph_pb2.Graph
    debug: graph_pb2.DebugInfo
    inputs: list[fx.Node]
    outputs: list[Any]
    values: list[fx.Node | None]
    syms: SymTableBuilder
    shape_env: ShapeEnv | None

    @property
    def primals(self) -> list[fx.Node]:
        return self.inputs[: self.graph.num_primals]

    @property
    def tangents(self) -> list[fx.Node]:
        return self.inputs[self.graph.num_primals :]


def capture_joint(gm: fx.GraphModule, num_forward_outputs: int, shape_env: ShapeEnv | None) -> Capture:
    """The joint forward and backward graph that AOTAutograd gives its partitioner."""
    c = _Capturer(gm, graph_pb2.Graph.JOINT, shape_env)
    for node in c.inputs:
        name = str(node.target)
        if "tangents" in name:
            continue
        if not name.startswith("primals"):
            raise CaptureError(f"input {name} is neither a primal nor a tangent")
        c.graph.num_primals += 1
    c.graph.num_forward_outputs = num_forward_outputs
    return c.run()


def capture_inference(gm: fx.GraphModule, shape_env: ShapeEnv | None) -> Capture:
    """The graph that AOTAutograd gives its inference compiler."""
    return _Capturer(gm, graph_pb2.Graph.INFERENCE, shape_env).run()


class _Capturer:
    def __init__(self, gm: fx.GraphModule, level: int, shape_env: ShapeEnv | None) -> None:
        self.gm = gm
        self.graph = graph_pb2.Graph(level=level)
        self.debug = graph_pb2.DebugInfo()
        self.shape_env = shape_env
        self.inputs = gm.graph.find_nodes(op="placeholder")
        self._joint = level == graph_pb2.Graph.JOINT  # others have tags too, which mean nothing there
        self._syms = SymTableBuilder(self.graph.syms, shape_env, with_size_class=True)
        self._types = TypeTable(self.graph.types, self._syms)
        self._args = ArgEncoder(self._syms, self._value_of)
        self._ops: dict[Any, tuple[int, Operator]] = {}
        self._ids: dict[fx.Node, int] = {}
        self._values: list[fx.Node | None] = []
        self._frames: dict[str, str] = {}

    def run(self) -> Capture:
        for node in self.inputs:
            self._input(node)
        for node in self.gm.graph.find_nodes(op="get_attr"):
            self._constant(node)
        outputs: list[Any] = []
        for node in self.gm.graph.nodes:
            if node.op == "call_function":
                try:
                    self._call(node)
                except CaptureError as e:
                    raise CaptureError(f"{node.name} ({_target_name(node.target)}): {e}") from e
            elif node.op == "output":
                outputs = pytree.arg_tree_leaves(*node.args)
            elif node.op not in ("placeholder", "get_attr"):
                raise CaptureError(f"{node.name}: {node.op} nodes are not supported")
        for i, output in enumerate(outputs):
            self._output(i, output)
        return Capture(self.graph, self.debug, self.inputs, outputs, self._values, self._syms, self.shape_env)

    def _input(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        entry = self.graph.inputs.add()
        if isinstance(value, torch.Tensor):
            self._bind(node)
            entry.type = self._types.of(value)
        elif isinstance(value, torch.SymInt) or type(value) is int:
            self._values.append(None)
            entry.sym = self._syms.input_symbol(value)
        else:
            raise CaptureError(f"input {node.name} is a {type(value).__name__}")
        self.debug.input_names.append(node.name)

    def _constant(self, node: fx.Node) -> None:
        value: Any = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, fx.GraphModule):
            users = ", ".join(_target_name(user.target) for user in node.users)
            raise CaptureError(f"{users or node.name} is not supported")
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            raise CaptureError(f"attribute {node.target} is a {type(value).__name__}")
        if not value.is_contiguous():
            raise CaptureError(f"constant {node.target} is not contiguous")
        self._bind(node)
        node.meta.setdefault("val", value)
        with unset_fake_temporarily():
            data = value.detach().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        self.graph.constants.add(type=self._types.of(value), data=data)

    def _call(self, node: fx.Node) -> None:
        target = node.target
        value = actual_value(node)
        if target is py_operator.getitem and isinstance(node.args[0], fx.Node):
            if isinstance(value, torch.Tensor):
                source, position = node.args
                self._ids[node] = item = self._ids[source] + position
                self._values[item] = self._values[item] or node
            return  # a size, or a result that is None: named by its own value
        if isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat | int | float | bool):
            return  # arithmetic on sizes; whatever cannot be expressed is refused where a tensor op uses it
        if target is torch.ops.aten._assert_scalar.default and self._syms.ranges_imply(actual_value(node.args[0])):
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise CaptureError("is not an ATen or custom operator")
        index, op = self._operator(target)
        out = self.graph.nodes.add(op=index)
        if self._joint and node.meta.get("partitioner_tag") in _BACKWARD_TAGS:
            out.phase = graph_pb2.Node.BACKWARD
        policy = _checkpoint_policy(node)
        if policy is not None:
            out.recompute = 1 + int(getattr(policy, "value", policy))
        self._args.encode_call(out.args, op, node)
        self._results(out.result_types, op, node, value)
        self.debug.node_names.append(node.name)
        self.debug.stack_traces.append(self._frame(node.meta.get("stack_trace")))

    def _operator(self, target: torch._ops.OpOverload) -> tuple[int, Operator]:
        found = self._ops.get(target)
        if found is None:
            op = operator_of(target)
            found = self._ops[target] = (len(self.graph.ops), op)
            self.graph.ops.add(name=op.name, schema=op.schema)
        return found

    def _results(self, field: Any, op: Operator, node: fx.Node, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._bind(node)
            field.append(self._types.of(value))
            return
        if value is None:
            return
        if not isinstance(value, list | tuple):
            raise CaptureError(f"its result is a {type(value).__name__}")
        self._ids[node] = len(self._values)  # of the first result: see getitem
        for result in value:
            self._values.append(None)
            if isinstance(result, torch.Tensor):
                field.append(self._types.of(result))
            elif result is None or isinstance(result, torch.SymInt | int):
                field.append(_NO_RESULT)
            else:
                raise CaptureError(f"one of its results is a {type(result).__name__}")

    def _output(self, position: int, output: Any) -> None:
        entry = self.graph.outputs.add()
        value = output.meta.get("val") if isinstance(output, fx.Node) else output
        if value is None:
            entry.none.SetInParent()
        elif isinstance(value, torch.Tensor):
            entry.value = self._value_of(output)
        elif isinstance(value, torch.SymInt) or type(value) is int:
            entry.sym = self._syms.size(value)
        else:
            raise CaptureError(f"output {position} is a {type(value).__name__}")

    def _bind(self, node: fx.Node) -> None:
        self._ids[node] = len(self._values)
        self._values.append(node)

    def _value_of(self, node: fx.Node) -> int:
        found = self._ids.get(node)
        if found is None:
            raise CaptureError(f"uses {node.name}, which is not a value of the graph")
        return found

    def _frame(self, trace: str | None) -> str:
        if not trace:
            return ""
        frame = self._frames.get(trace)
        if frame is None:
            frame = self._frames[trace] = _innermost_frame(trace)
        return frame


def _checkpoint_policy(node: fx.Node) -> Any:
    """Whether checkpointing wants the node's result saved or computed again, None if nothing was said. What one region
    hands to a later one is saved, as PyTorch's partitioner has it: else both would be computed again from the first's
    inputs. So is a region's result with a backward hook, which its recomputation may depend on."""
    policy = node.meta.get("recompute")
    if policy not in _RECOMPUTE:
        return policy
    again = [user.meta for user in node.users if user.meta.get("recompute") in _RECOMPUTE]
    region = node.meta.get("ac_graph_id")
    handed_on = region is not None and any(meta.get("ac_graph_id", region) > region for meta in again)
    hooked = bool(node.meta.get("has_backward_hook")) and not again
    return CheckpointPolicy.MUST_SAVE if handed_on or hooked else policy


def _innermost_frame(trace: str) -> str:
    """ "gpt2/modeling_gpt2.py:120: x = self.c_attn(x)" of a stack trace as Python prints it."""
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    path, line, code = frames[-1]
    return f"{'/'.join(path.split('/')[-2:])}:{line}: {code.strip()}"


def _target_name(target: Any) -> str:
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher-order operator {target.name()}"
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__qualname__", None) or type(target).__name__
