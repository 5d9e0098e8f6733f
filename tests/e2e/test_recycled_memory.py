"""The memory of outputs and saved values is used again, and nothing else changes."""

from __future__ import annotations

from typing import Any

import kiln
import pytest
import torch
from kiln.testing import Daemon, run_script

pytestmark = pytest.mark.usefixtures("server")


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(64, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 4)
    )


def train(model: torch.nn.Module, call: Any, steps: int, retain: bool) -> list[torch.Tensor]:
    """Everything that a step gives, of all steps, kept till the end."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(256, 64, generator=generator).requires_grad_()
        y = call(x)
        loss = y.square().mean()
        optimizer.zero_grad()
        if retain:  # the saved values are read twice, with other work in between
            loss.backward(retain_graph=True)
            call(torch.zeros(256, 64)).sum().backward()
            optimizer.zero_grad()
            x.grad = None
        loss.backward()
        kept += [y.detach(), x.grad, *(p.grad for p in model.parameters())]
        optimizer.step()
    return kept


@pytest.mark.parametrize("retain", [False, True])
def test_training_is_as_in_eager_mode(retain: bool) -> None:
    eager, model = network(), network()
    want = train(eager, eager, 4, retain)
    got = train(model, torch.compile(model, backend="kiln", dynamic=False), 4, retain)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    recycled = kiln.counters()["recycled"]
    assert recycled["reused"] > 0 and recycled["bytes"] >= recycled["idle_bytes"] >= 0


def test_two_graphs_that_are_alive_at_once() -> None:
    """A forward's saved values stay as they are while the same function runs forward again."""
    eager, model = network(), network()
    compiled = torch.compile(model, backend="kiln", dynamic=False)
    xs = [torch.randn(256, 64) for _ in range(5)]
    for call in (eager, compiled):
        call(xs[0]).sum().backward()  # something to use again
    losses = [(eager(x).square().sum(), compiled(x).square().sum()) for x in xs]
    for want, got in reversed(losses):
        eager.zero_grad(), model.zero_grad()
        want.backward(), got.backward()
        for p, q in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-3)


def test_off_by_option() -> None:
    kiln.trim()
    f = torch.compile(lambda x: x * 2, backend="kiln", dynamic=False, options={"recycle_outputs": False})
    for i in range(3):
        assert torch.equal(f(torch.full((1 << 16,), float(i))), torch.full((1 << 16,), 2.0 * i))
    assert kiln.counters()["recycled"]["reused"] == 0
    assert kiln.trim() == 0


def test_off_by_environment(server: Daemon) -> None:
    script = """
    import torch, kiln
    f = torch.compile(lambda x: x * 2, backend="kiln", dynamic=False)
    for i in range(4):
        y = f(torch.full((1 << 16,), float(i)))
    result = kiln.counters()["recycled"]
    """
    env = {"KILN_SERVER": server.address, "KILN_STRICT": "1"}
    size = 4 << 16
    assert run_script(script, env=env) == {"bytes": 2 * size, "idle_bytes": size, "reused": 2, "fresh": 2}
    off = {"bytes": 0, "idle_bytes": 0, "reused": 0, "fresh": 0}
    assert run_script(script, env={**env, "KILN_RECYCLE_OUTPUTS": "0"}) == off
    assert run_script(script, env={**env, "KILN_RECYCLE_BYTES": "1000"})["bytes"] == 0


def test_saved_values_are_given_back_as_the_backward_goes(server: Daemon) -> None:
    """Unless the graph is kept: then a second backward reads them."""
    script = """
    import torch, kiln
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(256, 256), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers)
    call = torch.compile(model, backend="kiln", dynamic=False)
    x = torch.randn(256, 256)
    call(x).sum().backward()
    result = []
    for keep in (False, True):
        model.zero_grad()
        y = call(x).sum()
        kiln.trim(), kiln.reset()
        y.backward(retain_graph=keep)
        result.append(kiln.counters()["recycled"]["fresh"])
    first = [p.grad.clone() for p in model.parameters()]
    y.backward()
    result.append(all(torch.equal(p.grad, 2 * g) for p, g in zip(model.parameters(), first)))
    """
    given_back, kept, twice = run_script(script, env={"KILN_SERVER": server.address, "KILN_STRICT": "1"})
    assert (given_back, twice) == (kept - 5, True)  # gradients stand where activations were
