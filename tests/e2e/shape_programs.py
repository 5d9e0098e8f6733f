"""Programs that are called with one size after another.

    python tests/e2e/shape_programs.py BACKEND

Prints, as JSON, for each program how many graphs were compiled and what the calls gave. BACKEND may be "none".
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Shape = tuple[int, ...]


@dataclasses.dataclass
class Program:
    f: Callable[..., Any]
    calls: Sequence[Sequence[Shape]]  # of each call, the shapes of the inputs
    dynamic: bool | None = None
    mark: Callable[[list[Tensor]], None] | None = None
    integers: int = 0  # inputs are below it, if it is not 0
    grad: bool = True


PROGRAMS: dict[str, Callable[[], Program]] = {}


def _add(name: str, make: Callable[[], Program]) -> None:
    assert name not in PROGRAMS
    PROGRAMS[name] = make


def _sizes(*first: int, rest: Shape = ()) -> list[list[Shape]]:
    return [[(n, *rest)] for n in first]


def _both(sizes: Sequence[int], rest: Shape) -> list[list[Shape]]:
    return [[(n, *rest), (n, *rest)] for n in sizes]


def _marked(*dims: int, **bounds: Any) -> Callable[[list[Tensor]], None]:
    def mark(inputs: list[Tensor]) -> None:
        for x in inputs:
            for d in dims:
                torch._dynamo.mark_dynamic(x, d, **bounds)

    return mark


def _static(inputs: list[Tensor]) -> None:
    for x in inputs:
        torch._dynamo.mark_static(x, 0)


def _unbacked(inputs: list[Tensor]) -> None:
    torch._dynamo.decorators.mark_unbacked(inputs[0], 0)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


_BATCHES = (5, 7, 9, 12)
_POINTWISE: dict[str, Callable[..., Any]] = {
    "sine": lambda x: x.sin() * 2,
    "softmax": lambda x: torch.softmax(x, -1),
    "mean": lambda x: x.mean(0) + x.sum(),
    "view": lambda x: x.view(-1) * x.shape[0],
    "transposed": lambda x: x.t().contiguous().relu(),
    "sliced": lambda x: x[1:] * x[:-1],
    "size as a value": lambda x: x / x.shape[0],
    "norm": lambda x: F.layer_norm(x, (8,)),
    "branch on a size": lambda x: x.sin() if x.shape[0] > 8 else x.cos(),
    "cat with itself": lambda x: torch.cat([x, x.exp()]),
    "padded": lambda x: F.pad(x, (1, 2)).tanh(),
    "expanded": lambda x: x.unsqueeze(0).expand(3, -1, -1).sum(0),
    "split": lambda x: [c * 2 for c in x.chunk(2, 1)],
    "views as outputs": lambda x: (x.view(-1), x * 2),
    "triangle": lambda x: torch.tril(x @ x.t()),
    "cumulated": lambda x: x.cumsum(0),
}
for _name, _f in _POINTWISE.items():
    _add(_name, lambda f=_f: Program(f, _sizes(*_BATCHES, rest=(8,))))
    if _name in ("sine", "softmax", "view", "norm", "triangle", "sliced"):
        _add(f"{_name}, dynamic", lambda f=_f: Program(f, _sizes(*_BATCHES, rest=(8,)), dynamic=True))

_add("sine, static", lambda: Program(_POINTWISE["sine"], _sizes(5, 7, 5, 7, rest=(8,)), dynamic=False))
_add("size one", lambda: Program(_POINTWISE["sine"], _sizes(5, 1, 7, 1, rest=(8,))))
_add("size zero", lambda: Program(_POINTWISE["sine"], _sizes(5, 0, 7, rest=(8,))))
_add("both dims", lambda: Program(_POINTWISE["softmax"], [[(4, 6)], [(5, 7)], [(6, 9)], [(9, 6)]]))
_add("marked", lambda: Program(_POINTWISE["sine"], _sizes(*_BATCHES, rest=(8,)), mark=_marked(0)))
_add(
    "marked, bounded", lambda: Program(_POINTWISE["sine"], _sizes(*_BATCHES, rest=(8,)), mark=_marked(0, min=2, max=64))
)
_add("marked static", lambda: Program(_POINTWISE["sine"], _sizes(5, 7, 5, rest=(8,)), mark=_static))
_add("unbacked", lambda: Program(_POINTWISE["softmax"], _sizes(5, 1, 0, 9, rest=(8,)), mark=_unbacked))
_add(
    "unbacked, linear",
    lambda: Program(nn.Sequential(nn.Linear(8, 8), nn.GELU()), _sizes(5, 1, 9, rest=(8,)), mark=_unbacked),
)
_add("add", lambda: Program(lambda a, b: a + b, _both(_BATCHES, (4,))))
_add("broadcast", lambda: Program(lambda a, b: a * b, [[(n, 4), (4,)] for n in _BATCHES]))
_add("sum of two sizes", lambda: Program(lambda a, b: a.sum() + b.sum(), [[(n, 4), (n + 2, 4)] for n in _BATCHES]))
_add("matrix product", lambda: Program(lambda a, b: (a @ b).relu(), [[(n, 6), (6, n + 1)] for n in _BATCHES]))
_add(
    "batched product",
    lambda: Program(lambda a, b: torch.softmax(a @ b, -1), [[(3, n, 4), (3, 4, n)] for n in _BATCHES]),
)
_add(
    "attention, marked",
    lambda: Program(attend, [[(2, 2, n, 8)] * 3 for n in (9, 11, 14)], mark=_marked(0, 2)),
)
_add("attention", lambda: Program(attend, [[(2, 2, n, 8)] * 3 for n in (9, 11, 14)]))
_add(
    "attention of other keys",
    lambda: Program(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        [[(2, 2, n, 8), (2, 2, m, 8), (2, 2, m, 8)] for n, m in ((9, 9), (11, 11), (9, 12), (7, 10))],
        dynamic=True,
    ),
)
_add(
    "convolution with strides",
    lambda: Program(nn.Conv2d(3, 4, 3, stride=2), [[(2, 3, n, n)] for n in (16, 18, 21, 4, 3)], mark=_marked(0, 2, 3)),
)
_add("convolution", lambda: Program(nn.Conv2d(3, 4, 3, padding=1), [[(n, 3, 8, 8)] for n in _BATCHES]))
_add("pooling", lambda: Program(lambda x: F.adaptive_avg_pool2d(x, (3, 3)), [[(1, 2, 6, n)] for n in (6, 9, 12)]))
_add(
    "linear", lambda: Program(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)), _sizes(*_BATCHES, rest=(8,)))
)
_add("embedding", lambda: Program(nn.Embedding(10, 8), _sizes(*_BATCHES, rest=(3,)), integers=10, grad=False))
_add(
    "mutation",
    lambda: Program(lambda a, b: (a.add_(1), a * b)[1], _both(_BATCHES, (4,)), grad=False),
)
_add("an encoder", lambda: Program(nn.TransformerEncoderLayer(8, 2, 16, 0.0), [[(n, 2, 8)] for n in _BATCHES]))


def main() -> None:
    warnings.filterwarnings("ignore")
    import kiln

    backend = sys.argv[1]
    results: dict[str, Any] = {}
    options = {"options": {"strict": True}} if backend == "kiln" else {}
    for name, make in PROGRAMS.items():
        torch.manual_seed(0)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        kiln.reset()
        program = make()
        call = program.f
        if backend != "none":
            call = torch.compile(program.f, backend=backend, dynamic=program.dynamic, **options)
        answers: list[Any] = []
        for shapes in program.calls:
            inputs = [torch.randint(program.integers, s) if program.integers else torch.randn(s) for s in shapes]
            for x in inputs:
                x.requires_grad_(program.grad)
            if program.mark is not None:
                program.mark(inputs)
            try:
                outputs = call(*inputs)
            except Exception as e:
                answers.append(f"{type(e).__name__}: {e}".splitlines()[0])
                continue
            outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            loss = sum((o.float() * (i + 1)).sum() for i, o in enumerate(outputs))
            if loss.requires_grad:
                loss.backward()
            answers.append(
                [[o.double().tolist() for o in outputs], [x.grad.tolist() for x in inputs if x.grad is not None]]
            )
        results[name] = {
            "answers": answers,
            "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
            "compiles": kiln.counters()["compiles"],
            "traced": kiln.counters()["traced"],
        }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
