"""External calls: every kind of argument and result, against eager."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from kiln import _kiln
from plans import Plan

aten = torch.ops.aten


def check(plan: Plan, *args: Any) -> None:
    """The plan's outputs on its own inputs are the examples."""
    function = plan.load()
    for _ in range(3):
        values = list(args)
        results = function(values)
        assert values == []
        assert isinstance(results, list)
        for result, proto in zip(results, plan.function.outputs, strict=True):
            if proto.WhichOneof("kind") == "none":
                assert result is None
            else:
                expected = EXAMPLES[id(plan)][proto.value]
                torch.testing.assert_close(result, expected, rtol=0, atol=0)
                assert result.stride() == expected.stride()
                assert not result.requires_grad


EXAMPLES: dict[int, dict[int, torch.Tensor]] = {}


def finish(plan: Plan, *values: Any) -> Plan:
    plan.output(*values)
    EXAMPLES[id(plan)] = {v.index: v.example for v in values if v is not None}
    return plan


def one(op: Any, *args: Any, **kwargs: Any) -> None:
    """A plan that calls one operator; tensors among the arguments become inputs."""
    tensors: list[torch.Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            for v in value:
                collect(v)

    collect(args)
    collect(list(kwargs.values()))
    plan = Plan(*tensors)
    inputs = iter(plan.inputs)

    def replace(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return next(inputs)
        return [replace(v) for v in value] if isinstance(value, (list, tuple)) else value

    new_args = [replace(a) for a in args]
    result = plan.call(op, *new_args, **{k: replace(v) for k, v in kwargs.items()})
    results = result if isinstance(result, list) else [result]
    check(finish(plan, *results), *tensors)


X = torch.randn(4, 6)
IMAGE = torch.randn(2, 3, 8, 8)
QKV = torch.randn(2, 4, 16, 8)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param((aten.mm.default, X, torch.randn(6, 5)), id="mm"),
        pytest.param((aten.mm.default, X, torch.randn(5, 6).t()), id="mm-transposed"),
        pytest.param((aten.mm.default, torch.arange(6).view(2, 3), torch.arange(6).view(3, 2)), id="mm-int"),
        pytest.param((aten.bmm.default, torch.randn(3, 4, 5), torch.randn(3, 5, 6)), id="bmm"),
        pytest.param((aten.addmm.default, torch.randn(5), X, torch.randn(6, 5)), id="addmm"),
        pytest.param((aten.addmm.default, torch.arange(2), torch.eye(2).long(), torch.eye(2).long()), id="addmm-int"),
        pytest.param((aten.cat.default, [X, X, X], 1), id="cat"),
        pytest.param((aten.stack.default, [X, X]), id="stack"),
        pytest.param((aten.index.Tensor, X, [None, torch.tensor([3, 1])]), id="index"),
        pytest.param((aten.convolution.default, IMAGE, torch.randn(4, 3, 3, 3), torch.randn(4), [1, 1], [1, 1], [1, 1],
                      False, [0, 0], 1), id="convolution"),
        pytest.param((aten.convolution.default, IMAGE, torch.randn(4, 3, 3, 3), None, [2, 2], [0, 0], [1, 1], False,
                      [0, 0], 1), id="convolution-no-bias"),
        pytest.param((aten.convolution_backward.default, torch.randn(2, 4, 8, 8), IMAGE, torch.randn(4, 3, 3, 3), [4],
                      [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]), id="convolution-backward"),
        pytest.param((aten._scaled_dot_product_flash_attention_for_cpu.default, QKV, QKV, QKV), id="attention"),
        pytest.param((aten.native_layer_norm.default, X, [6], None, None, 1e-5), id="layer-norm"),
        pytest.param((aten._softmax.default, X, -1, False), id="softmax"),
        pytest.param((aten.embedding.default, X, torch.tensor([[1, 0], [3, 3]])), id="embedding"),
        pytest.param((aten.sort.stable, X), id="sort"),
        pytest.param((aten.topk.default, X, 2), id="topk"),
        pytest.param((aten.max_pool2d_with_indices.default, IMAGE, [2, 2]), id="max-pool"),
        pytest.param((aten.split.Tensor, X, 2, 1), id="split"),
        pytest.param((aten.unbind.int, X), id="unbind"),
        pytest.param((aten.split_with_sizes.default, X, [1, 3]), id="split-with-sizes"),
        pytest.param((aten.view.default, X, [2, -1]), id="view"),
        pytest.param((aten.permute.default, X, [1, 0]), id="permute"),
        pytest.param((aten._to_copy.default, X), id="to-copy-nothing"),
        pytest.param((aten.add.Tensor, X, X), id="add"),
        pytest.param((aten.div.Tensor_mode, X, X + 3), id="div-mode"),
        pytest.param((aten.clamp.default, X, None, 0.5), id="clamp"),
        pytest.param((aten.pow.Tensor_Scalar, X, 3), id="pow"),
        pytest.param((aten.var_mean.correction, X, [1]), id="var-mean"),
        pytest.param((aten.fft_fft.default, X), id="complex"),
        pytest.param((aten.view_as_real.default, torch.randn(3, dtype=torch.complex64)), id="view-as-real"),
        pytest.param((aten._foreach_add.List, [X, X[0].clone()], [X, X[1].clone()]), id="foreach"),
        pytest.param((aten.upsample_nearest2d.vec, IMAGE, None, [2.0, 2.0]), id="upsample"),
    ],
)  # fmt: skip
def test_one_call(call: Any) -> None:
    one(*call)


