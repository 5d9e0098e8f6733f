"""What must hold for an artifact to be valid, as a kiln.v1.GuardSpec: a part of its key.

Reads sizes only as expressions: evaluating a condition on a SymInt would add a guard to the user's function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from kiln.capture import Capture
from kiln.errors import CaptureError
from kiln.proto import graph_pb2
from kiln.symbols import SymTableBuilder
from kiln.tensors import TypeTable

_G = graph_pb2.GuardSpec.InputGuard
_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)  # others may be made of several tensors


@dataclasses.dataclass(frozen=True)
class EntryState:
    """What only the back end's first frame can see: AOTAutograd traces with grad mode and autocast of its own."""

    names: tuple[str, ...]  # of the inputs of Dynamo's graph, as the user's code reaches them; for messages only
    requires_grad: tuple[bool, ...]  # of the same
    globals: tuple[tuple[str, str], ...]  # sorted by name
    gpu: int = -1  # number of the CUDA device that the graph has tensors on; -1: none

    @staticmethod
    def now(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> EntryState:
        """CaptureError where the graph is on several GPUs."""
        names = tuple(_source_name(node) for node in gm.graph.find_nodes(op="placeholder"))
        requires_grad = tuple(isinstance(t, torch.Tensor) and t.requires_grad for t in example_inputs)
        return EntryState(names, requires_grad, global_state(), _gpu(gm, example_inputs))


def _gpu(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> int:
    found: set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if value.device.type == "cuda":
                found.add(value.device.index)
        elif isinstance(value, tuple | list):
            for item in value:
                look(item)

    look(tuple(example_inputs))
    for node in gm.graph.nodes:
        look(node.meta.get("example_value"))
    if len(found) > 1:
        raise CaptureError(f"tensors on {', '.join(f'cuda:{i}' for i in sorted(found))}: a graph has one GPU at most")
    return found.pop() if found else -1


def name_inputs(capture: Capture, entry: EntryState) -> None:
    """Gives the primals the names that the user knows them by, in the capture's DebugInfo."""
    for i, node in enumerate(capture.primals or capture.inputs):
        index = _dynamo_index(node, i)
        if index < len(entry.names):
            capture.debug.input_names[i] = entry.names[index]


def _source_name(node: fx.Node) -> str:
    """ "L['x']" and the like."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else node.name


def global_state() -> tuple[tuple[str, str], ...]:
    """The settings of torch that a compiled graph may depend on, sorted by name."""
    state = {
        "autocast": _autocast(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "grad_mode": str(torch.is_grad_enabled()),
        "inference_mode": str(torch.is_inference_mode_enabled()),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "mkldnn": str(torch.backends.mkldnn.enabled),
    }
    for name in _FUNCTORCH:
        state[f"functorch.{name}"] = str(getattr(torch._functorch.config, name, None))
    for name, getter in _FLAGS.items():
        read = getattr(torch._C, getter, None)
        if read is not None:
            state[name] = _read(read)
    return tuple(sorted(state.items()))


# Of torch._functorch.config: what changes AOTAutograd's trace. Its other settings are the partitioner's, the caches',
# and for debugging, some of them paths.
_FUNCTORCH = (
    "backward_pass_autocast",
    "custom_op_default_layout_constraint",
    "decompose_custom_triton_ops",
    "disable_guess_zero_tangent_for_mutated_input_subclass",
    "enable_complex_wrapper",
    "fake_tensor_propagate_real_tensors",
    "functionalize_rng_ops",
    "graphsafe_rng_functionalization",
    "guess_tangent_strides_as_outputs",
    "saved_tensors_hooks_filtering_mode",
    "selective_decompose",
    "static_weight_shapes",
    "unlift_effect_tokens",
    "view_replay_for_aliased_outputs",
)

# Names of private getters, because the public ones refuse to answer where old and new precision settings were mixed.
_FLAGS = {
    "cublas_bf16_reduction": "_get_cublas_allow_bf16_reduced_precision_reduction",
    "cublas_fp16_accumulation": "_get_cublas_allow_fp16_accumulation",
    "cublas_fp16_reduction": "_get_cublas_allow_fp16_reduced_precision_reduction",
    "cublas_tf32": "_get_cublas_allow_tf32",
    "cudnn": "_get_cudnn_enabled",
    "cudnn_deterministic": "_get_cudnn_deterministic",
    "cudnn_tf32": "_get_cudnn_allow_tf32",
    "cpu_fp16_reduction": "_get_cpu_allow_fp16_reduced_precision_reduction",
    "deterministic": "_get_deterministic_algorithms",
    "deterministic_fill": "_get_deterministic_fill_uninitialized_memory",
    "deterministic_warn_only": "_get_deterministic_algorithms_warn_only",
    "mkldnn_deterministic": "_get_mkldnn_deterministic",
    "onednn_tf32": "_get_onednn_allow_tf32",
    "sdp_cudnn": "_get_cudnn_sdp_enabled",
    "sdp_efficient": "_get_mem_efficient_sdp_enabled",
    "sdp_flash": "_get_flash_sdp_enabled",
    "sdp_math": "_get_math_sdp_enabled",
    "sdp_math_reduction": "_get_math_sdp_allow_fp16_bf16_reduction",
}


def _read(getter: Callable[[], object]) -> str:
    try:
        return str(getter())
    except RuntimeError:  # torch's answer to mixed settings
        return "mixed"


def _autocast() -> str:
    enabled = [
        f"{device}:{str(torch.get_autocast_dtype(device)).removeprefix('torch.')}"
        for device in ("cpu", "cuda")
        if torch.is_autocast_enabled(device)
    ]
    return ",".join([*enabled, f"cache={torch.is_autocast_cache_enabled()}"]) if enabled else "off"


def guard_spec(capture: Capture, entry: EntryState, static_inputs: Iterable[int]) -> graph_pb2.GuardSpec:
    """Guards of the primals of a captured graph (all inputs, for inference); `static_inputs` are the positions of
    parameters and buffers."""
    inputs = capture.primals or capture.inputs
    writer = _Writer([node.meta["val"] for node in inputs], capture.shape_env)
    static = frozenset(static_inputs)
    for i, node in enumerate(inputs):
        index = _dynamo_index(node, i)
        guard = writer.add(i)
        if guard.kind == _G.TENSOR:
            guard.requires_grad = index < len(entry.requires_grad) and entry.requires_grad[index]
            guard.is_static = i in static
    return writer.finish(entry)


def torch_guard_spec(gm: fx.GraphModule, example_inputs: Sequence[Any], entry: EntryState) -> graph_pb2.GuardSpec:
    """Guards of the inputs of Dynamo's graph. Sizes come from its own fake tensors, the rest from the real ones."""
    nodes = gm.graph.find_nodes(op="placeholder")
    values = [node.meta.get("example_value", real) for node, real in zip(nodes, example_inputs, strict=True)]
    writer = _Writer(values, _shape_env(values))
    for i, real in enumerate(example_inputs):
        if isinstance(real, torch.Tensor) and type(real) not in _PLAIN:
            raise CaptureError(f"input {i} is a {type(real).__name__}")
        guard = writer.add(i)
        if guard.kind == _G.TENSOR:
            guard.storage_offset = writer.syms.size(values[i].storage_offset())
            guard.requires_grad = real.requires_grad
            guard.is_leaf = real.is_leaf
            guard.is_view = real._is_view()
            guard.is_inference = real.is_inference()
            guard.is_static = isinstance(real, torch.nn.Parameter) or hasattr(real, "_dynamo_static_input_type")
    return writer.finish(entry)


class _Writer:
    def __init__(self, values: Sequence[Any], shape_env: Any) -> None:
        self.spec = graph_pb2.GuardSpec()
        self.syms = SymTableBuilder(self.spec.syms, shape_env, with_size_class=False)
        self._types = TypeTable(self.spec.types, self.syms)
        self._values = values
        self._shape_env = shape_env
        self._groups = _alias_groups(values)

    def add(self, position: int) -> Any:
        """The next input's guard, with what its value says. CaptureError if that is neither a tensor nor a size."""
        value = self._values[position]
        if isinstance(value, torch.Tensor):
            group = self._groups[position]
            return self.spec.inputs.add(kind=_G.TENSOR, type=self._types.of(value), alias_group=group)
        if isinstance(value, torch.SymInt) or type(value) is int:
            return self.spec.inputs.add(kind=_G.SYMINT, type=self.syms.input_symbol(value))
        raise CaptureError(f"input {position} is a {type(value).__name__}")

    def finish(self, entry: EntryState) -> graph_pb2.GuardSpec:
        _predicates(self.spec, self.syms, self._shape_env)
        for name, text in entry.globals:
            self.spec.globals.add(name=name, value=text)
        return self.spec


def _shape_env(values: Sequence[Any]) -> Any:
    for value in values:
        if isinstance(value, torch.SymInt):
            return value.node.shape_env
    return None


def _alias_groups(values: Sequence[Any]) -> list[int]:
    """1, 2, … for inputs that share a storage with another, numbered by first use; 0 for the others."""
    members: dict[int, list[int]] = {}
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            members.setdefault(value.untyped_storage()._cdata, []).append(i)
    groups = [0] * len(values)
    shared = [m for m in members.values() if len(m) > 1]
    for number, positions in enumerate(shared, 1):
        for i in positions:
            groups[i] = number
    return groups


def _dynamo_index(node: fx.Node, position: int) -> int:
    """Which input of Dynamo's graph an input came from: AOTAutograd, which may drop and join some, describes each."""
    desc = node.meta.get("desc")
    while (whole := getattr(desc, "base_of", None) or getattr(desc, "base", None)) is not None:
        desc = whole  # of a view's base, or of a part of a tensor subclass
    return int(getattr(desc, "idx", position))


def _predicates(spec: graph_pb2.GuardSpec, syms: SymTableBuilder, shape_env: Any) -> None:
    """Relations between the inputs' sizes that torch guards on so far. One that cannot be written down is left out: the
    graph is shipped as traced, so a predicate only tells the server more."""
    if shape_env is None:
        return
    found = set()
    for guard in shape_env.guards:
        if guard.expr.free_symbols and syms.knows(guard.expr):
            predicate = syms.predicate(guard.expr)
            if predicate is not None:
                found.add((predicate.op, predicate.lhs, predicate.rhs))
    for op, lhs, rhs in sorted(found):
        spec.predicates.add(op=op, lhs=lhs, rhs=rhs)
