"""The boxed calling convention, sizes, views, copies and kernels."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from kiln import _kiln
from plans import FACTS, Plan, compile_kernels

aten = torch.ops.aten

needs_clang = pytest.mark.skipif(shutil.which("clang-19") is None, reason="makes its kernels with clang-19")

TWICE = """
KERNEL(twice) {
  const float* x = buffers[0];
  float* y = buffers[1];
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
}
"""
GATHER = """
KERNEL(gather) {
  const float* x = buffers[0];
  const int64_t* index = buffers[1];
  float* y = buffers[2];
  for (int64_t i = begin; i < end; ++i) {
    int64_t k = index[i];
    if (k < 0 || k >= sizes[0]) {
      __atomic_store_n(error, 1, __ATOMIC_RELAXED);
      continue;
    }
    y[i] = x[k];
  }
}
"""

X = torch.randn(4, 6)


def relu_plan(x: torch.Tensor = X) -> Any:
    plan = Plan(x)
    return plan.output(plan.call(aten.relu.default, plan.inputs[0])).load()


# --- calling ---


def test_boxed() -> None:
    function = relu_plan()
    assert function._boxed_call is True
    assert functools.wraps(function)(lambda args: None)._boxed_call is True  # what torch._dynamo.disable does
    assert function.__name__ == "inference"
    args = [X]
    [out] = function(args)
    assert args == []
    torch.testing.assert_close(out, X.relu())


def test_wrong_calls_are_type_errors_and_leave_the_list_alone() -> None:
    function = relu_plan()
    for bad in [(), ([X], 1), ((X,),), ([],), ([X, X],), ([1],), ([None],)]:
        with pytest.raises(TypeError):
            function(*bad)
    with pytest.raises(TypeError):
        function(args=[X])
    args = [X[:2]]
    with pytest.raises(RuntimeError, match="argument 0 has size 2 in dimension 0, the plan wants 4"):
        function(args)
    assert len(args) == 1
    with pytest.raises(RuntimeError, match="argument 0 has torch dtype 7, the plan wants FLOAT32"):
        function([X.double()])
    with pytest.raises(RuntimeError, match="argument 0 has 1 dimensions, the plan wants 2"):
        function([X[0]])


def test_meta_and_sparse_tensors_are_errors() -> None:
    plan = Plan(X)
    function = plan.output(plan.view(plan.inputs[0], X[0])).load()
    with pytest.raises(RuntimeError):
        function([torch.eye(4, 6).to_sparse()])


def test_parameters_and_subclasses_are_tensors() -> None:
    class Sub(torch.Tensor):
        pass

    for x in (torch.nn.Parameter(X), X.as_subclass(Sub)):
        [out] = relu_plan()([x])
        assert type(out) is torch.Tensor
        torch.testing.assert_close(out, X.relu())


def test_an_argument_that_is_an_output_is_the_same_object() -> None:
    plan = Plan(X, X)
    y = plan.call(aten.relu.default, plan.inputs[1])
    function = plan.output(plan.inputs[0], y, None, y, plan.inputs[0]).load()
    x = X.clone()
    out = function([x, X])
    assert out[0] is x and out[4] is x
    assert out[2] is None
    assert out[1] is out[3]


def test_a_function_outlives_its_artifact_and_the_plan() -> None:
    functions = [relu_plan() for _ in range(20)]
    for function in functions:
        torch.testing.assert_close(function([X]), [X.relu()])


def test_without_torchs_own_layout() -> None:
    """The slow ways from and to Python objects, which a torch of another layout would take: the same tests."""
    if "KILN_TEST_SLOW" in os.environ:
        assert not FACTS["borrowed_handles"] and not FACTS["wraps"]
        return
    assert FACTS["borrowed_handles"] and FACTS["wraps"] and FACTS["missing"] == []
    folder = os.path.dirname(__file__)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
        env={**os.environ, "KILN_TEST_SLOW": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout


def test_nested_and_concurrent_calls() -> None:
    library = torch.library.Library("kilntest3", "DEF")
    library.define("again(Tensor x, Scalar depth) -> Tensor")
    function: Any = None

    def again(x: torch.Tensor, depth: int) -> torch.Tensor:
        return function([x])[0] if function is not None and x[0, 0] < 4 else x.clone()

    library.impl("again", again, "CPU")
    plan = Plan(torch.zeros(2, 2))
    y = plan.call(aten.add.Tensor, plan.inputs[0], plan.constant(torch.ones(2, 2)))
    plan.output(plan.call(torch.ops.kilntest3.again.default, y, 1))
    function = plan.load()
    torch.testing.assert_close(function([torch.zeros(2, 2)]), [torch.full((2, 2), 4.0)])

    failures: list[Any] = []

    def worker(i: int) -> None:
        for _ in range(50):
            x = torch.full((2, 2), 4.0 + i)
            if not torch.equal(function([x])[0], x + 1):
                failures.append(i)

    threads = [threading.Thread(target=worker, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


# --- sizes ---


def test_symbolic_sizes() -> None:
    plan = Plan((2, 1000, 3), torch.randn(3, 4))
    s, x = plan.inputs
    plan.function.values[x.index].sizes[0] = s.index
    doubled = plan.expr("MUL", s, 2)
    cat = plan.call(aten.cat.default, [x, x], shapes=[([doubled, 4], [4, 1])])
    flat = plan.expr("MUL", doubled, 4)
    view = plan.call(aten.view.default, cat, [flat], shapes=[([flat], [1])])
    tail = plan.view(view, view.example[4:], offset=4, sizes=[plan.expr("ADD", flat, -4)], strides=[1])
    function = plan.output(tail, doubled).load()
    for n in range(2, 22):
        x = torch.randn(n, 4)
        out, size = function([n, x])
        assert size == 2 * n and type(size) is int
        torch.testing.assert_close(out, torch.cat([x, x]).reshape(-1)[4:], rtol=0, atol=0)
    with pytest.raises(RuntimeError, match=r"symbol s0 is 1; the plan is for \[2, 1000\]"):
        function([1, torch.randn(1, 4)])
    with pytest.raises(RuntimeError, match="argument 1 has size 4 in dimension 0, the plan wants 3"):
        function([3, torch.randn(4, 4)])
    with pytest.raises(TypeError):
        function([2.5, torch.randn(2, 4)])
    with pytest.raises(OverflowError):
        function([2**70, torch.randn(2, 4)])


def test_sizes_that_overflow_are_an_error() -> None:
    plan = Plan((0, 2**62, 8))
    function = plan.output(plan.expr("MUL", plan.inputs[0], 4)).load()
    assert function([10]) == [40]
    with pytest.raises(RuntimeError, match="overflows int64"):
        function([2**61])


def test_negative_and_huge_allocations_are_errors() -> None:
    plan = Plan((0, 2**62, 8))
    size = plan.expr("ADD", plan.inputs[0], -5)
    function = plan.output(plan.empty(torch.zeros(1), sizes=[size], strides=[1])).load()
    assert function([7])[0].shape == (2,)
    with pytest.raises(RuntimeError, match="is -5, want at least 0"):
        function([0])
    with pytest.raises(RuntimeError, match="allocation"):
        function([2**50])


# --- memory ---


def test_views_alias_their_bases() -> None:
    plan = Plan(X)
    base = plan.call(aten.clone.default, plan.inputs[0])
    column = plan.view(base, base.example[:, 2], offset=2)
    transposed = plan.view(base, base.example.t())
    of_argument = plan.view(plan.inputs[0], X[1], offset=6)
    plan.release(base)
    function = plan.output(column, transposed, of_argument).load()
    x = torch.randn(5, 6)[1:]  # with a storage offset
    a, b, c = function([x])
    torch.testing.assert_close(a, x[:, 2], rtol=0, atol=0)
    torch.testing.assert_close(b, x.t(), rtol=0, atol=0)
    a.fill_(7)
    assert (b[2] == 7).all()
    torch.testing.assert_close(c, x[1], rtol=0, atol=0)
    assert c.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_views_of_another_dtype() -> None:
    plan = Plan(X)
    bits = plan.view(plan.inputs[0], X.view(torch.int32))
    halves = plan.view(plan.inputs[0], X.view(torch.int16)[1], offset=12)
    function = plan.output(bits, halves).load()
    for x in (X, torch.randn(5, 6)[1:]):
        a, b = function([x])
        assert torch.equal(a, x.view(torch.int32))
        assert torch.equal(b, x.view(torch.int16)[1])


def test_views_outside_their_base_are_refused() -> None:
    plan = Plan(X)
    function = plan.output(plan.view(plan.inputs[0], X, offset=1)).load()
    with pytest.raises(RuntimeError, match="does not lie inside"):
        function([X])


def test_copies_write_in_place() -> None:
    """Updates of arguments: any strides, any dtype; the version counter is the caller's business."""
    plan = Plan(X, X)
    plan.copy(plan.inputs[0], plan.call(aten.relu.default, plan.inputs[1]))
    function = plan.output().load()
    to = torch.zeros(4, 6)
    version = to._version
    assert function([to, X]) == []
    torch.testing.assert_close(to, X.relu(), rtol=0, atol=0)
    assert to._version == version

    strided = torch.zeros(6, 4).t()
    plan = Plan(strided, X.double())
    plan.copy(plan.inputs[0], plan.inputs[1])
    plan.output().load()([strided, X.double()])
    torch.testing.assert_close(strided, X, rtol=0, atol=0)

    leaf = torch.zeros(4, 6, requires_grad=True)
    function([leaf, X])
    torch.testing.assert_close(leaf.detach(), X.relu(), rtol=0, atol=0)


