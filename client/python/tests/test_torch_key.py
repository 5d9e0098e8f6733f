"""What a look-up is keyed by: forty changes of a program, those that must change the key and those that must not."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kiln.errors import CaptureError
from kiln.guards import EntryState
from kiln.lookup import Lookup
from kiln.proto import compile_pb2
from kiln.torch_graph import capture_torch
from torch import nn
from torch.nn import functional as F

_FACTOR = 3.0


@dataclasses.dataclass
class Program:
    """A call to capture."""

    f: Callable[..., Any]
    args: list[Any]
    context: Callable[[], Any] = contextlib.nullcontext
    dynamic: bool | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


def key_of(program: Program) -> bytes:
    keys: list[bytes] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        request = compile_pb2.CompileRequest(options=compile_pb2.Options(**program.options))
        lookup = Lookup(gm, example_inputs, EntryState.now(gm, example_inputs), request)
        keys.append(lookup.request.SerializeToString(deterministic=True))
        return gm.forward

    torch._dynamo.reset()
    with program.context():
        torch.compile(program.f, backend=backend, dynamic=program.dynamic)(*program.args)
    (key,) = keys
    return key


def rand(*sizes: int, grad: bool = False, **kw: Any) -> torch.Tensor:
    return torch.randn(*sizes, **kw).requires_grad_(grad)


def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).sin()


def renamed(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    product = left * right
    return product.sin()


def base() -> Program:
    return Program(f, [rand(3, 4, grad=True), rand(3, 4)])


def _with(x: torch.Tensor, y: torch.Tensor) -> Program:
    return Program(f, [x, y])


def _in(context: Callable[[], Any]) -> Program:
    return dataclasses.replace(base(), context=context)


@contextlib.contextmanager
def _setting(set_: Callable[[Any], Any], value: Any, before: Any) -> Any:
    set_(value)
    try:
        yield
    finally:
        set_(before)


def _sharing() -> Program:
    x = rand(3, 4, grad=True)
    return _with(x, x.detach())


def _global_factor(value: float) -> Program:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * _FACTOR

    @contextlib.contextmanager
    def context() -> Any:
        globals()["_FACTOR"] = value
        yield
        globals()["_FACTOR"] = 3.0

    return Program(scaled, [rand(3, 4)], context)


def _closure(value: Any) -> Program:
    return Program(lambda x: x + value, [rand(4)])


def _literal(values: list[float]) -> Program:
    return Program(lambda x: x + torch.tensor(values), [rand(4)])


def _array(values: Any) -> Program:
    return Program(lambda x: x + torch.from_numpy(values), [rand(4)])


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.other = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, query: torch.Tensor) -> torch.Tensor:
        return self.other[0](query)


def _frozen() -> Program:
    model = Plain()
    model.lin.weight.requires_grad_(False)
    return Program(model, [rand(3, 4)])


def _hooked() -> Program:
    model = Plain()
    model.lin.weight.register_hook(lambda g: g * 2)
    return Program(model, [rand(3, 4)])


def _tied() -> Program:
    model = Plain()
    model.lin.bias = nn.Parameter(model.lin.weight.detach()[0])
    return Program(model, [rand(3, 4)])


def _dropout(p: float, training: bool = True) -> Program:
    return Program(nn.Dropout(p).train(training), [rand(3, 4)])


def _square(n: int, dynamic: bool | None = True) -> Program:
    return Program(lambda x: (x @ x.t()).relu(), [rand(n, 4)], dynamic=dynamic)


def _two(second: tuple[int, int]) -> Program:
    return Program(lambda x, y: x.sum() + y.sum(), [rand(5, 6), rand(*second)], dynamic=True)


def _bounded(max_: int | None) -> Program:
    x = rand(8, 4)
    if max_ is None:
        torch._dynamo.mark_dynamic(x, 0)
    else:
        torch._dynamo.mark_dynamic(x, 0, min=2, max=max_)
    return Program(lambda x: x.sin(), [x])


def _complex(args: Callable[[torch.Tensor], Any]) -> Program:
    return Program(args, [rand(2, 3, 4, 5)])


def _inference_tensor() -> Program:
    with torch.inference_mode():
        y = rand(3, 4)
    return Program(lambda x: x.sin(), [y], torch.no_grad)


SAME: dict[str, tuple[Callable[[], Program], Callable[[], Program]]] = {
    "other tensors": (base, base),
    "other names": (base, lambda: Program(renamed, [rand(3, 4, grad=True), rand(3, 4)])),
    "closure tensor's values": (lambda: _closure(torch.ones(4)), lambda: _closure(torch.zeros(4))),
    "numpy array's values": (
        lambda: _array(np.ones(4, dtype=np.float32)),
        lambda: _array(np.zeros(4, dtype=np.float32)),
    ),
    "parameter paths and class": (lambda: Program(Plain(), [rand(3, 4)]), lambda: Program(Nested(), [rand(3, 4)])),
    "a hook on a weight": (lambda: Program(Plain(), [rand(3, 4)]), _hooked),
    "a dynamic size's value": (lambda: _square(5), lambda: _square(7)),
    "a directory of functorch's": (
        base,
        lambda: _in(lambda: torch._functorch.config.patch(memory_budget_pareto_dir="/tmp/elsewhere")),
    ),
    "threads": (base, lambda: _in(lambda: _setting(torch.set_num_threads, 1, torch.get_num_threads()))),
    "random seed": (base, lambda: _in(lambda: _setting(torch.manual_seed, 7, 0))),
    "gradients that are there": (base, lambda: _with(_with_gradient(), rand(3, 4))),
}


def _with_gradient() -> torch.Tensor:
    x = rand(3, 4, grad=True)
    x.grad = torch.ones_like(x)
    return x


DIFFERENT: dict[str, tuple[Callable[[], Program], Callable[[], Program]]] = {
    "which input requires grad": (base, lambda: _with(rand(3, 4), rand(3, 4, grad=True))),
    "no input requires grad": (base, lambda: _with(rand(3, 4), rand(3, 4))),
    "strides": (base, lambda: _with(rand(3, 4, grad=True), rand(4, 3).t())),
    "sizes": (base, lambda: _with(rand(3, 5, grad=True), rand(3, 5))),
    "dtype": (base, lambda: _with(rand(3, 4, grad=True), rand(3, 4, dtype=torch.float64))),
    "a leaf or not": (
        lambda: _with(rand(3, 4, grad=True), rand(3, 4, grad=True)),
        lambda: _with(rand(3, 4, grad=True), rand(3, 4, grad=True) * 1),
    ),
    "a storage that two share": (base, _sharing),
    "a parameter or not": (base, lambda: _with(rand(3, 4, grad=True), nn.Parameter(rand(3, 4), False))),
    "storage offset": (base, lambda: _with(rand(3, 4, grad=True), rand(24)[12:].view(3, 4))),
    "a view or not": (base, lambda: _with(rand(3, 4, grad=True), rand(12).view(3, 4))),
    "no_grad": (base, lambda: _in(torch.no_grad)),
    "inference tensor": (lambda: Program(lambda x: x.sin(), [rand(3, 4)], torch.no_grad), _inference_tensor),
    "autocast": (base, lambda: _in(lambda: torch.autocast("cpu", dtype=torch.bfloat16))),
    "autocast's dtype": (
        lambda: _in(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
        lambda: _in(lambda: torch.autocast("cpu", dtype=torch.float16)),
    ),
    "deterministic algorithms": (
        base,
        lambda: _in(lambda: _setting(torch.use_deterministic_algorithms, True, False)),
    ),
    "default dtype": (
        base,
        lambda: dataclasses.replace(
            base(), context=lambda: _setting(torch.set_default_dtype, torch.float64, torch.float32)
        ),
    ),
    "matmul precision": (
        base,
        lambda: _in(lambda: _setting(torch.set_float32_matmul_precision, "medium", "highest")),
    ),
    "a global float": (lambda: _global_factor(3.0), lambda: _global_factor(4.0)),
    "a closure's int": (lambda: _closure(1), lambda: _closure(2)),
    "an int and a float": (lambda: _closure(1), lambda: _closure(1.0)),
    "a literal's values": (lambda: _literal([1.0, 2.0, 3.0, 4.0]), lambda: _literal([1.0, 2.0, 3.0, 5.0])),
    "minus zero": (
        lambda: Program(lambda x: torch.clamp(x, min=0.0), [rand(4)]),
        lambda: Program(lambda x: torch.clamp(x, min=-0.0), [rand(4)]),
    ),
    "dropout's probability": (lambda: _dropout(0.5), lambda: _dropout(0.4)),
    "training or not": (lambda: _dropout(0.5), lambda: _dropout(0.5, False)),
    "a frozen weight": (lambda: Program(Plain(), [rand(3, 4)]), _frozen),
    "tied parameters": (lambda: Program(Plain(), [rand(3, 4)]), _tied),
    "dynamic or static": (lambda: _square(5), lambda: _square(5, False)),
    "which sizes are equal": (lambda: _two((5, 7)), lambda: _two((7, 6))),
    "a dynamic size's range": (lambda: _bounded(None), lambda: _bounded(64)),
    "an index's step": (lambda: _complex(lambda x: x[..., ::2]), lambda: _complex(lambda x: x[..., ::3])),
    "an ellipsis": (lambda: _complex(lambda x: x[..., 0]), lambda: _complex(lambda x: x[0, ...])),
    "a method's name": (lambda: _complex(lambda x: x.sin()), lambda: _complex(lambda x: x.cos())),
    "a keyword": (lambda: _complex(lambda x: x.sum(dim=1)), lambda: _complex(lambda x: x.sum(dim=1, keepdim=True))),
    "a function of another module": (
        lambda: Program(lambda x: torch.softmax(x, 1), [rand(3, 4)]),
        lambda: Program(lambda x: F.softmax(x, 1), [rand(3, 4)]),
    ),
    "how tangents are laid out": (
        base,
        lambda: _in(lambda: torch._functorch.config.patch(guess_tangent_strides_as_outputs=False)),
    ),
    "memory budget": (base, lambda: dataclasses.replace(base(), options={"memory_budget": 0.5})),
    "order of outputs": (
        lambda: _complex(lambda x: (x.sin(), x.cos())),
        lambda: _complex(lambda x: (x.sin(), x.cos())[::-1]),
    ),
    "pooling with indices": (
        lambda: _complex(lambda x: F.max_pool2d(x, 2)),
        lambda: _complex(lambda x: F.max_pool2d(x, 2, return_indices=True)[0]),
    ),
}


def test_there_are_forty() -> None:
    assert len(SAME) + len(DIFFERENT) >= 40


@pytest.mark.parametrize("change", SAME)
def test_key_stays(change: str) -> None:
    before, after = SAME[change]
    assert key_of(before()) == key_of(after())


@pytest.mark.parametrize("change", DIFFERENT)
def test_key_changes(change: str) -> None:
    before, after = DIFFERENT[change]
    assert key_of(before()) != key_of(after())


def test_same_bytes_in_every_process() -> None:
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_torch_key import Program, _literal, _square, base, key_of, nn, rand, torch
from torch.utils.checkpoint import checkpoint
import hashlib
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0]
for make in (base, lambda: _square(5), lambda: _literal([1.0, 2.0, 3.0, 4.0]),
             lambda: Program(lambda x: checkpoint(lambda y: y.sin(), x, use_reentrant=False), [rand(3, grad=True)]),
             lambda: Program(lambda x: Square.apply(x) + 1, [rand(3, grad=True)]),
             lambda: Program(nn.TransformerEncoderLayer(8, 2, 16), [rand(3, 2, 8)])):
    print(hashlib.sha256(key_of(make())).hexdigest())
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE, text=True, check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert len(runs[0]) == 6
    assert runs[0] == runs[1]


def _refused(program: Program) -> str:
    with pytest.raises(Exception) as error:
        key_of(program)
    cause: BaseException | None = error.value
    while cause is not None and not isinstance(cause, CaptureError):
        cause = cause.__cause__ or cause.__context__
    return str(cause or error.value)


def test_what_the_graph_does_not_pin_down_has_no_key() -> None:
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    torch._dynamo.allow_in_graph(wrapped)
    assert "which is not torch's own" in _refused(Program(lambda x: wrapped(x), [rand(3)]))

    @torch.library.custom_op("kiln_test_key::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    assert "another library" in _refused(Program(lambda x: torch.ops.kiln_test_key.twice(x), [rand(3)]))


def test_what_has_no_key_says_why() -> None:
    def hooked(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return y.sin()

    assert "returns a value which is in no tuple" in _refused(Program(hooked, [rand(3).requires_grad_()]))
    cubed = Program(lambda x: torch.func.grad(lambda y: (y**3).sum())(x), [rand(3)])
    assert "calls torch._C._autograd._saved_tensors_hooks_disable, of which" in _refused(cubed)


def test_a_function_that_only_looks_like_torchs_has_no_key() -> None:
    def gelu(x: torch.Tensor) -> torch.Tensor:
        return x

    gelu.__module__, gelu.__qualname__, gelu.__name__ = "torch.nn.functional", "gelu", "gelu"
    torch._dynamo.allow_in_graph(gelu)
    assert "which is not torch's own" in _refused(Program(lambda x: gelu(x), [rand(3)]))


def _save_all(_context: Any, _op: Any, *_args: Any, **_kwargs: Any) -> Any:
    return torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE


def test_a_checkpoint_whose_policy_is_code_has_no_key() -> None:
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    contexts = functools.partial(create_selective_checkpoint_contexts, _save_all)

    def run(x: torch.Tensor) -> Any:
        return checkpoint(lambda y: y.sin(), x, use_reentrant=False, context_fn=contexts)

    assert "_checkpoint_context_fn" in _refused(Program(run, [rand(3, grad=True)]))


class Wrapped(torch.Tensor):
    """A subclass of the user's own, whose functions may be anybody's."""


def test_a_pass_over_the_joint_graph_leaves_no_key() -> None:
    with torch._functorch.config.patch(joint_custom_pass=lambda gm, inputs: gm):
        assert "joint_custom_pass" in _refused(base())


def test_a_tensor_subclass_has_no_key() -> None:
    assert "input 0 is a Wrapped" in _refused(Program(lambda x: x.sin(), [rand(3).as_subclass(Wrapped)]))


@pytest.mark.parametrize(
    ("value", "reason"),
    [(nn.Parameter(torch.ones(2)), "is a Parameter"), (torch.ones(1 << 19), "constant w has 2097152 bytes")],
)
def test_parameters_and_large_constants_within_a_graph_have_no_key(value: torch.Tensor, reason: str) -> None:
    graph = torch.fx.Graph()
    graph.output((graph.get_attr("w"),))
    with pytest.raises(CaptureError, match=reason):
        capture_torch(torch.fx.GraphModule({"w": value}, graph))


def test_nans_and_infinities_are_told_apart() -> None:
    keys = {key_of(Program(lambda x, v=v: x + v, [rand(4)])) for v in (math.inf, -math.inf, math.nan, 0.0)}
    assert len(keys) == 4
