"""AOTAutograd's metadata of one call as a kiln.v1.CallSpec: all that a later process needs to do without AOTAutograd.

What cannot be said there raises Refused with the reason; such graphs go through AOTAutograd every time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _functionalization as functionalization

from kiln.capture import Capture
from kiln.errors import CaptureError, KilnError
from kiln.proto import artifact_pb2, call_spec_pb2, graph_pb2
from kiln.symbols import SymTableBuilder
from kiln.tensors import dtype_number

VERSION = 1

_InverseReturnMode: Any = functionalization.InverseReturnMode  # type: ignore[attr-defined]

_Spec = call_spec_pb2.CallSpec
_Output = call_spec_pb2.CallSpec.Output
_Tangent = call_spec_pb2.CallSpec.Tangent
_LAYOUTS = {
    torch.contiguous_format: _Tangent.CONTIGUOUS,
    torch.channels_last: _Tangent.CHANNELS_LAST,
    torch.channels_last_3d: _Tangent.CHANNELS_LAST_3D,
}


class Refused(KilnError):
    """A call that needs AOTAutograd. The message says why."""


@dataclasses.dataclass(frozen=True)
class Traced:
    """What AOTAutograd made of Dynamo's graph, and the server of that."""

    metadata: Any  # torch's ViewAndMutationMeta
    capture: Capture
    signature: artifact_pb2.PlanSignature
    training: bool
    in_autocast: bool


def derive(traced: Traced, num_inputs: int) -> call_spec_pb2.CallSpec:
    """`num_inputs` are Dynamo's. Raises Refused."""
    _refuse(traced, num_inputs)
    md = traced.metadata
    spec = call_spec_pb2.CallSpec(
        num_inputs=num_inputs,
        training=traced.training,
        in_autocast=traced.in_autocast,
        deterministic=bool(md.deterministic),
        counted_inputs=md.mutated_graph_handled_indices_seen_by_autograd,
        written_inputs=[i for i, info in enumerate(md.input_info) if info.mutates_data],
        num_bases=md.num_intermediate_bases,
        inputs_require_grad=any(i.requires_grad for i in md.input_info),
    )
    if md.grad_enabled_mutation is not None:
        spec.grad_mode_after = _Spec.ON if md.grad_enabled_mutation else _Spec.OFF
    for i in md.mutated_inp_runtime_indices:
        info = md.input_info[i]
        spec.mutations.add(
            input=i,
            data=info.mutates_data,
            metadata=info.mutates_metadata,
            is_leaf=info.is_leaf,
            requires_grad=info.requires_grad,
        )
    for info in md.output_info:
        _output(spec.outputs.add(), info)
    if traced.training:
        _saved(spec, traced)
        _gradients(spec, traced)
        for layout in md.subclass_tangent_meta:
            _tangent(spec.tangents.add(), layout.memory_format)
    return spec


def _refuse(traced: Traced, num_inputs: int) -> None:
    md = traced.metadata
    subclasses = [*md.subclass_inp_meta, *md.subclass_fw_graph_out_meta, *(md.subclass_tangent_meta or [])]
    mutated = [md.input_info[i] for i in md.mutated_inp_runtime_indices]
    for refused, reason in (
        (
            len(md.input_info) != num_inputs or len(traced.capture.primals or traced.capture.inputs) != num_inputs,
            "inputs are the same tensor, or share a storage that is written to",
        ),
        (md.tokens, "operators with effects"),
        (md.num_graphsafe_rng_states or md.is_rng_op_functionalized, "random number generators as values"),
        (any(type(m).__name__ != "PlainTensorMeta" for m in subclasses), "tensor subclasses"),
        (md.indices_of_inputs_that_requires_grad_with_mutations_in_bw, "the backward writes to an input"),
        (md.num_opaque_objects_saved_for_bw, "opaque objects are saved for the backward"),
        (
            any(m.mutates_storage_metadata or m.mutation_inductor_storage_resize for m in mutated),
            "an input's storage is replaced or resized",
        ),
    ):
        if refused:
            raise Refused(reason)


def _output(out: Any, info: Any) -> None:
    out.kind = _Output.Kind.Value(info.output_type.name.upper())
    out.base = info.base_idx or 0
    out.is_tensor = issubclass(info.raw_type, torch.Tensor)
    out.requires_grad = info.requires_grad
    # Before torch 2.12, all that requires a gradient.
    out.has_tangent = getattr(info, "requires_grad_for_backward", info.requires_grad)
    out.dynamic_dims.extend(sorted(info.dynamic_dims or ()))
    sequence = info.view_meta_sequence
    if sequence is None or any(view.has_symbolic_inputs for view in sequence.sequence):
        return
    out.has_views = True
    for view in sequence.sequence:
        step = out.views.add(name=type(view).__name__)
        for position, arg in enumerate(view.as_tuple(), 1):
            if isinstance(arg, _InverseReturnMode):
                step.inverse_mode = position
                step.args.add(i=int(arg.value))
            elif isinstance(arg, list | tuple):
                items = step.args.add().list
                items.SetInParent()
                for item in arg:
                    _view_argument(items.items.add(), item)
            else:
                _view_argument(step.args.add(), arg)