@pytest.mark.parametrize(
    ("op", "args", "kwargs"),
    [
        (aten._to_copy.default, (X,), {"dtype": torch.bfloat16}),
        (aten._to_copy.default, (X,), {"layout": torch.strided, "device": torch.device("cpu")}),
        (aten._to_copy.default, (IMAGE,), {"memory_format": torch.channels_last}),
        (aten.clone.default, (X.t(),), {"memory_format": torch.contiguous_format}),
        (aten.zeros.default, ([2, 3],), {"dtype": torch.int32, "pin_memory": False}),
        (aten.div.Tensor_mode, (X, X + 3), {"rounding_mode": "floor"}),
        (aten.addmm.default, (X, X, torch.randn(6, 6)), {"beta": 0.5, "alpha": 2}),
        (aten.add.Tensor, (X, X), {"alpha": 2}),
        (aten.linalg_vector_norm.default, (X,), {}),
    ],
)  # fmt: skip
def test_keyword_arguments(op: Any, args: Any, kwargs: Any) -> None:
    one(op, *args, **kwargs)


def test_random_calls_draw_as_eager_does() -> None:
    plan = Plan(X)
    first = plan.call(aten.native_dropout.default, plan.inputs[0], 0.5, True)
    second = plan.call(aten.rand.default, [3, 2])
    third = plan.call(aten.bernoulli.p, plan.inputs[0], 0.5)
    function = plan.output(*first, second, third).load()
    for seed in range(3):
        torch.manual_seed(seed)
        expected = [*aten.native_dropout(X, 0.5, True), torch.rand(3, 2), aten.bernoulli(X, 0.5)]
        torch.manual_seed(seed)
        torch.testing.assert_close(function([X]), expected, rtol=0, atol=0)


