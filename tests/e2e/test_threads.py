"""The number of threads does not change a bit: kernels of every schedule, with 1, 2 and 4 threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import kiln
import pytest
import torch
from torch.nn import functional as F

R = torch.randn


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _gradients(f: Callable[..., torch.Tensor], args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [a.detach().clone().requires_grad_() for a in args]
    out = f(*leaves)
    out.sum().backward()
    return [out.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]


CASES: dict[str, tuple[Callable[..., torch.Tensor], Sequence[torch.Tensor]]] = {
    "pointwise": (lambda x, y: F.gelu(x) * y + x, (R(300, 700), R(300, 700))),
    "transposed": (lambda x, y: x.t() * y, (R(301, 203), R(203, 301))),
    "rows": (lambda x: torch.softmax(x, -1), (R(500, 301),)),
    "norm": (lambda x, w, b: F.layer_norm(x, (300,), w, b), (R(400, 300), R(300), R(300))),
    "columns": (lambda x: (x * x).sum(0), (R(3000, 130),)),
    "few columns": (lambda x: torch.softmax(x, 0), (R(40, 1000),)),
    "whole": (lambda x: x.exp().mean(), (R(3, 70001),)),
    "long rows": (lambda x: torch.softmax(x, -1), (R(2, 90001),)),
    "batch": (lambda x: F.relu(F.batch_norm(x, None, None, training=True)), (R(8, 20, 31, 31),)),
    "loss": (lambda x: F.cross_entropy(x, torch.arange(300) % 1000), (R(300, 1000),)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("server")
def test_same_bits(name: str) -> None:
    function, args = CASES[name]
    compiled = torch.compile(function, backend="kiln", dynamic=False)
    results: list[Any] = []
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        results.append(_gradients(compiled, args))
    assert kiln.counters()["launches"] > 0
    for other in results[1:]:
        for one, more in zip(results[0], other, strict=True):
            assert torch.equal(one, more)
    for actual, expected in zip(results[0], _gradients(function, args), strict=True):
        torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-5)
