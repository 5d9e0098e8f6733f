"""Values of a trace whose fake tensor has another element type than the real one will have.

ATen's norms on the CPU keep their statistics in float32 where a low-precision input meets float32 parameters, as it
does under autocast; their meta functions say the input's type. The trace is put right, so that all read the same.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

_LOW_PRECISION = frozenset({torch.float16, torch.bfloat16})


def actual_value(node: fx.Node) -> Any:
    """`meta["val"]` of a call, corrected in place where need be. Nodes must be visited in order."""
    value = node.meta.get("val")
    correct = _CORRECTIONS.get(node.target)
    if correct is not None and isinstance(value, torch.Tensor | tuple | list):
        value = node.meta["val"] = correct(node, value)
    return value


def _norm(node: fx.Node, value: Any) -> Any:
    if value[0].dtype not in _LOW_PRECISION or not _has_float32(node):
        return value
    return (value[0], *(as_dtype(statistic, torch.float32) for statistic in value[1:3]), *value[3:])


def _item(node: fx.Node, value: Any) -> Any:
    source, index = node.args
    actual = source.meta["val"][index]
    return actual if isinstance(actual, torch.Tensor) and actual.dtype is not value.dtype else value


def _same_dtype(node: fx.Node, value: Any) -> Any:
    return as_dtype(value, node.args[0].meta["val"].dtype)


def _has_float32(node: fx.Node) -> bool:
    values = (a.meta.get("val") for a in node.args if isinstance(a, fx.Node))
    return any(isinstance(v, torch.Tensor) and v.dtype is torch.float32 for v in values)


def as_dtype(value: Any, dtype: torch.dtype) -> Any:
    """A fake tensor like `value`, of another dtype."""
    if value.dtype is dtype:
        return value
    with value.fake_mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=value.device)


_aten = torch.ops.aten
_CORRECTIONS = {
    _aten.native_layer_norm.default: _norm,
    _aten.native_group_norm.default: _norm,
    _aten._native_batch_norm_legit_functional.default: _norm,
    _aten._native_batch_norm_legit.no_stats: _norm,
    _aten._native_batch_norm_legit_no_training.default: _norm,
    _aten.detach.default: _same_dtype,
    _aten.alias.default: _same_dtype,
    operator.getitem: _item,
}
