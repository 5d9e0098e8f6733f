"""Operators and their arguments on the wire: schema order, defaults filled in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from kiln.errors import CaptureError
from kiln.symbols import SymTableBuilder
from kiln.tensors import MEMORY_FORMATS, TORCH_MEMORY_FORMATS, device_number, dtype_number

# Writes to an input: what AOTAutograd leaves at the end of a graph. Any other mutating operator is refused.
COPY = torch.ops.aten.copy_.default

# Schemas give the defaults of such arguments as torch's own numbers.
_NUMBERED: dict[str, dict[int, Any]] = {
    "MemoryFormatType": TORCH_MEMORY_FORMATS,
    "ScalarTypeType": {4: torch.int64},
}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One argument of a schema. `kind` and `item` are torch's type kinds, of the value and of a list's items."""

    name: str
    kind: str
    item: str
    default: Any  # what fills the place of an argument that is not given; None too where it must be given


@dataclasses.dataclass(frozen=True)
class Operator:
    name: str  # "aten.add.Tensor"
    schema: str
    parameters: tuple[Parameter, ...]
    is_factory: bool  # takes no tensor: its element type may be the caller's default one


_operators: dict[torch._ops.OpOverload, Operator] = {}


def operator_of(op: torch._ops.OpOverload) -> Operator:
    """Cached: an overload's schema never changes."""
    found = _operators.get(op)
    if found is None:
        found = _operators[op] = _describe(op)
    return found


def _describe(op: torch._ops.OpOverload) -> Operator:
    schema = op._schema
    if schema.is_mutable and op is not COPY:
        raise CaptureError(f"{op} writes to its arguments")
    parameters = []
    for argument in schema.arguments:
        kind, item = _kinds(argument.real_type)
        default = argument.default_value if argument.has_default_value() else None
        parameters.append(Parameter(argument.name, kind, item, default))
    is_factory = not any("TensorType" in (p.kind, p.item) for p in parameters)
    return Operator(str(op), str(schema), tuple(parameters), is_factory)


def _kinds(type_: Any) -> tuple[str, str]:
    """ "SymIntType" and "", or "ListType" and the items' kind; an Optional counts as what it holds."""
    if type_.kind() == "OptionalType":
        type_ = type_.getElementType()
    kind = type_.kind()
    if kind != "ListType":
        return kind, ""
    return kind, _kinds(type_.getElementType())[0]


class ArgEncoder:
    """Writes arguments into Arg messages. `value_of` gives the value id of a node that is a tensor."""

    def __init__(self, syms: SymTableBuilder, value_of: Callable[[fx.Node], int]) -> None:
        self._syms = syms
        self._value_of = value_of

    def encode_call(self, field: Any, operator: Operator, node: fx.Node) -> None:
        """Appends all of the call's arguments to `field`. A factory's element type is always there, so that no graph
        depends on torch's default dtype."""
        args, kwargs = node.args, node.kwargs
        given = len(args)
        for i, p in enumerate(operator.parameters):
            arg = args[i] if i < given else kwargs.get(p.name, p.default)
            if arg is None and operator.is_factory and p.kind == "ScalarTypeType":
                arg = getattr(node.meta.get("val"), "dtype", None)
            if isinstance(arg, list | tuple):
                items = field.add().list
                items.SetInParent()
                for item in arg:
                    self._encode(items.items.add(), item, p.item, p)
            else:
                self._encode(field.add(), arg, p.kind, p)

    def _encode(self, out: Any, arg: Any, kind: str, p: Parameter) -> None:
        if isinstance(arg, fx.Node):
            self._encode_node(out, arg, p)
            return
        encode = _ENCODERS.get(type(arg))
        if encode is not None:
            encode(out, arg, kind)
        elif isinstance(arg, torch.SymInt):
            out.sym = self._syms.size(arg)
        else:
            raise CaptureError(f"argument {p.name} is a {type(arg).__name__}")

    def _encode_node(self, out: Any, node: fx.Node, p: Parameter) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            out.value = self._value_of(node)
        elif isinstance(value, torch.SymInt):
            out.sym = self._syms.size(value)
        elif type(value) in (int, bool, float):  # a size that torch has specialised
            _ENCODERS[type(value)](out, value, p.item or p.kind)
        else:
            raise CaptureError(f"argument {p.name} is a {type(value).__name__} ({node.name})")


def _encode_none(out: Any, _arg: None, _kind: str) -> None:
    out.none.SetInParent()


def _encode_bool(out: Any, arg: bool, kind: str) -> None:
    out.b = arg


def _encode_int(out: Any, arg: int, kind: str) -> None:
    if kind == "FloatType":
        out.f = arg
    elif kind == "BoolType":
        out.b = bool(arg)
    elif kind in _NUMBERED:  # a schema's default
        value = _NUMBERED[kind].get(arg)
        _ENCODERS[type(value)](out, value, kind)
    elif not -(1 << 63) <= arg < 1 << 63:
        raise CaptureError(f"integer {arg} does not fit in 64 bits")
    else:
        out.i = arg


def _encode_float(out: Any, arg: float, _kind: str) -> None:
    out.f = arg


def _encode_str(out: Any, arg: str, _kind: str) -> None:
    out.s = arg


def _encode_dtype(out: Any, arg: torch.dtype, _kind: str) -> None:
    out.dtype = dtype_number(arg)


def _encode_device(out: Any, arg: torch.device, _kind: str) -> None:
    out.device = device_number(arg)


def _encode_layout(out: Any, arg: torch.layout, _kind: str) -> None:
    if arg is not torch.strided:
        raise CaptureError(f"layout {arg} is not supported")
    out.layout = 0


def _encode_memory_format(out: Any, arg: torch.memory_format, _kind: str) -> None:
    out.memory_format = MEMORY_FORMATS[arg]


_ENCODERS: dict[type, Callable[[Any, Any, str], None]] = {
    type(None): _encode_none,
    bool: _encode_bool,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    torch.dtype: _encode_dtype,
    torch.device: _encode_device,
    torch.layout: _encode_layout,
    torch.memory_format: _encode_memory_format,
}
