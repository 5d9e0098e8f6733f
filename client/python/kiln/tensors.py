"""Element types, devices, layouts and tensor types on the wire."""

from __future__ import annotations

from typing import Any

import torch

from kiln.errors import CaptureError
from kiln.proto import graph_pb2
from kiln.symbols import SymTableBuilder

DTYPES: dict[torch.dtype, int] = {
    torch.bool: graph_pb2.BOOL,
    torch.uint8: graph_pb2.UINT8,
    torch.int8: graph_pb2.INT8,
    torch.int16: graph_pb2.INT16,
    torch.int32: graph_pb2.INT32,
    torch.int64: graph_pb2.INT64,
    torch.float16: graph_pb2.FLOAT16,
    torch.bfloat16: graph_pb2.BFLOAT16,
    torch.float32: graph_pb2.FLOAT32,
    torch.float64: graph_pb2.FLOAT64,
    torch.complex32: graph_pb2.COMPLEX32,
    torch.complex64: graph_pb2.COMPLEX64,
    torch.complex128: graph_pb2.COMPLEX128,
    torch.float8_e4m3fn: graph_pb2.FLOAT8_E4M3FN,
    torch.float8_e5m2: graph_pb2.FLOAT8_E5M2,
    torch.float8_e4m3fnuz: graph_pb2.FLOAT8_E4M3FNUZ,
    torch.float8_e5m2fnuz: graph_pb2.FLOAT8_E5M2FNUZ,
    torch.uint16: graph_pb2.UINT16,
    torch.uint32: graph_pb2.UINT32,
    torch.uint64: graph_pb2.UINT64,
}
TORCH_DTYPES: dict[int, torch.dtype] = {number: dtype for dtype, number in DTYPES.items()}

MEMORY_FORMATS: dict[torch.memory_format, int] = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
TORCH_MEMORY_FORMATS: dict[int, torch.memory_format] = {number: fmt for fmt, number in MEMORY_FORMATS.items()}


def dtype_number(dtype: torch.dtype) -> int:
    number = DTYPES.get(dtype)
    if number is None:
        raise CaptureError(f"dtype {dtype} is not supported")
    return number


_DEVICES = {"cpu": int(graph_pb2.CPU), "cuda": int(graph_pb2.CUDA)}


def device_number(device: torch.device) -> int:
    """The device's kind: a graph has one GPU at most, and its number is not part of what is compiled."""
    number = _DEVICES.get(device.type)
    if number is None:
        raise CaptureError(f"device {device} is not supported: CPUs and CUDA devices are")
    return number


class TypeTable:
    """Interns tensor types by first use into a repeated TensorType field; its sizes and strides go to `syms`."""

    def __init__(self, field: Any, syms: SymTableBuilder) -> None:
        self._field = field
        self._syms = syms
        self._index: dict[tuple[torch.dtype, int, tuple[int, ...], tuple[int, ...]], int] = {}

    def of(self, t: torch.Tensor) -> int:
        """Index of the type of a fake or real tensor. CaptureError for tensors that are more than sizes and strides."""
        _refuse_unusual(t)
        size = self._syms.size
        sizes = tuple([size(s) for s in t.shape])
        strides = tuple([size(s) for s in t.stride()])
        device = device_number(t.device)
        key = (t.dtype, device, sizes, strides)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self._field)
            self._field.add(dtype=dtype_number(t.dtype), device=device, sizes=sizes, strides=strides)
        return index


def _refuse_unusual(t: torch.Tensor) -> None:
    if t.layout is not torch.strided or t.is_nested:
        raise CaptureError(f"tensors of layout {'nested' if t.is_nested else t.layout} are not supported")
    if t.is_quantized:
        raise CaptureError("quantized tensors are not supported")
    if t.is_conj() or t.is_neg():
        raise CaptureError("tensors with a lazy conjugate or negative bit are not supported")
