"""kiln.explain: what is said of a call."""

from __future__ import annotations

import warnings
from pathlib import Path

import kiln
import torch
from kiln.testing import Daemon


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2 + 1
    torch._dynamo.graph_break()
    return torch.nn.functional.layer_norm(y @ y.t(), (64,))


def test_graphs_breaks_and_bytes(daemon: Daemon) -> None:
    kiln.reset()
    x = torch.randn(64, 32)
    for lookups in (["not in the cache"] * 2, ["hit"] * 2):
        found = kiln.explain(broken, server=daemon.address, strict=True)(x)
        assert [g.served.lookup for g in found.graphs] == lookups
    first, second = found.graphs
    assert (first.nodes, len(first.served.kernels), first.served.external_calls) == (3, 1, {})
    assert second.served.external_calls == {"aten.mm.default": 1}
    # One kernel reads x and writes the result; three operators would each do that.
    assert (first.bytes_moved, first.bytes_unfused) == (2 * 64 * 32 * 4, 3 * 2 * 64 * 32 * 4)
    assert second.bytes_moved is not None and second.bytes_unfused is not None
    assert second.bytes_moved < second.bytes_unfused
    (at,) = found.breaks
    assert Path(at.file).name == Path(__file__).name
    assert "graph_break" in at.reason or "graph break" in at.reason.lower()
    assert at.line == broken.__code__.co_firstlineno + 2
    assert any("TENSOR_MATCH" in guard for guard in found.guards)
    assert found.fallbacks == []
    text = str(found)
    assert text.startswith("graphs: 2, graph breaks: 1, recompiles: 0, guards: ")
    assert "look-up: hit; code: hit" in text
    assert f"graph break at {__file__}:{at.line}" in text


def test_recompiles_and_fallbacks_have_reasons(daemon: Daemon) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x.cos() + 1

    def two_sizes(x: torch.Tensor) -> torch.Tensor:
        return f(x).sum() + f(x[1:]).sum()

    found = kiln.explain(two_sizes, server=daemon.address)(torch.randn(8, 4))
    assert any("size" in reason for reason in found.recompiles)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kiln.KilnWarning)
        complex_ = kiln.explain(lambda x: x * 2, server=daemon.address)(torch.randn(4, dtype=torch.complex64).conj())
    assert len(complex_.fallbacks) == 1
    assert "conjugate" in complex_.fallbacks[0]
    assert "runs through the fallback: " in str(complex_)