def test_other_strides_are_copied_unless_written_to() -> None:
    plan = Plan(X)
    view = plan.view(plan.inputs[0], X.view(24))  # sees the memory, so that it must be in the plan's order
    function = plan.output(view).load()
    for x in (torch.randn(6, 4).t(), torch.randn(1, 1).expand(4, 6), torch.randn(4, 12)[:, ::2]):
        [out] = function([x])
        torch.testing.assert_close(out, x.reshape(24), rtol=0, atol=0)
    plan = Plan(X, X)
    plan.copy(plan.inputs[0], plan.inputs[1])
    with pytest.raises(RuntimeError, match="argument 0 is written in place and has other strides"):
        plan.output().load()([torch.zeros(6, 4).t(), X])


def test_constants() -> None:
    table = torch.arange(6.0)
    plan = Plan(X)
    function = plan.output(plan.call(aten.add.Tensor, plan.inputs[0], plan.constant(table))).load()
    torch.testing.assert_close(function([X]), [X + table], rtol=0, atol=0)


def test_empty_and_zero_dimensional_tensors() -> None:
    for x in (torch.tensor(3.0), torch.zeros(0, 5), torch.zeros(2, 0)):
        plan = Plan(x)
        out = plan.empty(x)
        plan.copy(out, plan.call(aten.neg.default, plan.inputs[0]))
        torch.testing.assert_close(plan.output(out).load()([x]), [-x])


