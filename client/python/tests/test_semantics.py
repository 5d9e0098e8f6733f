"""torch.compile(backend="kiln") against eager, with the reference interpreter in the server's place.

Strict: nothing here may fall back. Values, gradients, mutations, aliases, random numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import kiln
import pytest
import torch
from torch import nn
from torch.nn import functional as F


def compiled(f: Any, **kw: Any) -> Any:
    return torch.compile(f, backend=kiln.backend, options={"strict": True}, **kw)


def check(f: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False, calls: int = 2) -> None:
    """Same outputs, gradients and inputs afterwards, under the same seed."""
    g = compiled(f, dynamic=dynamic)
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
            torch.testing.assert_close(actual, expected, check_stride=True)


def test_relu(requests: list[Any]) -> None:
    x = torch.tensor([-1, -0.25, 0.5])
    f = compiled(lambda x: torch.relu(x * 2 + 1))
    assert f(x).tolist() == [0, 0.5, 2]
    assert len(requests) == 1
    assert [op.name for op in requests[0].graph.ops] == ["aten.mul.Tensor", "aten.add.Tensor", "aten.relu.default"]


@pytest.mark.usefixtures("requests")
class TestValues:
    def test_linear_gelu_norm(self) -> None:
        check(
            lambda x, w, b: F.layer_norm(F.gelu(F.linear(x, w, b)), (6,)),
            torch.randn(4, 8, requires_grad=True),
            torch.randn(6, 8, requires_grad=True),
            torch.randn(6, requires_grad=True),
        )

    def test_several_results(self) -> None:
        check(
            lambda x: (*x.split([1, 3], 1), x.topk(2).values, *torch.var_mean(x)), torch.randn(3, 4, requires_grad=True)
        )

    def test_scalars(self) -> None:
        check(lambda x: x.clamp(-0.5, 2) * 3 + float("-inf") ** 2, torch.randn(5))
        check(lambda x: torch.full_like(x, float("nan")).isnan(), torch.randn(5))

    def test_constants(self) -> None:
        check(lambda x: x + torch.tensor([1.5, -2.0, 0.25]), torch.randn(2, 3, requires_grad=True))
        check(lambda x: x + torch.tensor(7), torch.randn(2))
        check(lambda x: torch.cat([x, torch.tensor([])]), torch.randn(2))

    def test_index_with_none(self) -> None:
        i = torch.tensor([0, 2])
        check(lambda x, i: x[:, i, :, i], torch.randn(3, 4, 2, 4, requires_grad=True), i)

    def test_dtype_device_layout_arguments(self) -> None:
        check(lambda x: torch.arange(4, dtype=torch.float64) + x.to(torch.bfloat16).double(), torch.randn(4))
        check(lambda x: x.to(memory_format=torch.channels_last) * 2, torch.randn(2, 3, 4, 5, requires_grad=True))

    def test_permuted_input(self) -> None:
        check(lambda x: x.sin() @ x, torch.randn(4, 4).t().requires_grad_())

    def test_tangent_of_any_stride(self) -> None:
        check(lambda x: x.exp().t().expand(2, 3, 4), torch.randn(4, 3, requires_grad=True))

    def test_no_grad_inputs_and_int_outputs(self) -> None:
        check(lambda x, n: (x * n, n + 1), torch.randn(3, requires_grad=True), torch.tensor([1, 2, 3]))

    def test_retain_graph(self) -> None:
        x = torch.randn(4, requires_grad=True)
        y = compiled(lambda x: (x.sin() * x.cos()).sum())(x)
        y.backward(retain_graph=True)
        first = x.grad
        x.grad = None
        y.backward()
        torch.testing.assert_close(x.grad, first)

    def test_no_grad_and_inference_mode(self) -> None:
        m = nn.Linear(3, 3)
        f = compiled(m)
        x = torch.randn(2, 3)
        with torch.no_grad():
            assert not f(x).requires_grad
        with torch.inference_mode():
            torch.testing.assert_close(f(x), m(x))
        assert f(x).requires_grad

    def test_checkpoint(self) -> None:
        def f(x: torch.Tensor) -> Any:
            return torch.utils.checkpoint.checkpoint(lambda y: y.sin().exp().dropout(0.5, True), x, use_reentrant=False)

        check(lambda x: x.sin() * 2, torch.randn(3, requires_grad=True))
        torch.Tensor.dropout = lambda s, p, t: F.dropout(s, p, t)  # type: ignore[attr-defined]
        try:
            check(f, torch.randn(8, requires_grad=True))
        finally:
            del torch.Tensor.dropout  # type: ignore[attr-defined]

    def test_saved_without_version_check(self) -> None:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                y = x.exp()
                ctx.y = y  # not save_for_backward
                z = x.cos()
                ctx.save_for_backward(z)
                return y * z

            @staticmethod
            def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
                (z,) = ctx.saved_tensors
                return g * ctx.y * z

        check(lambda x: Double.apply(x).tanh(), torch.randn(4, requires_grad=True))

    def test_custom_operator(self) -> None:
        with torch.library._scoped_library("kiln_test", "FRAGMENT") as lib:
            lib.define("twice(Tensor x, *, float by=2.0) -> Tensor")
            lib.impl("twice", lambda x, by=2.0: x * by, "CompositeExplicitAutograd")
            lib.impl("twice", lambda x, by=2.0: torch.empty_like(x), "Meta")
            f = torch.ops.kiln_test.twice
            x = torch.randn(3)
            torch.testing.assert_close(compiled(lambda x: f(x, by=3.0) + f(x))(x), 5 * x)


@pytest.mark.usefixtures("requests")
class TestMutationAndAliases:
    def test_mutated_input(self) -> None:
        check(lambda x, y: (x.add_(1), x * y), torch.zeros(3), torch.randn(3, requires_grad=True))

    def test_mutated_input_returned(self) -> None:
        x = torch.zeros(3)
        f = compiled(lambda x: x.mul_(2).add_(1))
        assert f(x) is x
        assert x.tolist() == [1, 1, 1]
        assert f(x) is x
        assert x.tolist() == [3, 3, 3]

    def test_views_of_inputs_and_results(self) -> None:
        def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x.sin()
            return x.view(-1), x[1], y, y.t(), y[0]

        check(f, torch.randn(3, 4, requires_grad=True))
        x = torch.randn(3, 4, requires_grad=True)
        out = compiled(f)(x)
        assert out[0].data_ptr() == x.data_ptr()
        assert out[3].untyped_storage().data_ptr() == out[2].untyped_storage().data_ptr()

    def test_input_that_is_output(self) -> None:
        x = torch.randn(3)
        y, z = compiled(lambda x: (x, x + 1))(x)
        assert y is x
        torch.testing.assert_close(z, x + 1)

    def test_inputs_that_share_a_storage(self, requests: list[Any]) -> None:
        base = torch.randn(8)
        x, y, z = base[:4], base[4:], torch.randn(4)
        torch.testing.assert_close(compiled(lambda x, y, z: x + y + z)(x, y, z), x + y + z)
        assert [i.alias_group for i in requests[0].guards.inputs] == [1, 1, 0]

    def test_mutated_inputs_that_share_a_storage(self) -> None:
        def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x * y

        a, b = torch.zeros(4), torch.zeros(4)
        torch.testing.assert_close(compiled(f)(a[:2], a[1:3]), f(b[:2], b[1:3]))
        torch.testing.assert_close(a, b)

    def test_tensor_subclass(self, requests: list[Any]) -> None:
        from torch.testing._internal.two_tensor import TwoTensor

        x = TwoTensor(torch.ones(3), torch.zeros(3))
        y = compiled(lambda x: x.sin() + 1)(x)
        torch.testing.assert_close(y.a, torch.ones(3).sin() + 1)
        torch.testing.assert_close(y.b, torch.ones(3))
        assert len(requests[0].graph.inputs) == 2

    def test_batch_norm(self) -> None:
        m = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())
        n = copy.deepcopy(m)
        f = compiled(m)
        for step in range(4):
            m.train(step < 3)
            n.train(step < 3)
            x = torch.randn(5, 4)
            a, b = f(x), n(x)
            torch.testing.assert_close(a, b)
            (a.sum() + b.sum()).backward()
        for p, q in zip(m.state_dict().values(), n.state_dict().values(), strict=True):
            torch.testing.assert_close(p, q)
        for p, q in zip(m.parameters(), n.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.usefixtures("requests")
class TestRandom:
    def test_dropout(self) -> None:
        check(lambda x: F.dropout(x, 0.3) + torch.rand_like(x), torch.randn(50, requires_grad=True))

    def test_order_of_draws(self) -> None:
        check(lambda x: (torch.randn(3) + x, torch.randint(9, (4,)), torch.rand(2), torch.randperm(5)), torch.ones(3))


@pytest.mark.usefixtures("requests")
class TestContexts:
    def test_autocast(self) -> None:
        def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x @ w).softmax(-1)

        x, w = torch.randn(4, 8), torch.randn(8, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a, b = compiled(f)(x, w), f(x, w)
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b)

        def g(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return f(x, w)

        check(g, x.requires_grad_(), w.requires_grad_())

    def test_norms_under_autocast(self) -> None:
        """Their statistics are float32 though their meta functions say bfloat16."""

        def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = (x @ w).view(4, 8, 2, 2)
                y = F.group_norm(y, 2, b, b) + F.batch_norm(y, None, None, b, b, training=True)
                return F.layer_norm(y.flatten(1) @ w.t(), (6,), b[:6], b[:6])

        x, w, b = torch.randn(4, 6), torch.randn(6, 32), torch.rand(8)
        check(f, x.requires_grad_(), w.requires_grad_(), b.requires_grad_())

    def test_graph_break(self, requests: list[Any]) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            y = x.sin()
            torch._dynamo.graph_break()
            return y * 2

        check(f, torch.randn(3, requires_grad=True))
        assert len(requests) == 2


@pytest.mark.usefixtures("requests")
class TestDynamicShapes:
    def test_twenty_sizes_one_compile(self, requests: list[Any]) -> None:
        def f(x: torch.Tensor, y: torch.Tensor) -> Any:
            return torch.cat([x.view(-1, x.shape[1]), y]).relu().mean(0) * x.shape[0], x.flatten()

        g = compiled(f, dynamic=True)
        for n in range(4, 24):
            x, y = torch.randn(n, 6, requires_grad=True), torch.randn(n + 3, 6)
            a, b = g(x, y), f(x, y)
            for p, q in zip(a, b, strict=True):
                torch.testing.assert_close(p, q)
            (ga,) = torch.autograd.grad(a[0].sum() + a[1].pow(2).sum(), x)
            (gb,) = torch.autograd.grad(b[0].sum() + b[1].pow(2).sum(), x)
            torch.testing.assert_close(ga, gb)
        assert len(requests) == 1

    def test_static_sizes_compile_once_each(self, requests: list[Any]) -> None:
        f = compiled(lambda x: torch.relu(x * 2 + 1), dynamic=False)
        for n in (8, 8, 16, 8):
            f(torch.ones(n))
        assert len(requests) == 2

    def test_divisibility(self) -> None:
        check(lambda x: x.view(-1, 4).sum(1) + x.shape[0] // 4, torch.randn(12, requires_grad=True), dynamic=True)
        check(lambda x: x.unfold(0, 3, 2) * x.shape[0], torch.randn(11, requires_grad=True), dynamic=True)

    def test_convolution_and_attention(self) -> None:
        def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = F.conv2d(x, w, stride=2, padding=1)
            q = y.flatten(2)
            return F.scaled_dot_product_attention(q, q, q, scale=0.25)

        check(f, torch.randn(2, 3, 9, 7, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True), dynamic=True)

    def test_sizes_as_outputs(self) -> None:
        check(lambda x: (x.shape[0] * 2, x.new_zeros(x.shape[0] + 1), x.numel()), torch.randn(5, 3), dynamic=True)

    def test_min_and_max_of_sizes(self) -> None:
        def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            n = torch.sym_min(x.shape[0], y.shape[0])
            return x[:n] + y[:n] * torch.sym_max(x.shape[0], 3)

        check(f, torch.randn(7, requires_grad=True), torch.randn(5), dynamic=True)

    def test_dropout_of_dynamic_size(self) -> None:
        check(lambda x: F.dropout(x, 0.5) * x.shape[0], torch.randn(9, 2, requires_grad=True), dynamic=True)
