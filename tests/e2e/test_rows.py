"""Norms, softmax, losses in generated kernels: eager's values and gradients, or within twice its error against fp64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import kiln
import pytest
import torch
from kiln.testing import Daemon
from torch.nn import functional as F

from tests.judge import assert_as_good

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def _results(f: Callable[..., torch.Tensor], args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The value, and the gradients of the floating-point arguments."""
    leaves = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in args]
    out = f(*leaves)
    out.backward(torch.linspace(-1, 2, out.numel(), dtype=out.dtype).reshape(out.shape))
    return [out.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]


def _check(f: Callable[..., torch.Tensor], *args: torch.Tensor, dynamic: bool = False) -> dict[str, Any]:
    actual = _results(torch.compile(f, backend="kiln", dynamic=dynamic), args)
    expected = _results(f, args)
    exact = _results(f, [a.double() if a.is_floating_point() else a for a in args])
    for a, e, x in zip(actual, expected, exact, strict=True):
        assert a.stride() == e.stride()
        assert_as_good(a, e, x)
    return kiln.counters()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.usefixtures("server")
def test_softmax(function: Any, dim: int, dtype: torch.dtype) -> None:
    counters = _check(lambda x: function(x, dim), torch.randn(5, 7, 33).mul(3).to(dtype))
    assert counters["external_calls"] == {}
    if dim == -1:
        assert counters["launches"] == 2  # forward and backward are a kernel each


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("affine", ["none", "weight", "both"])
@pytest.mark.usefixtures("server")
def test_layer_norm(affine: str, dtype: torch.dtype) -> None:
    count = {"none": 0, "weight": 1, "both": 2}[affine]
    parameters = [torch.randn(33, dtype=dtype) for _ in range(count)]
    counters = _check(lambda x, *p: F.layer_norm(x, (33,), *p), torch.randn(5, 7, 33, dtype=dtype), *parameters)
    assert counters["external_calls"] == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.usefixtures("server")
def test_layer_norm_with_parameters_in_f32(dtype: torch.dtype) -> None:
    """As under autocast."""
    counters = _check(
        lambda x, w, b: F.layer_norm(x, (48,), w, b), torch.randn(64, 48).to(dtype), torch.randn(48), torch.randn(48)
    )
    assert counters["external_calls"] == {}


@pytest.mark.usefixtures("server")
def test_transposed_rows_in_low_precision() -> None:
    norm = torch.nn.LayerNorm(16)
    other = torch.ones(16, 16, dtype=torch.bfloat16)
    f = torch.compile(lambda x: norm(x).transpose(0, 1).bfloat16() @ other, backend="kiln")
    x = torch.randn(4, 7, 16, requires_grad=True)
    f(x).sum().backward()
    actual, x.grad = x.grad, None
    (norm(x).transpose(0, 1).bfloat16() @ other).sum().backward()
    torch.testing.assert_close(actual, x.grad)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.usefixtures("server")
def test_cross_entropy(reduction: str, weighted: bool) -> None:
    target = torch.tensor([0, 8, 3, -100, 2, 1])
    weight = torch.rand(9)

    def loss(x: torch.Tensor) -> torch.Tensor:
        chosen = weight.to(x.dtype) if weighted else None
        return F.cross_entropy(x, target, chosen, reduction=reduction)

    assert _check(loss, torch.randn(6, 9))["external_calls"] == {}


@pytest.mark.usefixtures("server")
def test_edges() -> None:
    masked = torch.tensor([[1.0, -1.0, 2.0], [1.0, 2.0, 3.0]])  # the second row is -inf throughout: NaN
    _check(lambda x: torch.softmax(x.masked_fill(x > 0, -float("inf")), -1), masked)
    ignored = torch.full((6,), -100)
    _check(lambda x: F.cross_entropy(x, ignored), torch.randn(6, 9))  # 0 / 0
    _check(lambda x: F.softmax(x.transpose(0, 1), -1), torch.randn(5, 33))
    target = torch.tensor([0, 8, 3, -100, 2, 1])
    _check(lambda x: F.cross_entropy(x, target), torch.randn(6, 9), dynamic=True)


def test_a_class_out_of_range_raises_as_in_eager(server: Daemon) -> None:
    f = torch.compile(lambda x, t: F.cross_entropy(x, t), backend="kiln")
    with pytest.raises(IndexError, match="out of range"):
        f(torch.randn(2, 3), torch.tensor([0, 3]))