# --- kernels ---


@needs_clang
def test_kernels_run_over_workspace_and_views() -> None:
    so = compile_kernels(TWICE)
    plan = Plan(X)
    scratch = plan.value("WORKSPACE", X, offset=64)
    plan.launch("twice", plan.inputs[0], scratch, extent=24)
    out = plan.empty(X)
    plan.launch("twice", scratch, out, extent=24)
    tail = plan.value("VIEW", X[3], base=out.index, offset=18)
    plan.launch("twice", plan.inputs[0], tail, extent=6)
    function = plan.output(out).load(so, workspace=64 + 24 * 4)
    expected = 4 * X
    expected[3] = 2 * X[0]
    for _ in range(3):
        torch.testing.assert_close(function([X]), [expected], rtol=0, atol=0)


@needs_clang
def test_kernels_run_on_all_threads() -> None:
    so = compile_kernels(TWICE)
    x = torch.randn(1 << 20)
    plan = Plan((1, 1 << 30, 1 << 20), x)
    n = plan.inputs[0]
    plan.function.values[1].sizes[0] = n.index
    out = plan.empty(x, sizes=[n], strides=[1])
    plan.launch("twice", plan.inputs[1], out, extent=n, grain=1000)
    function = plan.output(out).load(so)
    for size in (1, 999, 1000, 1001, 123457, 1 << 20):
        x = torch.randn(size)
        torch.testing.assert_close(function([size, x]), [2 * x], rtol=0, atol=0)


