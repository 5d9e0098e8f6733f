"""What stands between Dynamo and the compiled code on a hit, in AOTAutograd's place: built from a CallSpec.

The wrapper is straight-line Python, generated from the CallSpec's numbers (kiln._kiln has checked them against the
compiled code; no text of it is ever executed): a call of a graph without mutations or aliases is little more than the
call of a torch.autograd.Function. What it does, and in which order, is what AOTAutograd's run-time wrappers do
(torch/_functorch/_aot_autograd/runtime_wrappers.py), so that a hit and a miss cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _functionalization as functionalization

from kiln import session
from kiln.errors import KilnError
from kiln.opaque import BoxedFunction
from kiln.proto import call_spec_pb2, graph_pb2
from kiln.tensors import TORCH_DTYPES

_InverseReturnMode: Any = functionalization.InverseReturnMode  # type: ignore[attr-defined]

_Output = call_spec_pb2.CallSpec.Output
_Tangent = call_spec_pb2.CallSpec.Tangent

_OF_INPUT = (_Output.ALIAS_OF_INPUT, _Output.IS_INPUT)
_OF_BASE = (_Output.ALIAS_OF_INTERMEDIATE, _Output.ALIAS_OF_INTERMEDIATE_SAVE_AS_OUTPUT)
_ALIASES = (*_OF_INPUT, *_OF_BASE, _Output.ALIAS_OF_INTERMEDIATE_BASE_IS_USER_OUTPUT)
_FORMATS = {
    _Tangent.CONTIGUOUS: torch.contiguous_format,
    _Tangent.CHANNELS_LAST: torch.channels_last,
    _Tangent.CHANNELS_LAST_3D: torch.channels_last_3d,
}


def build(
    spec: call_spec_pb2.CallSpec,
    eager: Callable[..., Any],
    forward: BoxedFunction,
    backward: BoxedFunction | None = None,
    *,
    fixed_sizes: bool = False,
) -> Callable[..., Any]:
    """A function of Dynamo's inputs that returns a list of its outputs.

    With `fixed_sizes` the caller's sizes are no symbols to Dynamo: outputs don't tell later graphs that theirs are.

    `spec` fits the functions (compiler/artifact/call_spec.h). `eager` runs in their place in a call whose inputs share
    memory that is written to: torch does not guard on that. KilnError where this torch has no such view as it names.
    """
    return _Builder(spec, eager, forward, backward, fixed_sizes).build()


class _BoxedGradients(type(torch.autograd.Function)):  # type: ignore[misc]
    """Of functions whose gradients come as one list, which the backward empties so that a large one dies early.
    Compiled autograd takes no such functions, and may begin between the forward and the backward."""

    @property
    def boxed_grads_call(cls) -> bool:
        return not torch._dynamo.compiled_autograd.compiled_autograd_enabled


class _Alias:
    """Hides an output from torch.autograd.Function, which would make a fresh tensor of it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class _Views:
    """In the shape of AOTAutograd's ViewMetaSequence."""

    def __init__(self, output: Any) -> None:
        self.sequence = [_view_step(step) for step in output.views]


def _view_step(step: call_spec_pb2.CallSpec.ViewStep) -> Any:
    args = [_view_argument(arg) for arg in step.args]
    try:
        kind = getattr(functionalization, step.name)
        if not issubclass(kind, functionalization.ViewMeta):
            raise TypeError(f"{step.name} is no view")
        if step.inverse_mode:
            args[step.inverse_mode - 1] = _InverseReturnMode(args[step.inverse_mode - 1])
        return kind(tuple(args))
    except (AttributeError, IndexError, TypeError, ValueError) as e:
        raise KilnError(f"torch {torch.__version__} cannot make the view {step.name}: {e}") from e


def _view_argument(arg: graph_pb2.Arg) -> Any:
    kind = arg.WhichOneof("kind")
    if kind == "list":
        return [_view_argument(item) for item in arg.list.items]
    if kind == "none":
        return None
    if kind == "dtype":
        return TORCH_DTYPES[arg.dtype]
    return getattr(arg, kind)


def _mark_dynamic(runtime_wrappers: Any) -> Any:
    """What tells Dynamo that dims of an output are dynamic. Before torch 2.13 it had another name."""
    new = getattr(runtime_wrappers, "mark_dynamo_propagated_dynamic_indices", None)
    return new or runtime_wrappers.maybe_mark_dynamic_helper