def test_unwanted_and_missing_results() -> None:
    grad, weight = torch.randn(2, 4, 8, 8), torch.randn(4, 3, 3, 3)
    args = [[4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    plan = Plan(grad, IMAGE, weight)
    g, i, w = plan.inputs
    results = plan.call(aten.convolution_backward.default, g, i, w, *args, [False, True, False])
    assert results[0] is None and results[2] is None
    check(finish(plan, *results), grad, IMAGE, weight)

    plan = Plan(grad, IMAGE, weight)
    g, i, w = plan.inputs
    results = plan.call(aten.convolution_backward.default, g, i, w, *args, [True, True, True])
    plan.function.steps[0].external.results[1] = 2**32 - 1
    check(finish(plan, results[0], results[2]), grad, IMAGE, weight)


def test_none_where_the_plan_wants_a_tensor_is_an_error() -> None:
    grad, weight = torch.randn(2, 4, 8, 8), torch.randn(4, 3, 3, 3)
    plan = Plan(grad, IMAGE, weight)
    mask = [True, True, True]
    results = plan.call(
        aten.convolution_backward.default, *plan.inputs, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
    )
    plan.function.steps[0].external.args[10].list.items[2].b = False
    with pytest.raises(RuntimeError, match=r"convolution_backward.default \(node 1\), result 2 is None"):
        plan.output(*results).load()([grad, IMAGE, weight])


def test_results_get_the_plans_strides_and_dtype() -> None:
    plan = Plan(X)
    result = plan.call(aten.t.default, plan.inputs[0])
    value = plan.function.values[result.index]
    del value.strides[:]
    value.strides.extend([plan.const(4), plan.const(1)])
    [out] = plan.output(result).load()([X])
    assert out.stride() == (4, 1)
    torch.testing.assert_close(out, X.t(), rtol=0, atol=0)

    plan = Plan(X)
    result = plan.call(aten._softmax.default, plan.inputs[0], -1, False)
    plan.function.values[result.index].dtype = 10  # float64
    [out] = plan.output(result).load()([X])
    torch.testing.assert_close(out, torch.softmax(X, -1).double(), rtol=0, atol=0)


def test_result_into_an_allocated_tensor() -> None:
    for op, args in [(aten.mm.default, (X, torch.randn(6, 6))), (aten.add.Tensor, (X, X)), (aten.relu.default, (X,))]:
        plan = Plan(*args)
        out = plan.empty(op(*args))
        assert plan.call(op, *plan.inputs, into=out) is out
        check(finish(plan, out), *args)


def test_shape_that_the_plan_does_not_expect_is_an_error() -> None:
    plan = Plan(X)
    result = plan.call(aten.t.default, plan.inputs[0])
    plan.function.values[result.index].sizes[0] = plan.const(5)
    with pytest.raises(RuntimeError, match="another shape"):
        plan.output(result).load()([X])


def test_chain_with_releases_frees_early() -> None:
    """A value is gone after its Release step, though the call goes on."""
    plan = Plan(X)
    a = plan.call(aten.sin.default, plan.inputs[0])
    b = plan.call(aten.cos.default, a)
    plan.release(a)
    c = plan.call(aten.exp.default, b)
    plan.release(b, plan.inputs[0])
    check(finish(plan, c), X)


def test_arguments_die_early_in_a_long_call() -> None:
    """The caller's list is emptied, and a large argument goes with its Release step, not with the call."""
    big = torch.randn(600, 600)
    seen: list[bool] = []
    library = torch.library.Library("kilntest", "DEF")
    library.define("watch(Tensor x) -> Tensor")
    alive: list[Any] = []
    library.impl("watch", lambda x: seen.append(alive[0]() is None) or x.clone(), "CPU")
    plan = Plan(big)
    a = plan.call(aten.relu.default, plan.inputs[0])
    plan.release(plan.inputs[0])
    alive.append(weakref.ref(big))
    b = plan.call(torch.ops.kilntest.watch.default, a)
    function = plan.output(b).load()
    plan.inputs.clear()
    del a, b, plan
    seen.clear()
    expected = big.relu()
    args = [big]
    del big
    gc.collect()
    assert alive[0]() is not None
    [out] = function(args)
    assert seen == [True]
    torch.testing.assert_close(out, expected)


def test_errors_name_operator_and_node() -> None:
    plan = Plan(X, torch.tensor([[1, 0], [3, 3]]))
    function = plan.output(plan.call(aten.embedding.default, *plan.inputs)).load()
    with pytest.raises(IndexError, match=r"aten.embedding.default \(node 1\): index out of range in self"):
        function([X, torch.tensor([[1, 0], [3, 9]])])
    function([X, torch.tensor([[1, 0], [3, 2]])])


def test_python_errors_keep_their_cause() -> None:
    library = torch.library.Library("kilntest2", "DEF")
    library.define("raises(Tensor x, Scalar s) -> Tensor")
    bad = False

    def impl(x: torch.Tensor, s: float) -> torch.Tensor:
        if bad:
            raise ValueError("no luck")
        return x * s

    library.impl("raises", impl, "CPU")
    plan = Plan(X)
    function = plan.output(plan.call(torch.ops.kilntest2.raises.default, plan.inputs[0], 2.0)).load()
    torch.testing.assert_close(function([X]), [X * 2.0])
    bad = True
    with pytest.raises(RuntimeError, match=r"kilntest2.raises.default \(node 1\): no luck") as info:
        function([X])
    assert isinstance(info.value.__cause__, ValueError)


def test_missing_operator_is_refused_when_loading() -> None:
    plan = Plan(X)
    plan.call(aten.clamp.default, plan.inputs[0], 0.0)
    plan.function.steps[0].external.op = "aten.clump.default"
    plan.function.steps[0].external.schema = plan.function.steps[0].external.schema.replace("clamp", "clump")
    with pytest.raises(RuntimeError, match=r"aten\.clump\.default: .*clump"):
        plan.load()


def test_another_schema_is_refused_when_loading() -> None:
    """By every route: torch would take the arguments for what they are not."""
    for op, was, now in [
        (aten.relu.default, "Tensor self", "Tensor[] self"),
        (aten.mm.default, "Tensor mat2", "Tensor other"),
        (aten.clamp.default, "Scalar? min", "int? min"),
    ]:
        plan = Plan(X, torch.randn(6, 6))
        x, y = plan.inputs
        rest = {aten.relu.default: [], aten.mm.default: [y], aten.clamp.default: [0]}
        plan.call(op, x, *rest[op])
        external = plan.function.steps[0].external
        external.schema = external.schema.replace(was, now)
        if "[]" in now:
            external.args[0].list.items.add().value = x.index
        with pytest.raises(RuntimeError, match=f"{op}: "):
            plan.load()


def test_info_counts_calls_by_operator() -> None:
    from plans import resolve

    plan = Plan(X)
    a = plan.call(aten.relu.default, plan.inputs[0])
    b = plan.call(aten.relu.default, a)
    c = plan.call(aten.clamp.default, b, 0.0)
    loaded = _kiln.load(plan.output(c).artifact().SerializeToString(), b"", resolve)
    assert loaded.info() == {
        "kernels": 0,
        "launches": [0],
        "external_calls": {"aten.relu.default": 2, "aten.clamp.default": 1},
        "python_calls": {"aten.clamp.default": 1},
    }


def test_no_autograd_is_recorded_and_grad_mode_comes_back() -> None:
    w = torch.randn(6, 5, requires_grad=True)
    plan = Plan(X, w.detach())
    function = plan.output(
        plan.call(aten.mm.default, *plan.inputs), plan.call(aten.tanh.default, plan.inputs[1])
    ).load()
    with torch.enable_grad():
        outs = function([X, w])
        assert torch.is_grad_enabled()
        assert not any(o.requires_grad for o in outs)
    with torch.no_grad():
        function([X, w])
        assert not torch.is_grad_enabled()


def test_no_leak() -> None:
    plan = Plan(X, IMAGE)
    x, image = plan.inputs
    parts = plan.call(aten.split.Tensor, x, 2, 1)
    cat = plan.call(aten.cat.default, parts, 0)
    pooled = plan.call(aten.max_pool2d_with_indices.default, image, [2, 2])
    clamped = plan.call(aten.clamp.default, cat, 0.0, 1.0)
    index = plan.call(aten.index.Tensor, x, [None, plan.constant(torch.tensor([1, 2]))])
    function = plan.output(clamped, pooled[0], index).load()

    def memory() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1])

    for _ in range(200):
        function([X, IMAGE])
    before = memory()
    for _ in range(5000):
        function([X, IMAGE])
    assert memory() - before < 500  # pages
