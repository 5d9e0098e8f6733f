"""Networks of convolutions, which the compiler lays out channels-last: eager's results, strides included."""

from __future__ import annotations

import copy

import kiln
import pytest
import torch
from kiln.testing import Daemon
from torch import nn
from torch.nn import functional as F

from tests.judge import assert_as_good

Conv = nn.Conv2d


class UNet(nn.Module):
    def __init__(self, upsampling: str) -> None:
        super().__init__()
        self.down, self.up = Conv(3, 8, 3, padding=1), Conv(24, 8, 3, padding=1)
        self.middle, self.norm = Conv(8, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.upsampling = upsampling

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.relu(self.down(x))
        b = F.relu(self.norm(self.middle(F.max_pool2d(a, 2))))
        return self.up(torch.cat([a, F.interpolate(b, scale_factor=2, mode=self.upsampling)], 1))


class Squeeze(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = Conv(3, 8, 3), Conv(8, 2, 1), Conv(2, 8, 1), Conv(8, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        return self.d(a * torch.sigmoid(self.c(F.relu(self.b(a.mean((2, 3), keepdim=True))))))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.qkv, self.out = Conv(3, 8, 3), Conv(8, 24, 1), Conv(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        n, c, h, w = a.shape
        q, k, v = self.qkv(a).reshape(n, 3, c, h * w).transpose(2, 3).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, c, h, w)
        return self.out(y) + a


NETWORKS = {
    "one channel": lambda: nn.Sequential(
        Conv(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), Conv(8, 1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(25, 10)
    ),
    "group norm": lambda: nn.Sequential(
        Conv(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), Conv(8, 8, 3), nn.GroupNorm(4, 8)
    ),
    "pixel shuffle": lambda: nn.Sequential(Conv(3, 16, 3), nn.PixelShuffle(2), Conv(4, 8, 3), nn.PixelUnshuffle(2)),
    "transposed": lambda: nn.Sequential(
        Conv(3, 8, 3, stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3, stride=2), nn.ReLU(), Conv(4, 4, 1)
    ),
    "depthwise": lambda: nn.Sequential(
        Conv(3, 8, 1), nn.ReLU6(), Conv(8, 8, 3, padding=1, groups=8), nn.Hardswish(), Conv(8, 4, 1)
    ),
    "U": lambda: UNet("nearest"),
    "bilinear": lambda: UNet("bilinear"),
    "squeeze and excite": Squeeze,
    "attention": Attention,
    "weights in channels-last": lambda: nn.Sequential(Conv(3, 8, 3), nn.ReLU(), Conv(8, 8, 3)).to(
        memory_format=torch.channels_last
    ),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, dynamic: bool, daemon: Daemon) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = NETWORKS[name]()
    x = torch.randn(2, 1 if name == "one channel" else 3, 16, 16)
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    kiln.reset()
    options = {"server": daemon.address, "strict": True}
    compiled = torch.compile(model, backend="kiln", dynamic=dynamic, options=options)
    results = []
    for call, module, image in ((compiled, model, x), (eager, eager, x), (exact, exact, x.double())):
        leaf = image.clone().requires_grad_()
        out = call(leaf)
        torch.manual_seed(1)
        out.backward(torch.randn(out.shape).to(out.dtype))
        results.append([out, leaf.grad, *[p.grad for p in module.parameters()]])
    for got, want, true in zip(*results, strict=True):
        assert got.stride() == want.stride()
        assert_as_good(got, want, true)
    assert kiln.counters()["external_calls"]["aten.convolution.default"] >= 2