class _Builder:
    def __init__(
        self,
        spec: call_spec_pb2.CallSpec,
        eager: Callable[..., Any],
        forward: BoxedFunction,
        backward: BoxedFunction | None,
        fixed_sizes: bool,
    ) -> None:
        # Not before Dynamo is loaded, whose own imports would go in a circle.
        from torch._functorch._aot_autograd import runtime_wrappers
        from torch._functorch._aot_autograd.functional_utils import gen_alias_from_base

        self.spec = spec
        self.eager = eager
        self.fixed_sizes = fixed_sizes
        self.mutations = len(spec.mutations)
        self.outputs = len(spec.outputs)
        self.returned = self.mutations + self.outputs + spec.num_bases
        self.aliases = [i for i, o in enumerate(spec.outputs) if o.kind in _ALIASES]
        # Positions among what the forward returns that are hidden from autograd.
        hidden = [i for i, m in enumerate(spec.mutations) if m.metadata and not m.data]
        self.hidden = frozenset([*hidden, *(self.mutations + i for i in self.aliases)])
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {
            "torch": torch,
            "C": torch._C,
            "forward": forward,
            "backward": backward,
            "BoxedGradients": _BoxedGradients,
            "Alias": _Alias,
            "alias": gen_alias_from_base,
            "double_backward": _double_backward,
            "mark_dynamic": _mark_dynamic(runtime_wrappers),
            "restride": _restride,
        }

    def build(self) -> Callable[..., Any]:
        if self.spec.training:
            self._function()
        self._call()
        source = "\n".join(self.lines)
        exec(compile(source, "<kiln wrapper>", "exec"), self.globals)
        call: Callable[..., Any] = self.globals["call"]
        return call

    def _emit(self, indent: int, line: str) -> None:
        self.lines.append(" " * indent + line)

    # --- the autograd function of a call with a backward ---

    def _function(self) -> None:
        self._emit(0, "class CompiledFunction(torch.autograd.Function, metaclass=BoxedGradients):")
        self._emit(1, "@staticmethod")
        self._emit(1, "def forward(ctx, *a):")
        self._run(2, "r", "forward(list(a))")
        self._save()
        self._return()
        self._emit(1, "@staticmethod")
        self._emit(1, "def backward(ctx, *grads):")
        self._emit(2, "grads = grads[0] if len(grads) == 1 and isinstance(grads[0], list) else list(grads)")
        self._backward()
        self._emit(0, "apply = CompiledFunction.apply")

    def _run(self, indent: int, result: str, call: str) -> None:
        if self.spec.in_autocast:
            self._emit(indent, "with C._DisableAutocast():")
            indent += 1
        self._emit(indent, f"{result} = {call}")

    def _save(self) -> None:
        checked: list[str] = []
        unchecked: list[str] = []
        for k, saved in enumerate(self.spec.saved):
            value = f"a[{saved.input}]" if saved.WhichOneof("kind") == "input" else f"r[{self.returned + k}]"
            # A view would carry its base's history along.
            text = f"{value}.detach() if {value}._is_view() else {value}"
            (unchecked if saved.unchecked else checked).append(text)
        if checked:
            self._emit(2, f"ctx.save_for_backward({', '.join(checked)})")
        if unchecked:
            self._emit(2, f"ctx.unchecked = [{', '.join(unchecked)}]")
        if self.spec.num_saved_syms:
            self._emit(2, f"ctx.symints = r[{self.returned + len(self.spec.saved)}:]")

    def _return(self) -> None:
        spec, constant = self.spec, []
        for i, mutation in enumerate(spec.mutations):
            if i not in self.hidden and not mutation.requires_grad:
                constant.append(i)
        for i, output in enumerate(spec.outputs, self.mutations):
            if i in self.hidden:
                continue
            if output.kind == _Output.UNSAFE_VIEW_ALIAS:
                self._emit(2, f"r[{i}] = torch.ops.aten._unsafe_view.default(r[{i}], r[{i}].shape)")
            if output.is_tensor and not output.requires_grad:
                constant.append(i)
        if constant:
            self._emit(2, f"ctx.mark_non_differentiable({', '.join(f'r[{i}]' for i in constant)})")
        self._emit(2, "ctx._materialize_non_diff_grads = False")
        items = [f"Alias(r[{i}])" if i in self.hidden else f"r[{i}]" for i in range(self.returned)]
        self._emit(2, f"return ({', '.join(items)}{',' if items else ''})")

    def _backward(self) -> None:
        spec = self.spec
        self._emit(2, "if C._functorch.peek_interpreter_stack() is not None: raise RuntimeError(")
        self._emit(3, repr(_WITHIN_FUNCTORCH) + ")")
        if not spec.deterministic:
            self._emit(2, "if torch.are_deterministic_algorithms_enabled(): raise RuntimeError(")
            self._emit(3, repr(_NOT_DETERMINISTIC) + ")")
        positions = self._tangent_positions()
        for k, (position, tangent) in enumerate(zip(positions, spec.tangents, strict=True)):
            self._emit(2, f"t{k} = grads[{position}]")
            self._tangent(f"t{k}", tangent, k)
        self._emit(2, "grads.clear()")
        parts = ["*ctx.symints"] if spec.num_saved_syms else []
        parts += self._saved_parts()
        parts += [f"t{k}" for k in range(len(positions))]
        self._emit(2, f"z = [{', '.join(parts)}]")
        self._emit(2, "s = None")  # z alone holds them, which the compiled backward empties
        if positions:
            self._emit(2, f"del {', '.join(f't{k}' for k in range(len(positions)))}")
        self._emit(2, "def run():")
        self._emit(3, "ctx.maybe_clear_saved_tensors()")
        self._run(3, "g", "backward(z)")
        self._emit(3, "return tuple(g)")
        self._emit(2, "step = run")
        self._emit(2, "if C._is_key_in_tls('context') and (context := C._get_obj_in_tls('context')) is not None:")
        self._emit(3, "def step(): return context.run(run)")
        wanted = (
            "" if spec.inputs_require_grad else " and any(t.requires_grad for t in z if isinstance(t, torch.Tensor))"
        )
        self._emit(2, f"if torch.is_grad_enabled(){wanted}: return double_backward(step, z)")
        self._emit(2, "return step()")

    def _saved_parts(self) -> list[str]:
        """The saved tensors in the compiled backward's order, which mixes those that autograd checks and the others."""
        unchecked = [saved.unchecked for saved in self.spec.saved]
        if not any(unchecked):
            return ["*ctx.saved_tensors"] if unchecked else []
        parts, seen = [], [0, 0]
        if not all(unchecked):
            self._emit(2, "s = ctx.saved_tensors")
        for flag in unchecked:
            parts.append(f"{'ctx.unchecked' if flag else 's'}[{seen[flag]}]")
            seen[flag] += 1
        return parts

    def _tangent_positions(self) -> list[int]:
        spec = self.spec
        positions = [i for i, m in enumerate(spec.mutations) if m.data and m.requires_grad]
        for i, output in enumerate(spec.outputs):
            if output.kind not in _ALIASES and output.is_tensor and output.has_tangent:
                positions.append(self.mutations + i)
        return [*positions, *range(self.mutations + self.outputs, self.returned)]

    def _tangent(self, name: str, tangent: Any, k: int) -> None:
        """Tangents arrive in whatever layout the user's own backward gives them: an expanded scalar, a transpose."""
        if tangent.layout == _Tangent.ANY:
            return
        if tangent.layout == _Tangent.STRIDED:
            shape, strides = tuple(tangent.sizes), tuple(tangent.strides)
            unlike = f"({name}.stride() != {strides} or {name}.shape != {shape})"
            self._emit(2, f"if {name} is not None and {unlike}: {name} = restride({name}, {shape}, {strides})")
            return
        self.globals[f"format{k}"] = _FORMATS[tangent.layout]
        unlike = f"not {name}.is_contiguous(memory_format=format{k})"
        contiguous = f"{name}.contiguous(memory_format=format{k})"
        self._emit(2, f"if {name} is not None and {unlike}: {name} = {contiguous}")

    # --- the call ---

    def _call(self) -> None:
        spec = self.spec
        self._emit(0, "def call(*a):")
        if spec.written_inputs and spec.num_inputs > 1:
            self.globals.update(written_apart=session.written_apart, eager=_keeping_grad_mode(self.eager))
            self._emit(1, f"if not written_apart(a, {tuple(spec.written_inputs)}): return eager(*a)")
        if spec.counted_inputs:
            counted = ", ".join(f"a[{i}]" for i in spec.counted_inputs)
            self._emit(1, f"torch.autograd.graph.increment_version(({counted},))")
        self._emit(1, "grad = torch.is_grad_enabled()")
        if spec.training:
            self._apply()
        else:
            self._infer()
        for i, mutation in enumerate(spec.mutations):
            self._mutate(i, mutation)
        self._outputs()
        if spec.grad_mode_after != call_spec_pb2.CallSpec.UNCHANGED:
            self._emit(1, f"C._set_grad_enabled({spec.grad_mode_after == call_spec_pb2.CallSpec.ON})")
        self._emit(1, "return r")

    def _apply(self) -> None:
        """With grad mode on: a function may turn it on itself where the user has it off."""
        args = "*a"
        if self.spec.detached_inputs:
            self._emit(1, "b = list(a)")
            for i in self.spec.detached_inputs:
                self._emit(1, f"b[{i}] = b[{i}].detach()")
            args = "*b"
        self._emit(1, f"if grad: r = apply({args})")
        self._emit(1, "else:")
        self._emit(2, "C._set_grad_enabled(True)")
        self._emit(2, f"try: r = apply({args})")
        self._emit(2, "finally: C._set_grad_enabled(False)")

    def _infer(self) -> None:
        self._emit(1, "if grad: C._set_grad_enabled(False)")
        self._emit(1, "try:")
        self._run(2, "r", "forward(list(a))")
        self._emit(1, "finally:")
        self._emit(2, "if grad: C._set_grad_enabled(True)")

    def _tensor(self, position: int) -> str:
        hidden = self.spec.training and position in self.hidden
        return f"r[{position}].tensor" if hidden else f"r[{position}]"

    def _mutate(self, position: int, mutation: call_spec_pb2.CallSpec.Mutation) -> None:
        new, old = self._tensor(position), f"a[{mutation.input}]"
        if mutation.metadata:
            self._emit(1, f"{old}.as_strided_({new}.size(), {new}.stride(), {new}.storage_offset())")
        if mutation.data and mutation.is_leaf:
            # All that wrote to it was hidden from autograd, so this is.
            self._emit(1, f"({old}.detach() if {old}.requires_grad else {old}).copy_({new})")
        elif mutation.data:
            self._emit(1, f"{old}.copy_({new})")

    def _outputs(self) -> None:
        spec = self.spec
        if self.aliases:
            items = [self._aliased(i) if i in self.aliases else f"r[{self.mutations + i}]" for i in range(self.outputs)]
            self._emit(1, f"r = [{', '.join(items)}]")
        elif self.returned != self.outputs:
            self._emit(1, f"r = r[{self.mutations}:{self.mutations + self.outputs}]")
        for i, output in enumerate(spec.outputs):
            if output.dynamic_dims and not self.fixed_sizes:
                self._emit(1, f"mark_dynamic(r[{i}], {set(output.dynamic_dims)})")

    def _aliased(self, i: int) -> str:
        output = self.spec.outputs[i]
        if output.kind == _Output.IS_INPUT:
            return f"a[{output.base}]"
        if output.kind == _Output.ALIAS_OF_INPUT:
            base = f"a[{output.base}]"
        elif output.kind in _OF_BASE:
            base = self._tensor(self.mutations + self.outputs + output.base)
        else:
            base = self._tensor(self.mutations + output.base)
        self.globals[f"views{i}"] = _Views(output) if output.has_views else None
        target = self._tensor(self.mutations + i)
        return f"alias({base}, {target}, {output.requires_grad}, views{i}, replay_views=True)"


