"""Averages over windows and moved pixels in generated kernels: eager's values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kiln
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.judge import assert_as_good

pytestmark = pytest.mark.usefixtures("server")

WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": (2, 3), "stride": (3, 2), "ceil_mode": True},
    {"kernel_size": (5, 1), "stride": 2, "padding": (2, 0), "ceil_mode": True, "divisor_override": 7},
]


def _check(f: Callable[[Tensor], Tensor], x: Tensor) -> None:
    def run(f: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
        x = x.detach().requires_grad_()
        out = f(x)
        (grad,) = torch.autograd.grad(out, x, torch.linspace(-1, 2, out.numel(), dtype=x.dtype).view(out.shape))
        return [out.detach(), grad]

    actual = run(torch.compile(f, backend="kiln", dynamic=False), x)
    for a, e, exact in zip(actual, run(f, x), run(f, x.double()), strict=True):
        assert_as_good(a, e, exact)
    assert kiln.counters()["external_calls"] == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_average_pool(windows: dict[str, Any], dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 9, 11).to(dtype)
    _check(lambda x: F.avg_pool2d(x, **windows), x)
    _check(lambda x: F.avg_pool2d(x, **windows), x.contiguous(memory_format=torch.channels_last))
    _check(lambda x: F.avg_pool2d(x, **windows), x[0])


def test_pixel_shuffle_and_back() -> None:
    _check(lambda x: F.pixel_shuffle(x, 3), torch.randn(2, 18, 3, 5))
    _check(lambda x: F.pixel_unshuffle(x, 2), torch.randn(2, 3, 4, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_gradients_that_need_little(layout: torch.memory_format, dtype: torch.dtype) -> None:
    """Of a relu its sign, of a maximum where it was: bools and 16-bit indices are saved; gradients keep their bits."""

    def f(x: Tensor) -> Tensor:
        return F.max_pool2d(F.leaky_relu(F.relu6(F.relu(x - 1) * 4)), 3, 2, 1)

    x = torch.randn(2, 3, 9, 11).to(dtype).contiguous(memory_format=layout)
    _same_bits(f, x)
    _same_bits(lambda x: F.relu(x).sum(0), x)
    _same_bits(lambda x: F.max_pool2d(x, 2, 1), x.float()[0])


def _same_bits(f: Callable[[Tensor], Tensor], x: Tensor) -> None:
    def gradient(f: Callable[[Tensor], Tensor]) -> Tensor:
        at = x.detach().requires_grad_()
        out = f(at)
        return torch.autograd.grad(out, at, torch.linspace(-1, 2, out.numel(), dtype=x.dtype).view(out.shape))[0]

    torch.testing.assert_close(gradient(torch.compile(f, backend="kiln", dynamic=False)), gradient(f), rtol=0, atol=0)
