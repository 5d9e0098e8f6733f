"""Inputs that come to share memory with what a graph writes to, in a later call: torch does not guard on that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kiln
import pytest
import torch
from kiln.testing import Daemon
from torch import Tensor


def _mutate(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return y + 1


def _mutate_in_training(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    x.mul_(2)
    return (y * w).sum() + x.sum()


def _update(buffer: Tensor, y: Tensor, w: Tensor) -> Tensor:
    with torch.no_grad():
        buffer.add_(y)
    return y * w


def _overlapping() -> dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    return {
        "apart": lambda s: (s[:4], s[4:8]),
        "the same": lambda s: (s[:4], s[:4]),
        "shifted": lambda s: (s[:4], s[2:6]),
        "reversed": lambda s: (s[2:6], s[:4]),
        "interleaved": lambda s: (s[0:8:2], s[1:9:2]),
    }


@pytest.mark.parametrize("how", _overlapping())
@pytest.mark.parametrize("second", [False, True], ids=["miss", "hit"])
def test_values_are_eagers(how: str, second: bool, daemon: Daemon) -> None:
    torch._dynamo.reset()
    options = {"server": daemon.address, "strict": True}
    for f, weights in ((_mutate, 0), (_mutate_in_training, 1), (_update, 1)):
        results: list[Any] = []
        for call in (f, torch.compile(f, backend="kiln", dynamic=False, options=options)):
            torch.manual_seed(0)
            w = [torch.randn(4, requires_grad=True) for _ in range(weights)]
            call(torch.randn(4), torch.randn(4), *w)  # compiled for inputs that are apart
            storage = torch.randn(12)
            # Of the same strides and sizes, so that nothing is compiled again.
            x, y = _overlapping()[how](storage)
            x, y = (x, y) if how != "interleaved" else (x.as_strided((4,), (1,)), y.as_strided((4,), (1,), 1))
            try:
                out = call(x, y, *w)
                if out.requires_grad:
                    out.sum().backward()
                results.append([out.detach(), storage, [t.grad for t in w]])
            except RuntimeError as e:  # eager refuses some kinds of overlap
                results.append([str(e).splitlines()[0], storage])
        assert torch.is_grad_enabled()
        eager, compiled = results
        if isinstance(eager[0], str):
            assert compiled.pop(0) == eager.pop(0)
        torch.testing.assert_close(compiled, eager)
    kiln.reset()