@needs_clang
def test_bad_index_raises_as_eager_does() -> None:
    so = compile_kernels(GATHER)
    x, index = torch.randn(10), torch.randint(0, 10, (5000,))
    plan = Plan(x, index)
    out = plan.empty(torch.zeros(5000))
    plan.launch("gather", *plan.inputs, out, sizes=[10], extent=5000, grain=100, origin=12)
    function = plan.output(out).load(so)
    torch.testing.assert_close(function([x, index]), [x[index]], rtol=0, atol=0)
    bad = index.clone()
    bad[4321] = 10
    with pytest.raises(IndexError, match=r"index out of range in self \(node 12, kernel gather, check 0\)"):
        function([x, bad])
    torch.testing.assert_close(function([x, index]), [x[index]], rtol=0, atol=0)


@needs_clang
def test_kernels_write_arguments_in_place() -> None:
    so = compile_kernels(TWICE)
    plan = Plan(X)
    plan.launch("twice", plan.inputs[0], plan.inputs[0], extent=24)
    function = plan.output().load(so, mutated=[0])
    x = X.clone()
    function([x])
    torch.testing.assert_close(x, 2 * X, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="written in place"):
        function([torch.zeros(6, 4).t()])


@needs_clang
def test_several_shared_objects_live_side_by_side() -> None:
    """Each is mapped from a memory file of its own, and descriptors are reused."""
    functions = []
    for factor in range(1, 6):
        plan = Plan(X)
        out = plan.empty(X)
        plan.launch("twice", plan.inputs[0], out, extent=24)
        functions.append(plan.output(out).load(compile_kernels(TWICE.replace("2 *", f"{factor} *"))))
    for factor, function in enumerate(functions, 1):
        torch.testing.assert_close(function([X]), [factor * X], rtol=0, atol=0)


# --- loading ---


def refused(artifact: Any, shared_object: bytes = b"") -> str:
    with pytest.raises(RuntimeError) as info:
        _kiln.load(artifact.SerializeToString(), shared_object, None)
    return str(info.value)


def test_artifacts_for_another_host_are_refused() -> None:
    def artifact() -> Any:
        plan = Plan(X)
        return plan.output(plan.inputs[0]).artifact()

    a = artifact()
    a.version = 4
    assert refused(a) == "the artifact is for artifact version 4, this is version 3"
    a = artifact()
    a.target.name = "sm_90"
    assert refused(a) == f"the artifact is for sm_90, this machine is {_kiln.host_target()}"
    a = artifact()
    a.target.host.torch_version = "2.12.0"
    assert refused(a) == f"the artifact is for torch 2.12.0, this is torch {torch.__version__.partition('+')[0]}"
    a = artifact()
    a.target.host.kiln_abi = 77
    assert refused(a).startswith("the artifact is for kiln ABI 77")
    with pytest.raises(RuntimeError, match=r"not a kiln\.v1\.Artifact"):
        _kiln.load(b"\xff\xff", b"", None)


@needs_clang
def test_shared_object_must_be_the_one_that_is_named() -> None:
    so = compile_kernels(TWICE)
    plan = Plan(X)
    out = plan.empty(X)
    plan.launch("twice", plan.inputs[0], out, extent=24)
    artifact = plan.output(out).artifact(so)
    flipped = bytes([*so[:-1], so[-1] ^ 1])
    assert refused(artifact, flipped).startswith("the shared object is not the one that the artifact names")
    assert refused(artifact).startswith("the shared object is not the one")
    artifact.kernels[0].symbol = "thrice"
    assert refused(artifact, so) == "the shared object has no thrice"
    artifact.ClearField("shared_object")
    assert refused(artifact) == "kernels but no shared_object"


def test_malformed_plans_are_refused() -> None:
    plan = Plan(X)
    artifact = plan.output(plan.call(aten.relu.default, plan.inputs[0])).artifact()
    artifact.functions[0].steps[0].external.args[0].value = 17
    assert refused(artifact) == "function inference: step 0: no value 17"
    artifact.ClearField("functions")
    assert refused(artifact) == "artifact: 0 functions"