_WITHIN_FUNCTORCH = (
    "It looks like you're trying to call a compiled backward function within vmap/grad/vjp, which isn't supported. "
    "Try wrapping vmap inside torch.compile, or skip compiling the backward function."
)
_NOT_DETERMINISTIC = (
    "This compiled backward function is being run with torch.use_deterministic_algorithms(True), but it was previously "
    "generated during the forward function while torch.use_deterministic_algorithms(False) was set."
)


def _keeping_grad_mode(eager: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo's graph turns grad mode off and on by calls of its own, of which an exception skips some."""

    def run(*args: Any) -> Any:
        grad = torch.is_grad_enabled()
        try:
            return eager(*args)
        except BaseException:
            torch._C._set_grad_enabled(grad)
            raise

    return run


def _restride(tangent: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    result = torch.empty_strided(
        shape, strides, dtype=tangent.dtype, device=tangent.device, requires_grad=tangent.requires_grad
    )
    return result.copy_(tangent)


def _double_backward(run: Callable[[], Any], args: list[Any]) -> Any:
    """Gradients that require grad, as create_graph=True wants them, and that raise when gone through: as
    AOTAutograd's do. (once_differentiable would leave the graph unconnected.)"""

    class CallBackward(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *_args: Any) -> Any:
            return run()

        @staticmethod
        def backward(ctx: Any, *_grads: Any) -> None:
            raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")

    if not any(t.requires_grad for t in args if isinstance(t, torch.Tensor)):
        args = [torch.empty(0, requires_grad=True), *args]
    return CallBackward.apply(*args)
