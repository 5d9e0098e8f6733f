"""What an operator is tried on: some of OpInfo's own samples, with empty, single and non-contiguous tensors among them.

Seeded by the operator's name and dtype, so that a row is the same whatever runs before it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, SampleInput, UnaryUfuncInfo
from torch.utils import _pytree as pytree

# "cpu" or "cuda": of a whole run, its worker processes included.
DEVICE = os.environ.get("KILN_OPINFO_DEVICE", "cpu")

MOST = 12  # and one more of special values
_LOOKED_AT = 80
_MOST_ELEMENTS = 100_000  # of a sample's tensors: the table is about values, not speed

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}


@dataclasses.dataclass
class Sample:
    """One call. `leaves` are its tensors, in the order of `spec`; `process` picks what is differentiated."""

    op: Any
    leaves: list[Any]
    spec: Any
    process: Callable[[Any], Any]

    def call(self, tensors: list[Tensor]) -> list[Tensor]:
        """The tensors among the results, with these tensors in place of the sample's own."""
        supply = iter(tensors)
        leaves = [next(supply) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        out = self.process(self.op(first, *args, **kwargs))
        return [r for r in pytree.tree_leaves(out) if isinstance(r, Tensor)]

    @property
    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]


def seed(op: Any, dtype: str) -> int:
    return zlib.crc32(f"{op.name} {op.variant_test_name} {dtype}".encode())


def differentiable(op: Any, dtype: str) -> bool:
    return op.supports_autograd and DTYPES[dtype] in op.supported_backward_dtypes(DEVICE)


def supported(op: Any, dtype: str) -> bool:
    return DTYPES[dtype] in op.supported_dtypes(DEVICE)


def samples_of(op: Any, dtype: str) -> list[Sample]:
    torch.manual_seed(seed(op, dtype))
    random.seed(seed(op, dtype))
    generated = op.sample_inputs(DEVICE, DTYPES[dtype], requires_grad=differentiable(op, dtype))
    looked_at = [s for s in itertools.islice(generated, _LOOKED_AT) if _is_small(s)]
    return [_flat(op, s) for s in [*_chosen(looked_at), *_special(op, dtype)]]


def _special(op: Any, dtype: str) -> list[Any]:
    """For functions of elements: every pair of NaN, infinities, zeros and extremes."""
    if not isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo):
        return []
    values = _special_values(DTYPES[dtype])
    pairs = list(itertools.product(values, values))
    columns = [torch.tensor(column, dtype=DTYPES[dtype], device=DEVICE) for column in zip(*pairs, strict=True)]
    for column in columns:
        column.requires_grad_(differentiable(op, dtype))
    if isinstance(op, UnaryUfuncInfo):
        return [SampleInput(columns[1], kwargs=op.sample_kwargs(DEVICE, DTYPES[dtype], columns[1])[0])]
    return [SampleInput(columns[0], args=(columns[1],))]


def _special_values(dtype: torch.dtype) -> list[Any]:
    if dtype == torch.bool:
        return [False, True]
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return [info.min, info.max, 0, 1, 2, 7, info.max // 2] + ([-1, -2] if info.min < 0 else [])
    finite = torch.finfo(dtype)
    inf = float("inf")
    return [float("nan"), inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, finite.tiny, finite.max, finite.min]


def _chosen(samples: list[Any]) -> list[Any]:
    """Evenly spread ones, one with an empty tensor, one with a tensor of one element, two made non-contiguous."""
    picked: dict[int, Any] = {}
    for wanted in (0, 1):
        found = next((s for s in samples if any(t.numel() == wanted and t.dim() for t in _tensors(s))), None)
        if found is not None:
            picked[id(found)] = found
    step = max(1, -(-len(samples) // (MOST - 4)))
    for sample in samples[::step]:
        picked[id(sample)] = sample
    out = list(picked.values())[: MOST - 2]
    strided = [s for s in samples if any(t.numel() > 1 for t in _tensors(s))]
    return out + [s for s in map(_noncontiguous, strided[:1] + strided[len(strided) // 2 :][:1]) if s is not None]


def _noncontiguous(sample: Any) -> Any:
    try:
        return sample.noncontiguous()
    except Exception:  # some samples hold what OpInfo cannot make over
        return None


def _tensors(sample: Any) -> Iterable[Tensor]:
    return [x for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(x, Tensor)]


def _is_small(sample: Any) -> bool:
    return all(t.layout == torch.strided and t.numel() <= _MOST_ELEMENTS for t in _tensors(sample))


def _flat(op: Any, sample: Any) -> Sample:
    leaves, spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    return Sample(op.op, leaves, spec, sample.output_process_fn_grad)
