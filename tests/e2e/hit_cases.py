"""Calls whose semantics a compiler's wrapper has to keep: aliases, mutations, gradients, versions, modes, errors.

    python tests/e2e/hit_cases.py BACKEND

Runs each twice through torch.compile(backend=BACKEND) and prints what could be seen of it, as JSON: values, gradients,
which tensors share a storage or are the same, versions, flags, modes, errors. BACKEND may be "none": the function
itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass
class Case:
    """`f` is compiled, and called twice with fresh `inputs()`."""

    f: Callable[..., Any]
    inputs: Callable[[], list[Any]]
    loss: Callable[[list[Tensor]], Tensor] | None = None
    module: nn.Module | None = None
    context: Callable[[], Any] = contextlib.nullcontext


CASES: dict[str, Callable[[], Case]] = {}
BEHAVIOURS: dict[str, Callable[[Callable[..., Any]], Any]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def behaviour(run: Callable[[Callable[..., Any]], Any]) -> Callable[[Callable[..., Any]], Any]:
    """`run(compile)`: what it returns or raises is what is seen."""
    BEHAVIOURS[run.__name__] = run
    return run


def weighted(outputs: list[Tensor]) -> Tensor:
    """A loss in which every element has a weight of its own."""
    terms = [
        (t.float() * torch.arange(1, t.numel() + 1).view(t.shape).float().cos()).sum()
        for t in outputs
        if isinstance(t, Tensor) and t.requires_grad
    ]
    return sum(terms[1:], terms[0]) if terms else torch.zeros(())


def leaf(*sizes: int) -> Tensor:
    return torch.randn(*sizes, requires_grad=True)


def inner(*sizes: int) -> Tensor:
    """Requires grad, and is no leaf."""
    x = leaf(*sizes)
    y = x * 1.0
    y.leaf = x  # type: ignore[attr-defined]
    return y


def trains(f: Callable[..., Any], inputs: Callable[[], list[Any]], **kw: Any) -> Case:
    return Case(f, inputs, weighted, **kw)


class Net(nn.Module):
    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm: nn.Module = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.second = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.norm(self.first(x))))


# --- plain calls and modules ---


@case
def plain() -> Case:
    return trains(lambda x, w: torch.tanh(x @ w).sum(0), lambda: [leaf(3, 4), leaf(4, 5)])


@case
def parameters() -> Case:
    net = Net()
    return trains(net, lambda: [torch.randn(5, 8)], module=net)


@case
def batch_norm_in_training() -> Case:
    net = Net(norm=True)
    return trains(net, lambda: [torch.randn(5, 8)], module=net)


@case
def batch_norm_in_evaluation() -> Case:
    net = Net(norm=True).eval()
    return Case(net, lambda: [torch.randn(5, 8)], module=net, context=torch.no_grad)


@case
def dropout() -> Case:
    net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 2))
    return trains(net, lambda: [leaf(5, 8)], module=net)


@case
def channels_last() -> Case:
    net = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    return trains(net, lambda: [torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)], module=net)


# --- mutations ---


@case
def mutates_data() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    return trains(f, lambda: [torch.randn(3, 4), leaf(3, 4)])


@case
def mutates_what_requires_grad() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x * 2

    return trains(f, lambda: [inner(3, 4), leaf(3, 4)])


@case
def mutates_a_leaf_without_grad_mode() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            x.mul_(2)
        return x * y

    return trains(f, lambda: [leaf(3, 4), leaf(3, 4)])


@case
def mutates_a_detached_leaf() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.detach().mul_(2)
        return x * y

    return trains(f, lambda: [leaf(3, 4), leaf(3, 4)])


@case
def mutates_and_returns_nothing() -> Case:
    def f(x: Tensor) -> None:
        x.add_(1)

    return Case(f, lambda: [torch.randn(3, 4)])


@case
def mutates_sizes() -> Case:
    def f(x: Tensor) -> Tensor:
        x.t_()
        return x * 2

    return Case(f, lambda: [torch.randn(3, 4)])


@case
def mutates_sizes_in_training() -> Case:
    def f(x: Tensor, w: Tensor) -> Tensor:
        x.t_()
        return x @ w

    return trains(f, lambda: [torch.randn(3, 4), leaf(3, 2)])


@case
def replaces_a_storage() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.set_(y.clone())  # type: ignore[call-overload]
        return x * 2

    return Case(f, lambda: [torch.randn(4), torch.randn(4)])


@case
def mutates_and_returns_views() -> Case:
    def f(x: Tensor, y: Tensor) -> Any:
        x.add_(1)
        return x, x.view(-1), x * y

    return trains(f, lambda: [torch.randn(3, 4), leaf(3, 4)])


@case
def mutates_what_requires_grad_and_returns_views() -> Case:
    def f(x: Tensor) -> Any:
        x.mul_(2)
        return x.view(-1), x

    return trains(f, lambda: [inner(3, 4)])


@case
def writes_into_an_intermediate() -> Case:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        y[0] = 1.5
        return y.sin()

    return trains(f, lambda: [leaf(3, 4)])


# --- aliases ---


@case
def views_of_an_input() -> Case:
    return trains(lambda x, y: (x.view(-1)[2:7], x.t(), x * y), lambda: [leaf(3, 4), leaf(3, 4)])


@case
def views_of_an_input_without_gradients() -> Case:
    return Case(lambda x: (x.view(-1), x + 1), lambda: [torch.randn(3, 4)])


@case
def more_kinds_of_views() -> Case:
    def f(x: Tensor) -> Any:
        return (
            x.unsqueeze(0).expand(2, 3, 4), x[:, ::2], x.split(2, 1), x.unbind(0)[1], x.as_strided((2, 2), (1, 4)),
            x.permute(1, 0), x.diagonal(), x[None], x.unfold(1, 2, 1), x.sin(),
        )  # fmt: skip

    return trains(
        lambda x: [y for item in f(x) for y in (item if isinstance(item, tuple) else [item])], lambda: [leaf(3, 4)]
    )


@case
def a_view_of_an_inner_input() -> Case:
    return trains(lambda x: (x.view(-1), x.sin()), lambda: [inner(3, 4)])


@case
def a_detached_view() -> Case:
    return trains(lambda x: (x.detach().view(-1), x.sin()), lambda: [leaf(3, 4)])


@case
def an_input_itself() -> Case:
    return trains(lambda x, y: (x, x * y), lambda: [leaf(3, 4), leaf(3, 4)])


@case
def views_of_an_intermediate() -> Case:
    def f(x: Tensor) -> Any:
        z = x.sin()
        return z.t(), z.view(-1)

    return trains(f, lambda: [leaf(3, 4)])


@case
def views_of_an_output() -> Case:
    def f(x: Tensor) -> Any:
        z = x.sin()
        return z, z.t(), z[1:]

    return trains(f, lambda: [leaf(3, 4)])


@case
def one_view_of_an_intermediate() -> Case:
    return trains(lambda x: x.sin().view(-1), lambda: [leaf(3, 4)])


@case
def an_output_twice() -> Case:
    def f(x: Tensor) -> Any:
        z = x.sin()
        return z, z

    return trains(f, lambda: [leaf(3, 4)])


@case
def an_expanded_output() -> Case:
    return trains(lambda x: (x.sum(0, keepdim=True).expand(3, 4), x * 2), lambda: [leaf(3, 4)])


@case
def the_same_input_twice() -> Case:
    def inputs() -> list[Any]:
        x = leaf(3, 4)
        return [x, x]

    return trains(lambda x, y: x * y + x, inputs)


@case
def the_same_input_twice_mutated() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    def inputs() -> list[Any]:
        x = torch.randn(3, 4)
        return [x, x]

    return Case(f, inputs)


@case
def an_input_and_its_view() -> Case:
    def inputs() -> list[Any]:
        x = torch.randn(4, 4)
        return [x, x.view(-1)[:4]]

    return Case(lambda x, y: x * 2 + y, inputs)


@case
def an_input_and_its_view_mutated() -> Case:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return y + 1

    def inputs() -> list[Any]:
        x = torch.randn(4, 4)
        return [x, x.view(-1)[:4]]

    return Case(f, inputs)


# --- what outputs are ---


@case
def outputs_that_are_no_floats() -> Case:
    def f(x: Tensor) -> Any:
        values, indices = x.max(dim=1)
        return values, indices, x.shape[0], x > 0

    return trains(f, lambda: [leaf(3, 4)])


@case
def outputs_without_gradients() -> Case:
    return trains(lambda x, y: (x * 2, y * 3, x.detach() + 1), lambda: [leaf(3, 4), torch.randn(3, 4)])


@case
def an_output_that_the_loss_leaves_out() -> Case:
    return Case(lambda x: (x.sin(), x.exp(), x.cos()), lambda: [leaf(3, 4)], lambda o: (o[1] * 2).sum())


@case
def a_transposed_tangent() -> Case:
    def loss(outputs: list[Tensor]) -> Tensor:
        return (outputs[0].t() @ torch.ones(3, 2)).sum() + outputs[1].sum()

    return Case(lambda x: (x.sin(), x.exp()), lambda: [leaf(3, 4)], loss)


@case
def an_input_that_no_gradient_reaches() -> Case:
    return trains(lambda x, y: x.detach() * 2 + y, lambda: [inner(3, 4), leaf(3, 4)])


# --- dynamic sizes ---


def dynamic(*sizes: int) -> Tensor:
    x = leaf(*sizes)
    torch._dynamo.mark_dynamic(x, 0)
    return x


@case
def sizes_as_outputs() -> Case:
    def f(x: Tensor, w: Tensor) -> Any:
        h = (x @ w).relu()
        return h.view(-1), h.sum() / x.shape[0], x.shape[0] * 2

    return trains(f, lambda: [dynamic(6, 4), leaf(4, 5)])


@case
def views_of_dynamic_size() -> Case:
    return trains(lambda x, y: (x.view(-1), x.t(), x * y), lambda: [dynamic(6, 4), dynamic(6, 4)])


# --- modes ---


@case
def no_grad_within() -> Case:
    net = Net()

    def f(x: Tensor) -> Tensor:
        with torch.no_grad():
            return net(x)

    return trains(f, lambda: [torch.randn(5, 8)], module=net)


@case
def turns_grad_mode_off() -> Case:
    def f(x: Tensor) -> Any:
        y = x * 2
        torch._C._set_grad_enabled(False)
        return y, y.sin()

    return trains(f, lambda: [leaf(3, 4)])


@case
def enables_grad_within_no_grad() -> Case:
    def f(x: Tensor) -> Any:
        with torch.enable_grad():
            y = x.sin()
        return y, x * 2

    return trains(f, lambda: [leaf(3, 4)], context=torch.no_grad)


def bfloat16() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


@case
def autocast_within() -> Case:
    net = Net()

    def f(x: Tensor) -> Tensor:
        with bfloat16():
            return net(x)

    return trains(f, lambda: [leaf(5, 8)], module=net)


@case
def autocast_around() -> Case:
    net = Net()
    return trains(net, lambda: [leaf(5, 8)], module=net, context=bfloat16)


# --- higher-order operators ---


@case
def a_checkpoint() -> Case:
    net = Net()
    return trains(lambda x: checkpoint(net, x, use_reentrant=False), lambda: [leaf(5, 8)], module=net)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return g * 3 * x


@case
def a_function_with_its_own_gradient() -> Case:
    return trains(lambda x: Square.apply(x) + 1, lambda: [leaf(3, 4)])


@case
def complex_numbers_within() -> Case:
    return trains(lambda x: torch.fft.rfft(x).abs(), lambda: [leaf(3, 8)])


@case
def attention() -> Case:
    return trains(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: [leaf(2, 2, 5, 8) for _ in "qkv"],
    )


# --- what autograd promises ---


def product(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).sin()


def pair() -> tuple[Tensor, Tensor]:
    return leaf(3, 4), leaf(4, 5)


@behaviour
def a_saved_input_is_changed(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    out = compile(product)(x, w)
    with torch.no_grad():
        w.add_(1)
    out.sum().backward()


@behaviour
def a_saved_input_without_grad_is_changed(compile: Callable[..., Any]) -> Any:
    x, w = torch.randn(3, 4), leaf(4, 5)
    out = compile(product)(x, w)
    x.add_(1)
    out.sum().backward()


@behaviour
def a_saved_output_is_changed(compile: Callable[..., Any]) -> Any:
    out = compile(lambda x: x.sigmoid())(leaf(3, 4))
    out.add_(1)
    out.sum().backward()


@behaviour
def an_output_that_is_not_saved_is_changed(compile: Callable[..., Any]) -> Any:
    x = leaf(3, 4)
    out = compile(lambda x: x * 2)(x)
    out.mul_(3)
    out.sum().backward()
    return x.grad.tolist()


@behaviour
def a_second_backward(compile: Callable[..., Any]) -> Any:
    out = compile(product)(*pair()).sum()
    out.backward()
    out.backward()


@behaviour
def a_graph_that_is_kept(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    out = compile(product)(x, w).sum()
    out.backward(retain_graph=True)
    first = x.grad.clone()
    out.backward()
    return torch.equal(x.grad, first * 2)


@behaviour
def a_double_backward(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    out = compile(product)(x, w).sum()
    (g,) = torch.autograd.grad(out, x, create_graph=True)
    g.sum().backward()


@behaviour
def create_graph_alone(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    (g,) = torch.autograd.grad(compile(product)(x, w).sum(), x, create_graph=True)
    return g.requires_grad


@behaviour
def hooks(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    seen: list[str] = []
    w.register_hook(lambda g: seen.append("gradient") or g * 2)
    w.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    out = compile(product)(x, w)
    out.register_hook(lambda g: seen.append("output"))
    out.sum().backward()
    return seen


@behaviour
def gradients_of_some_inputs(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    compile(product)(x, w).sum().backward(inputs=[w])
    return x.grad is None, w.grad is not None


@behaviour
def saved_tensors_hooks(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    calls = [0, 0]

    def pack(t: Tensor) -> Tensor:
        calls[0] += 1
        return t

    def unpack(t: Tensor) -> Tensor:
        calls[1] += 1
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        out = compile(product)(x, w)
    out.sum().backward()
    return calls[0] > 0, calls[1] > 0


@behaviour
def memory_is_given_back_without_a_collection(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    compiled = compile(lambda x, w: (x @ w).exp())
    compiled(x, w)
    gc.collect()
    gc.disable()
    try:
        out = compiled(x, w)
        alive = weakref.ref(out)
        del out
        return alive() is None
    finally:
        gc.enable()


@behaviour
def a_backward_in_another_thread(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    thread = threading.Thread(target=compile(product)(x, w).sum().backward)
    thread.start()
    thread.join()
    return x.grad is not None


@behaviour
def a_checkpoint_around(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    checkpoint(compile(product), x, w, use_reentrant=False).sum().backward()
    return x.grad is not None


@behaviour
def compiled_autograd(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    out = compile(product)(x, w).sum()
    with torch._dynamo.compiled_autograd._enable(lambda g: torch.compile(g, backend="eager")):
        out.backward()
    return x.grad is not None


@behaviour
def a_functional_gradient_around(compile: Callable[..., Any]) -> Any:
    compiled, w = compile(product), torch.randn(4, 5)
    return list(torch.func.grad(lambda x: compiled(x, w).sum())(torch.randn(3, 4)).shape)


@behaviour
def an_output_without_a_tangent(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    _, out = compile(lambda x, w: (x @ w, x * 2))(x, w)
    out.sum().backward()
    return x.grad.tolist()


@behaviour
def inference_mode(compile: Callable[..., Any]) -> Any:
    with torch.inference_mode():
        out = compile(product)(torch.randn(3, 4), torch.randn(4, 5))
    return out.is_inference(), out.requires_grad


@behaviour
def autocast_in_the_backward(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    out = compile(product)(x, w)
    with bfloat16():
        out.sum().backward()
    return str(x.grad.dtype)


@behaviour
def deterministic_after_the_forward(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    out = compile(product)(x, w)
    torch.use_deterministic_algorithms(True)
    try:
        out.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


@behaviour
def an_input_that_stops_requiring_grad(compile: Callable[..., Any]) -> Any:
    x, w = pair()
    compiled = compile(product)
    compiled(x, w)
    compiled(x.detach(), w).sum().backward()
    return x.grad is None, w.grad is not None


# --- what can be seen ---


def _numbers(t: Tensor) -> Any:
    t = t.detach()
    if t.is_complex():
        t = torch.view_as_real(t)
    return t.double().tolist() if t.dtype is not torch.bool else t.tolist()


def _described(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return repr(value)
    return [list(value.shape), list(value.stride()), str(value.dtype), value.requires_grad, value.is_leaf]


def _sharing(tensors: list[Tensor]) -> Any:
    storages: dict[int, int] = {}
    shared = [storages.setdefault(t.untyped_storage().data_ptr(), len(storages)) for t in tensors]
    return [shared, [[a is b for b in tensors] for a in tensors]]


def seen(f: Callable[..., Any], case: Case) -> dict[str, Any]:
    """Of one call and its backward."""
    inputs = case.inputs()
    leaves = [getattr(t, "leaf", t) for t in inputs]
    versions = [t._version for t in inputs]
    result: dict[str, Any] = {}
    with case.context():
        returned = f(*inputs)
        result["grad mode"] = torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    tensors = [t for t in outputs if isinstance(t, Tensor)]
    result["sharing"] = _sharing([*inputs, *tensors])
    result["views"] = [t._base is not None for t in tensors]
    result["outputs"] = [_described(t) for t in outputs]
    result["inputs"] = [_described(t) for t in inputs]
    result["versions"] = [t._version - before for t, before in zip(inputs, versions, strict=True)]
    result["values"] = [_numbers(t) for t in [*tensors, *inputs]]
    if case.loss is not None:
        loss = case.loss(outputs)
        if loss.requires_grad:
            loss.backward()
    result["gradients"] = [None if t.grad is None else _numbers(t.grad) for t in leaves]
    if case.module is not None:
        result["parameters"] = [None if p.grad is None else _numbers(p.grad) for p in case.module.parameters()]
        result["buffers"] = [_numbers(b) for b in case.module.buffers()]
        case.module.zero_grad()
    return result


def main() -> None:
    warnings.filterwarnings("ignore")
    backend = sys.argv[1]
    import kiln

    def compile(f: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()
        options = {"options": {"strict": True}} if backend == "kiln" else {}
        return f if backend == "none" else torch.compile(f, backend=backend, **options)

    results: dict[str, Any] = {}
    for name, make in CASES.items():
        torch.manual_seed(0)
        kiln.reset()
        case = make()
        compiled = compile(case.f)
        calls: list[Any] = []
        for _ in range(2):
            try:
                calls.append(seen(compiled, case))
            except Exception as e:
                calls.append(_error(e))
            torch._C._set_grad_enabled(True)
        results[name] = {"calls": calls, "outcomes": [g.outcome for g in kiln.graphs()]}
    for name, run in BEHAVIOURS.items():
        torch.manual_seed(0)
        kiln.reset()
        try:
            answer = run(compile)
        except Exception as e:
            answer = _error(e)
        results[name] = {"calls": [answer], "outcomes": [g.outcome for g in kiln.graphs()]}
    json.dump(results, sys.stdout)


def _error(e: Exception) -> str:
    return f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"


if __name__ == "__main__":
    main()
