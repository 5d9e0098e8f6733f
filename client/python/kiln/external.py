"""The Python side of external calls: operators that the dispatcher's C interface cannot call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kiln.errors import KilnError
from kiln.proto import graph_pb2
from kiln.tensors import TORCH_DTYPES, TORCH_MEMORY_FORMATS


def python_call(op: str, schema: str, gpu: int = -1) -> Callable[..., Any]:
    """A callable for "aten.mm.default" that takes every argument by position, in schema order; element types, devices,
    layouts and memory formats as the numbers of proto/graph.proto, `gpu` being the CUDA device's own. KilnError if this
    torch has no such operator."""
    namespace, packet, overload = op.split(".")
    try:
        target = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except AttributeError:
        raise KilnError(f"this torch has no operator {op}") from None
    if str(target._schema) != schema:
        raise KilnError(f"operator {op} is {target._schema} here, but the graph was captured with {schema}")
    arguments = target._schema.arguments
    keywords = [(i, a.name) for i, a in enumerate(arguments) if a.kwarg_only]
    positional = len(arguments) - len(keywords)
    converters = [(i, convert) for i, a in enumerate(arguments) if (convert := _converter(a.real_type, gpu))]

    def call(*args: Any) -> Any:
        values = list(args)
        for i, convert in converters:
            if type(values[i]) is int:
                values[i] = convert(values[i])
        return target(*values[:positional], **{name: values[i] for i, name in keywords})

    return call


def _converter(type_: Any, gpu: int) -> Callable[[int], Any] | None:
    if type_.kind() == "OptionalType":
        type_ = type_.getElementType()
    if type_.kind() == "DeviceObjType":
        devices = {int(graph_pb2.CPU): torch.device("cpu"), int(graph_pb2.CUDA): torch.device("cuda", max(gpu, 0))}
        return devices.__getitem__
    return _CONVERTERS.get(type_.kind())


def _layout(number: int) -> torch.layout:
    if number != 0:
        raise KilnError(f"layout {number} is not strided")
    return torch.strided


_CONVERTERS: dict[str, Callable[[int], Any]] = {
    "ScalarTypeType": TORCH_DTYPES.__getitem__,
    "LayoutType": _layout,
    "MemoryFormatType": TORCH_MEMORY_FORMATS.__getitem__,
}
