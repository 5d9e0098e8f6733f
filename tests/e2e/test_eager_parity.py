"""Programs whose results must be eager's: mutations, aliases, random numbers, contexts, dynamic shapes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import kiln
import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("server")


def check(f: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False, calls: int = 2) -> None:
    """Same outputs, gradients, and inputs afterwards, under the same seed."""
    g = torch.compile(f, backend="kiln", dynamic=dynamic)
    for call in range(calls):
        results = []
        for fn in (f, g):
            torch.manual_seed(call)
            args = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
            out = fn(*args)
            out = list(out) if isinstance(out, tuple | list) else [out]
            loss = sum(o.float().pow(2).sum() for o in out if isinstance(o, torch.Tensor) and o.requires_grad)
            if isinstance(loss, torch.Tensor):
                loss.backward()
            results.append((out, [a.grad for a in args], args))
        for expected, actual in zip(*results, strict=True):
            torch.testing.assert_close(actual, expected, check_stride=True, equal_nan=True)


class TestMutationAndAliases:
    def test_mutated_input(self) -> None:
        check(lambda x, y: (x.add_(1), x * y), torch.zeros(3), torch.randn(3, requires_grad=True))

    def test_mutated_input_is_read_before_it_is_written(self) -> None:
        def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = x * 2 + y
            x.copy_(y)
            y.add_(z)
            return z

        check(f, torch.randn(5), torch.randn(5))

    def test_mutated_input_that_is_returned(self) -> None:
        x = torch.zeros(3)
        f = torch.compile(lambda x: x.mul_(2).add_(1), backend="kiln")
        assert f(x) is x
        assert f(x).tolist() == [3, 3, 3]

    def test_mutated_view(self) -> None:
        base = torch.zeros(4, 6)
        f = torch.compile(lambda x: x.t()[1:3].add_(1), backend="kiln")
        f(base[:, ::2])
        assert base.sum().item() == 8
        assert base[:, 2].tolist() == [1, 1, 1, 1]

    def test_mutated_inputs_that_share_a_storage(self) -> None:
        def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x * y

        a, b = torch.zeros(4), torch.zeros(4)
        torch.testing.assert_close(torch.compile(f, backend="kiln")(a[:2], a[1:3]), f(b[:2], b[1:3]))
        torch.testing.assert_close(a, b)

    def test_aliased_outputs(self) -> None:
        def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x.sin()
            return x.view(-1), x[1], y, y.t(), y[0], x

        check(f, torch.randn(3, 4, requires_grad=True))
        x = torch.randn(3, 4)
        out = torch.compile(f, backend="kiln")(x)
        assert out[0].data_ptr() == x.data_ptr()
        assert out[3].untyped_storage().data_ptr() == out[2].untyped_storage().data_ptr()
        assert out[5] is x

    def test_two_outputs_of_one_value_do_not_share_when_eager_does_not(self) -> None:
        a, b = torch.compile(lambda x: (x + 1, x + 1), backend="kiln")(torch.zeros(3))
        a.add_(5)
        assert b.tolist() == [1, 1, 1]

    def test_versions_of_mutated_inputs(self) -> None:
        x = torch.zeros(3)
        torch.compile(lambda x: x.add_(1), backend="kiln")(x)
        assert x._version == 1

    def test_batch_norm_in_training_and_evaluation(self) -> None:
        m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
        m(torch.randn(2, 3, 6, 6))
        n = copy.deepcopy(m)
        f = torch.compile(m, backend="kiln")
        for step in range(4):
            m.train(step != 2)
            n.train(step != 2)
            x = torch.randn(5, 3, 6, 6)
            a, b = f(x), n(x)
            torch.testing.assert_close(a, b)
            a.sum().backward()
            b.sum().backward()
        torch.testing.assert_close(m.state_dict(), n.state_dict())
        for p, q in zip(m.parameters(), n.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)


class TestAutograd:
    def test_retain_graph(self) -> None:
        x = torch.randn(4, requires_grad=True)
        y = torch.compile(lambda x: (x.sin() * x.exp()).sum(), backend="kiln")(x)
        y.backward(retain_graph=True)
        first = x.grad
        x.grad = None
        y.backward()
        torch.testing.assert_close(x.grad, first, rtol=0, atol=0)

    def test_backward_compiles_with_the_forward(self) -> None:
        x = torch.randn(4, requires_grad=True)
        y = torch.compile(lambda x: x.tanh().exp().sum(), backend="kiln")(x)
        before = kiln.counters()
        y.backward()
        assert kiln.counters() == before

    def test_tangents_of_any_stride(self) -> None:
        f = torch.compile(lambda x: x.exp() * 2, backend="kiln")
        for tangent in (torch.ones(()).expand(4, 3), torch.randn(3, 4).t(), torch.randn(8, 6)[::2, ::2]):
            x = torch.randn(4, 3, requires_grad=True)
            f(x).backward(tangent)
            torch.testing.assert_close(x.grad, (x.exp() * 2 * tangent).detach())

    def test_only_one_output_used(self) -> None:
        x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        a, _ = torch.compile(lambda x, y: (x.sin(), y.cos()), backend="kiln")(x, y)
        a.sum().backward()
        torch.testing.assert_close(x.grad, x.cos().detach())

    def test_double_backward_is_refused_as_by_torch(self) -> None:
        x = torch.randn(3, requires_grad=True)
        y = torch.compile(lambda x: (x**3).sum(), backend="kiln")(x)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match="double backward"):
            g.sum().backward()

    def test_checkpoint(self) -> None:
        def f(x: torch.Tensor) -> Any:
            def block(y: torch.Tensor) -> torch.Tensor:
                return F.dropout(y.sin().exp(), 0.5)

            return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) * 2

        check(f, torch.randn(40, requires_grad=True))

    def test_autograd_function(self) -> None:
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                y, z = x.exp(), x.cos()
                ctx.y = y
                ctx.save_for_backward(z)
                return y * z

            @staticmethod
            def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
                (z,) = ctx.saved_tensors
                return g * ctx.y * z

        check(lambda x: Scaled.apply(x).tanh(), torch.randn(4, requires_grad=True))

    def test_gradient_accumulates_over_steps(self) -> None:
        m, x = nn.Linear(4, 4), torch.randn(3, 4)
        n = copy.deepcopy(m)
        f = torch.compile(m, backend="kiln")
        for _ in range(3):
            f(x).pow(2).sum().backward()
            n(x).pow(2).sum().backward()
        for p, q in zip(m.parameters(), n.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


class TestRandom:
    def test_dropout(self) -> None:
        check(lambda x: F.dropout(x, 0.3), torch.randn(100, requires_grad=True))

    def test_order_of_draws(self) -> None:
        def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.rand_like(x), torch.randn(3) + x, torch.bernoulli(x.sigmoid()), torch.randint(9, (4,))

        check(f, torch.ones(3))

    def test_generator_state_afterwards(self) -> None:
        x = torch.ones(7)
        states = []
        for fn in (torch.rand_like, torch.compile(torch.rand_like, backend="kiln")):
            torch.manual_seed(3)
            fn(x)
            states.append(torch.get_rng_state())
        assert torch.equal(*states)


class TestContexts:
    def test_autocast_outside_and_inside(self) -> None:
        def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x @ w).relu().sum(-1)

        def inside(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return f(x, w)

        x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 3, requires_grad=True)
        check(inside, x, w)
        g = torch.compile(f, backend="kiln")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a, b = g(x, w), f(x, w)
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b)
        assert g(x, w).dtype == torch.float32

    def test_norms_under_autocast(self) -> None:
        def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = (x @ w).view(4, 8, 2, 2)
                y = F.group_norm(y, 2, b, b) + F.batch_norm(y, None, None, b, b, training=True)
                # Eager's gradients of f32 parameters beside bf16 rows are bf16 sums: test_rows.py judges those.
                return y, F.layer_norm(y.detach().flatten(1) @ w.detach().t(), (6,), b[:6].detach(), b[:6].detach())

        x, w, b = torch.randn(4, 6), torch.randn(6, 32), torch.rand(8)
        check(f, x.requires_grad_(), w.requires_grad_(), b.requires_grad_())

    def test_no_grad_and_inference_mode(self) -> None:
        m, x = nn.Linear(3, 3), torch.randn(2, 3)
        f = torch.compile(m, backend="kiln")
        with torch.no_grad():
            y = f(x)
        assert not y.requires_grad
        with torch.inference_mode():
            z = f(x)
        torch.testing.assert_close(y, m(x).detach())
        torch.testing.assert_close(z.clone(), y)
        assert f(x).requires_grad

    def test_graph_breaks(self) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            y = x.sin() * 2
            torch._dynamo.graph_break()
            return y.exp() if y.sum() > 0 else y.cos()

        check(f, torch.ones(3, requires_grad=True))
        assert len(kiln.graphs()) >= 2

    def test_default_dtype_is_guarded(self) -> None:
        f = torch.compile(lambda x: x + torch.ones(3), backend="kiln")
        x = torch.zeros(3, dtype=torch.float32)
        assert f(x).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert f(x).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


class TestDynamicShapes:
    def test_twenty_sizes_one_compile(self) -> None:
        def f(x: torch.Tensor, y: torch.Tensor) -> Any:
            return torch.cat([x.view(-1, x.shape[1]), y]).relu().mean(0) * x.shape[0], x.flatten()

        g = torch.compile(f, backend="kiln", dynamic=True)
        for n in range(4, 24):
            x, y = torch.randn(n, 6, requires_grad=True), torch.randn(n + 3, 6)
            a, b = g(x, y), f(x, y)
            torch.testing.assert_close(a, b)
            (ga,) = torch.autograd.grad(a[0].sum() + a[1].pow(2).sum(), x)
            (gb,) = torch.autograd.grad(b[0].sum() + b[1].pow(2).sum(), x)
            torch.testing.assert_close(ga, gb)
        assert len(kiln.graphs()) == 1

    def test_automatic_dynamic(self) -> None:
        f = torch.compile(lambda x: (x * 2).sum(0), backend="kiln")
        for n in (5, 6, 7, 8, 9):
            x = torch.randn(n, 3)
            torch.testing.assert_close(f(x), (x * 2).sum(0))
        assert len(kiln.graphs()) == 2

    def test_strides_and_divisions_of_sizes(self) -> None:
        check(lambda x: x.view(-1, 4).sum(1) + x.shape[0] // 4, torch.randn(12, requires_grad=True), dynamic=True)
        check(lambda x: x.unfold(0, 3, 2) * x.shape[0], torch.randn(11, requires_grad=True), dynamic=True)
        check(lambda x: (x.t().contiguous().exp(), x.t() + 1), torch.randn(6, 5, requires_grad=True), dynamic=True)

    def test_arange_by_a_size(self) -> None:
        f = torch.compile(lambda x: torch.arange(0, x.numel(), x.shape[1]) + x.sum(), backend="kiln", dynamic=True)
        for rows, columns in [(4, 6), (5, 7)]:
            x = torch.ones(rows, columns)
            torch.testing.assert_close(f(x), torch.arange(0, rows * columns, columns) + x.sum())

    def test_convolution_and_attention(self) -> None:
        def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            q = F.conv2d(x, w, stride=2, padding=1).flatten(2)
            return F.scaled_dot_product_attention(q, q, q, scale=0.25)

        check(f, torch.randn(2, 3, 9, 7, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True), dynamic=True)

    def test_sizes_as_outputs(self) -> None:
        check(lambda x: (x.shape[0] * 2, x.new_zeros(x.shape[0] + 1), x.numel()), torch.randn(5, 3), dynamic=True)


class TestModules:
    def test_mlp_with_dropout(self) -> None:
        m = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4))
        n = copy.deepcopy(m)
        f = torch.compile(m, backend="kiln")
        a, b = torch.optim.Adam(m.parameters()), torch.optim.Adam(n.parameters())
        for step in range(5):
            x, y = torch.randn(6, 8), torch.randint(4, (6,))
            losses = []
            for model, optimizer in ((f, a), (n, b)):
                torch.manual_seed(step)
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss)
            torch.testing.assert_close(*losses)

    # Some steps hand an operator a number where its schema has a tensor.
    @pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
    def test_optimizer_steps(self, name: str) -> None:
        ours = [torch.rand(5, 5, requires_grad=True) for _ in range(3)]
        theirs = [p.detach().clone().requires_grad_() for p in ours]
        optimizers = [getattr(torch.optim, name)(parameters) for parameters in (ours, theirs)]
        step = torch.compile(lambda: optimizers[0].step(), backend="kiln", options={"strict": True})
        for _ in range(3):
            for p, q in zip(ours, theirs, strict=True):
                p.grad = torch.rand(5, 5)
                q.grad = p.grad.clone()
            step()
            optimizers[1].step()
        torch.testing.assert_close(ours, theirs)
        assert kiln.counters()["fallbacks"] == []

    def test_tensor_hook(self) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.register_hook(lambda g: g * 3)
            return y.sin()

        check(f, torch.randn(4, requires_grad=True))
        assert kiln.counters()["fallbacks"] == []

    def test_bad_index_raises_as_eager_does(self) -> None:
        table = torch.randn(5, 3)
        f = torch.compile(lambda t, i: t[i] * 2, backend="kiln")
        torch.testing.assert_close(f(table, torch.tensor([0, -1])), table[[0, -1]] * 2)
        with pytest.raises(IndexError):
            f(table, torch.tensor([0, 5]))
        torch.testing.assert_close(f(table, torch.tensor([4, 1])), table[[4, 1]] * 2)

    def test_custom_operator(self) -> None:
        with torch.library._scoped_library("kiln_e2e", "FRAGMENT") as lib:
            lib.define("twice(Tensor x, *, float by=2.0) -> Tensor")
            lib.impl("twice", lambda x, by=2.0: x * by, "CompositeExplicitAutograd")
            lib.impl("twice", lambda x, by=2.0: torch.empty_like(x), "Meta")
            op = torch.ops.kiln_e2e.twice
            x = torch.randn(3)
            y = torch.compile(lambda x: op(x, by=3.0) + op(x), backend="kiln")(x)
            torch.testing.assert_close(y, 5 * x)
        assert kiln.counters()["external_calls"]["kiln_e2e.twice.default"] == 2
