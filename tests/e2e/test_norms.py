"""Batch, group and RMS norms, variances and losses: kernels with eager's values and gradients, or as near to fp64."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import kiln
import pytest
import torch
from kiln import session
from kiln.capture import capture_inference
from kiln.options import Options
from kiln.proto import compile_pb2
from kiln.testing import Daemon
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from tests.judge import assert_as_good

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LOW = [torch.bfloat16, torch.float16]
SHAPES = [(5, 6, 7, 3), (2, 6, 1, 1), (9, 6), (3, 6, 17), (2, 6, 3, 5, 4)]

pytestmark = pytest.mark.usefixtures("server")


def _flat(out: Any) -> list[Tensor]:
    return list(out) if isinstance(out, tuple) else [out]


def _results(f: Callable[..., Any], args: Sequence[Tensor], backward: bool) -> list[Tensor]:
    """The results, and the gradients of the floating-point arguments."""
    leaves = [a.detach().clone().requires_grad_(backward and a.is_floating_point()) for a in args]
    results = _flat(f(*leaves))
    wanted = [r for r in results if r.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape) for r in wanted])
    return [r.detach() for r in results] + [leaf.grad for leaf in leaves if leaf.grad is not None]


def _check(f: Callable[..., Any], *args: Tensor, backward: bool = True, dynamic: bool = False) -> dict[str, Any]:
    actual = _results(torch.compile(f, backend="kiln", dynamic=dynamic), args, backward)
    expected = _results(f, args, backward)
    exact = _results(f, [a.double() if a.is_floating_point() else a for a in args], backward)
    for a, e, x in zip(actual, expected, exact, strict=True):
        assert_as_good(a, e, x)
    return kiln.counters()


def _check_in_kernels(f: Callable[..., Any], *args: Tensor, **how: Any) -> None:
    counters = _check(f, *args, **how)
    assert counters["external_calls"] == {}
    assert counters["launches"] > 0


def _batch_norm(training: bool) -> Callable[..., Any]:
    def f(x: Tensor, mean: Tensor, var: Tensor, *parameters: Tensor) -> Any:
        mean, var = mean.detach().clone(), var.detach().abs()
        return F.batch_norm(x, mean, var, *parameters, training=training, momentum=0.3), mean, var

    return f


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm(shape: tuple[int, ...], training: bool, dtype: torch.dtype) -> None:
    x = torch.randn(shape).mul(2).add(0.5).to(dtype)
    _check_in_kernels(_batch_norm(training), x, *[torch.randn(6, dtype=dtype) for _ in range(4)])


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_batch_norm_with_parameters_in_f32(training: bool, dtype: torch.dtype) -> None:
    x = torch.randn(4, 6, 5, 3).to(dtype)
    _check_in_kernels(_batch_norm(training), x, *[torch.randn(6) for _ in range(4)])


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_batch_norm_of_channels_last(training: bool, affine: bool) -> None:
    x = torch.randn(4, 6, 5, 3).contiguous(memory_format=torch.channels_last)
    statistics = [torch.randn(6), torch.randn(6)]
    parameters = [torch.randn(6), torch.randn(6)] if affine else []
    _check_in_kernels(_batch_norm(training), x, *statistics, *parameters)


def test_batch_norm_far_from_zero() -> None:
    _check_in_kernels(_batch_norm(True), torch.randn(64, 6, 9, 9) + 300, *[torch.randn(6) for _ in range(4)])


def test_batch_norm_of_any_batch_size() -> None:
    f = _batch_norm(True)
    for size in (3, 5):
        args = [torch.randn(size, 6, 4, 4), *[torch.randn(6) for _ in range(4)]]
        _check_in_kernels(f, *args, dynamic=True)


def test_running_statistics_are_updated_in_place() -> None:
    """Over some steps, then used in evaluation."""
    module, expected = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    compiled = torch.compile(module, backend="kiln")
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5) * 2 + 1
        torch.testing.assert_close(compiled(x), expected(x))
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], value)
    torch.testing.assert_close(compiled.eval()(x), expected.eval()(x))
    assert kiln.counters()["external_calls"] == {}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_instance_norm(dtype: torch.dtype) -> None:
    weight, bias = torch.randn(3, dtype=dtype), torch.randn(3, dtype=dtype)
    _check_in_kernels(
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b), torch.randn(2, 3, 7, 5).to(dtype), weight, bias
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_group_norm(shape: tuple[int, ...], groups: int, dtype: torch.dtype) -> None:
    x, weight, bias = torch.randn(shape).to(dtype), torch.randn(6, dtype=dtype), torch.randn(6, dtype=dtype)
    _check_in_kernels(lambda x, w, b: F.group_norm(x, groups, w, b), x, weight, bias)


def test_group_norm_of_other_layouts() -> None:
    x = torch.randn(4, 6, 5, 3)
    for memory in (x.contiguous(memory_format=torch.channels_last), x.transpose(0, 2).contiguous().transpose(0, 2)):
        _check_in_kernels(lambda x: F.group_norm(x, 3), memory)


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_group_norm_with_parameters_in_f32(dtype: torch.dtype) -> None:
    _check_in_kernels(
        lambda x, w, b: F.group_norm(x, 2, w, b), torch.randn(3, 6, 5).to(dtype), torch.randn(6), torch.randn(6)
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(weighted: bool, dtype: torch.dtype) -> None:
    weight = [torch.randn(33, dtype=dtype)] if weighted else []
    _check_in_kernels(lambda x, *w: F.rms_norm(x, (33,), *w), torch.randn(5, 33).to(dtype), *weight)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", [torch.var, torch.std, torch.var_mean, torch.std_mean])
def test_variances(function: Any, dtype: torch.dtype) -> None:
    x = torch.randn(5, 7, 33).add(3).to(dtype)
    for how in ({}, {"dim": 1}, {"dim": (0, 2), "correction": 0}, {"dim": -1, "keepdim": True, "correction": 3}):
        _check_in_kernels(lambda x, how=how: function(x, **how), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(weighted: bool, reduction: str, dtype: torch.dtype) -> None:
    weight = torch.rand(9).add(0.1).to(dtype) if weighted else None

    def loss(x: Tensor, target: Tensor) -> Tensor:
        chosen = weight.to(x.dtype) if weight is not None else None
        return F.nll_loss(x, target, chosen, reduction=reduction)

    _check_in_kernels(loss, torch.randn(6, 9).to(dtype), torch.tensor([0, 8, 3, -100, 2, 1]))
    _check_in_kernels(loss, torch.randn(2, 9, 3, 5).to(dtype), torch.randint(9, (2, 3, 5)))
    _check_in_kernels(loss, torch.randn(9).to(dtype), torch.tensor(4))


LOSSES: dict[str, Callable[..., Tensor]] = {
    "mse": F.mse_loss,
    "smooth_l1": lambda x, t, **how: F.smooth_l1_loss(x, t, beta=0.7, **how),
    "huber": lambda x, t, **how: F.huber_loss(x, t, delta=0.7, **how),
    "logits": F.binary_cross_entropy_with_logits,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_elements(name: str, reduction: str, dtype: torch.dtype) -> None:
    x, target = torch.randn(7, 33).to(dtype), torch.rand(7, 33).to(dtype)
    _check_in_kernels(lambda x: LOSSES[name](x, target.to(x.dtype), reduction=reduction), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gates_and_sums_of_exponentials(dtype: torch.dtype) -> None:
    x = torch.randn(6, 10).mul(3).to(dtype)
    _check_in_kernels(lambda x: F.glu(x, 0), x)
    _check_in_kernels(lambda x: F.glu(x, -1), x)
    _check_in_kernels(F.logsigmoid, x)
    _check_in_kernels(lambda x: torch.logsumexp(x, 1), x)
    _check_in_kernels(lambda x: torch.logsumexp(x, (0, 1), keepdim=True), x)
    infinite = torch.full((3, 4), -float("inf"), dtype=dtype)
    _check_in_kernels(lambda x: torch.logsumexp(x, 1), infinite, backward=False)


def test_cross_entropy_of_pixels(server: Daemon) -> None:
    _check_in_kernels(F.cross_entropy, torch.randn(2, 5, 4, 3), torch.randint(5, (2, 4, 3)))


def _run_op(target: Any, args: Sequence[Any], results: Sequence[Tensor], server: Daemon) -> list[Tensor]:
    """One operator that the CPU has no kernel for, as a graph of its own; `results` are of the types that it gives."""
    mode = FakeTensorMode()
    graph = fx.Graph()
    inputs = []
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor):
            inputs.append(graph.placeholder(f"arg{i}"))
            inputs[-1].meta["val"] = mode.from_tensor(arg)
    supply = iter(inputs)
    call = graph.call_function(target, tuple(next(supply) if isinstance(a, Tensor) else a for a in args))
    call.meta["val"] = tuple(mode.from_tensor(r) for r in results)
    items = [graph.call_function(operator.getitem, (call, i)) for i in range(len(results))]
    for item, value in zip(items, call.meta["val"], strict=True):
        item.meta["val"] = value
    graph.output(tuple(items))
    capture = capture_inference(fx.GraphModule(nn.Module(), graph), None)
    request = compile_pb2.CompileRequest(graph=capture.graph, debug=capture.debug)
    request.options.precision = compile_pb2.Options.EAGER
    compiled = session.compile_graph(request, Options(server=server.address))
    return compiled.functions[0]([a for a in args if isinstance(a, Tensor)])


def _rms_norm(x: Tensor, weight: Tensor, grad: Tensor) -> list[Tensor]:
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    rstd = x.square().mean(-1, keepdim=True).add(1e-5).rsqrt()
    out = x * rstd * weight
    return [out.detach(), rstd.detach(), *torch.autograd.grad(out, (x, weight), grad)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fused_rms_norm(server: Daemon, dtype: torch.dtype) -> None:
    x, weight, grad = torch.randn(7, 33).to(dtype), torch.randn(33).to(dtype), torch.randn(7, 33).to(dtype)
    exact = _rms_norm(*[t.double() for t in (x, weight, grad)])
    out, rstd = _run_op(torch.ops.aten._fused_rms_norm.default, [x, [33], weight, 1e-5], [x, torch.empty(7, 1)], server)
    grads = _run_op(
        torch.ops.aten._fused_rms_norm_backward.default,
        [grad, x, [33], rstd, weight, [True, True]],
        [x, weight],
        server,
    )
    assert kiln.counters()["external_calls"] == {}
    for actual, wanted in zip([out, rstd, *grads], exact, strict=True):
        torch.testing.assert_close(actual, wanted.to(actual.dtype))