def _view_argument(out: graph_pb2.Arg, arg: Any) -> None:
    if arg is None:
        out.none.SetInParent()
    elif type(arg) is bool:
        out.b = arg
    elif type(arg) is int:
        out.i = arg
    elif isinstance(arg, torch.dtype):
        out.dtype = dtype_number(arg)
    else:
        raise Refused(f"a view is made with a {type(arg).__name__}")


def _saved(spec: Any, traced: Traced) -> None:
    capture, signature = traced.capture, traced.signature
    primals = {node: i for i, node in enumerate(capture.primals)}
    dtypes = signature.saved_dtypes or [0] * len(signature.saved_values)
    for value, dtype in zip(signature.saved_values, dtypes, strict=True):
        node = capture.values[value]
        assert node is not None  # kiln.opaque has split the graph there
        saved = spec.saved.add(unchecked=bool(node.meta.get("saved_tensor_with_no_vc_check", False)))
        if node in primals and not dtype:
            saved.input = primals[node]
        else:
            saved.output = True
    spec.num_saved_syms = len(signature.saved_syms)


def _gradients(spec: Any, traced: Traced) -> None:
    """Inputs that no gradient reaches are detached, as AOTAutograd does: their history is not gone through."""
    gradients = traced.capture.outputs[traced.capture.graph.num_forward_outputs :]
    for i, (gradient, info) in enumerate(zip(gradients, traced.metadata.input_info, strict=True)):
        in_graph = info.mutates_metadata and info.mutation_type.name == "MUTATED_IN_GRAPH"
        if gradient is None and info.requires_grad and not info.is_leaf and not in_graph:
            spec.detached_inputs.append(i)


def _tangent(out: Any, memory_format: Any) -> None:
    if memory_format is None:
        return
    if memory_format.memory_format is not None:
        out.layout = _LAYOUTS[memory_format.memory_format]
        return
    if not all(type(size) is int for size in (*memory_format.size, *memory_format.stride)):
        raise Refused("a tangent's strides depend on a size")
    out.layout = _Tangent.STRIDED
    out.sizes.extend(memory_format.size)
    out.strides.extend(memory_format.stride)


def predicates_of(guards: Sequence[Any], inputs: Sequence[torch.SymInt], shape_env: Any) -> call_spec_pb2.Variant:
    """A Variant that holds `guards` (torch's ShapeGuards) over the SymInt inputs. Raises Refused."""
    variant = call_spec_pb2.Variant(version=VERSION)
    if not guards:
        return variant
    syms = SymTableBuilder(variant.syms, shape_env, with_size_class=False)
    for value in inputs:
        syms.input_symbol(value)
    found = set()
    for guard in guards:
        try:
            predicate = syms.predicate(guard.expr) if syms.knows(guard.expr) else None
        except CaptureError:
            predicate = None
        if predicate is None:
            raise Refused(f"AOTAutograd guards on {guard.expr}, which has no form here")
        found.add((predicate.op, predicate.lhs, predicate.rhs))
    for op, lhs, rhs in sorted(found):
        variant.predicates.add(op=op, lhs=lhs, rhs=rhs)
    return variant


def install(variant: call_spec_pb2.Variant, inputs: Sequence[Any]) -> bool:
    """Evaluates the variant's predicates on the SymInt inputs, which makes torch guard on them as it did where the
    variant comes from. False if one does not hold."""
    values = evaluate(variant.syms, inputs) if variant.predicates else []
    return all(bool(_RELATIONS[p.op](values[p.lhs], values[p.rhs])) for p in variant.predicates)


def evaluate(syms: graph_pb2.SymTable, symbols: Sequence[Any]) -> list[Any]:
    """The table's expressions with `symbols`, which may be whatever has Python's arithmetic, for its symbols. KilnError
    where a number does not fit in 64 bits."""
    values: list[Any] = []
    for expr in syms.exprs:
        args = [values[i] for i in expr.args]
        value = symbols[expr.value] if expr.op == graph_pb2.SymExpr.SYMBOL else _EXPRS[expr.op](expr, args)
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            raise KilnError(f"a size expression is {value}, which does not fit in 64 bits")
        values.append(value)
    return values


def _sum(_expr: graph_pb2.SymExpr, args: list[Any]) -> Any:
    return sum(args[1:], args[0])


def _product(_expr: graph_pb2.SymExpr, args: list[Any]) -> Any:
    result = args[0]
    for arg in args[1:]:
        result = result * arg
    return result


_EXPRS: dict[int, Callable[[Any, list[Any]], Any]] = {
    graph_pb2.SymExpr.CONST: lambda expr, args: expr.value,
    graph_pb2.SymExpr.ADD: _sum,
    graph_pb2.SymExpr.MUL: _product,
    graph_pb2.SymExpr.FLOOR_DIV: lambda expr, args: args[0] // args[1],
    graph_pb2.SymExpr.MOD: lambda expr, args: args[0] % args[1],
    graph_pb2.SymExpr.MIN: lambda expr, args: torch.sym_min(args[0], args[1]),
    graph_pb2.SymExpr.MAX: lambda expr, args: torch.sym_max(args[0], args[1]),
}
_RELATIONS: dict[int, Callable[[Any, Any], Any]] = {
    graph_pb2.Predicate.EQ: lambda a, b: a == b,
    graph_pb2.Predicate.NE: lambda a, b: a != b,
    graph_pb2.Predicate.LT: lambda a, b: a < b,
    graph_pb2.Predicate.LE: lambda a, b: a <= b,
}
