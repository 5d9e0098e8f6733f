"""kiln on a GPU, against eager: what graphs may contain, not every operator. Needs a CUDA device; run.sh runs it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import kiln
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.judge import assert_as_good

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def compiled(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(f, backend="kiln", options={"strict": True, **options})


def R(*sizes: int, dtype: torch.dtype = torch.float32, device: str = "cuda") -> Tensor:
    return torch.randn(*sizes, device=device, dtype=dtype)


def gradients(f: Callable[..., Any], inputs: list[Tensor]) -> tuple[Any, list[Tensor | None]]:
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    out = f(*leaves)
    out.square().mean().backward()
    return out.detach(), [x.grad for x in leaves]


TRAINED: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]]]] = {
    "gelu of a linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda: [R(64, 96), R(128, 96), R(128)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (320,), w, b), lambda: [R(33, 320), R(320), R(320)]),
    "softmax": (lambda x: torch.softmax(x, -1), lambda: [R(37, 1001)]),
    "columns": (lambda x, y: (x * y).sum(0), lambda: [R(1000, 77), R(1000, 77)]),
    "everything": (lambda x: torch.sin(x).sum() * x, lambda: [R(300, 300)]),
    "transposed": (lambda x, y: x.t() + y, lambda: [R(130, 70), R(70, 130)]),
    "views": (lambda x: x.view(8, 4, 16).permute(2, 0, 1).reshape(16, 32) * 2, lambda: [R(32, 16)]),
    "joined": (lambda x, y: torch.cat([x, y * 2, x[:, :3]], 1), lambda: [R(9, 17), R(9, 5)]),
    "convolution": (
        lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
        lambda: [R(2, 8, 14, 14), R(16, 8, 3, 3)],
    ),
    "embedding": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: [torch.randint(50, (7, 11), device="cuda"), R(50, 24)],
    ),
    "cross entropy": (
        lambda x, t: F.cross_entropy(x, t),
        lambda: [R(64, 3001), torch.randint(3001, (64,), device="cuda")],
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: [R(2, 4, 64, 32), R(2, 4, 64, 32), R(2, 4, 64, 32)],
    ),
    "scan": (lambda x: x.cumsum(1), lambda: [R(20, 300)]),
    "pooling": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda: [R(2, 8, 15, 15)]),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training(name: str, dtype: torch.dtype) -> None:
    f, make = TRAINED[name]
    torch.manual_seed(0)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in make()]
    exact, exact_gradients = gradients(f, [x.double() if x.is_floating_point() else x for x in inputs])
    eager, eager_gradients = gradients(f, inputs)
    actual, actual_gradients = gradients(compiled(f), inputs)
    for ours, theirs, right in zip(
        [actual, *actual_gradients], [eager, *eager_gradients], [exact, *exact_gradients], strict=True
    ):
        assert (ours is None) == (theirs is None)
        if ours is None or theirs is None or right is None:
            continue
        assert ours.stride() == theirs.stride() and ours.dtype == theirs.dtype and ours.device == theirs.device
        assert_as_good(ours, theirs, right)


def test_unaligned_inputs() -> None:
    call = compiled(lambda x: torch.relu(x * 2 + 1))
    memory = R(1025, dtype=torch.bfloat16)
    for part in (memory[:1024], memory[1:]):
        assert torch.equal(call(part), torch.relu(part * 2 + 1))


def test_a_dynamic_dim_is_one_compile() -> None:
    kiln.reset()
    call = compiled(lambda x: torch.softmax(x * 2, -1).sum(0))
    for rows in (5, 64, 1000):
        x = R(rows, 40)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(call(x), torch.softmax(x * 2, -1).sum(0))
    assert kiln.counters()["compiles"] == 1


def test_scalars_of_the_host() -> None:
    scale = torch.tensor(2.5)
    x = R(100)
    call = compiled(lambda x, s: x * s + s)
    assert torch.equal(call(x, scale), x * scale + scale)


def test_what_the_host_computes() -> None:
    def f(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x * 2, s + 1, x.sum().cpu()

    x, s = R(100), torch.tensor(2.5)
    doubled, more, total = compiled(f)(x, s)
    assert torch.equal(doubled, x * 2) and torch.equal(more, s + 1)
    assert total.device.type == "cpu"
    torch.testing.assert_close(total, x.sum().cpu())


def test_inputs_are_updated_in_place() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2).add_(y)
        return x + 1

    x, y = R(50, 3), R(50, 3)
    want = x * 2 + y
    result = compiled(f)(x, y)
    assert torch.equal(x, want) and torch.equal(result, want + 1)


def test_batch_norm_keeps_its_statistics() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.BatchNorm2d(8).cuda(), nn.BatchNorm2d(8).cuda()
    call = compiled(ours)
    for _ in range(3):
        x = R(4, 8, 9, 9)
        torch.testing.assert_close(call(x), theirs(x))
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_random_numbers_are_eagers() -> None:
    def f(x: Tensor) -> Tensor:
        return F.dropout(x, 0.3) + torch.rand_like(x)

    x = R(1000)
    torch.manual_seed(7)
    want = f(x)
    torch.manual_seed(7)
    assert torch.equal(compiled(f)(x), want)


def test_autocast() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10)).cuda()
    x = R(32, 64)

    def step() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return model(x)

    torch.testing.assert_close(compiled(step)(), step())


def test_work_goes_to_the_current_stream() -> None:
    call = compiled(lambda x: x * 3)
    x = R(1 << 20)
    call(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        y = torch.full_like(x, 2)
        result = call(y)
    stream.synchronize()
    assert torch.equal(result, torch.full_like(x, 6))


def test_factories_are_on_the_graphs_device() -> None:
    def f(x: Tensor) -> Tensor:
        return x + torch.arange(x.shape[0], device=x.device) + torch.ones(x.shape[0], device=x.device)

    x = R(40)
    assert torch.equal(compiled(f)(x), f(x))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_one_compile_for_two_devices() -> None:
    kiln.reset()
    for device in ("cuda:0", "cuda:1"):
        x = R(64, 64, device=device)
        with torch.cuda.device(0):
            result = compiled(lambda x: torch.softmax(x, -1) @ x)(x)
        assert result.device == torch.device(device)
        torch.testing.assert_close(result, torch.softmax(x, -1) @ x)
    assert kiln.counters()["compiles"] <= 1


def test_a_bad_index_is_a_device_side_assertion() -> None:
    program = """
        import torch
        x = torch.randn(10, 4, device="cuda")
        call = torch.compile(lambda x, i: x[i] * 2, backend="kiln", options={"strict": True})
        call(x, torch.tensor([1, 10], device="cuda"))
        torch.cuda.synchronize()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "index out of range in self" in done.stderr and "device-side assert" in done.stderr
