"""Artifacts made by hand: a plan is written as one writes eager code, and computes both."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from kiln import _kiln
from kiln.proto import artifact_pb2, graph_pb2

FACTS = _kiln.init(
    os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"),
    torch.zeros(2, 3),
    "KILN_TEST_SLOW" not in os.environ,
)

_DTYPES = {
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
    torch.complex64: graph_pb2.COMPLEX64,
    torch.complex128: graph_pb2.COMPLEX128,
}
_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3}
_NO_VALUE = 2**32 - 1


def resolve(op: str, schema: str) -> Callable[..., Any]:
    """The simplest possible stand-in for kiln.external.python_call: no enums."""
    namespace, packet, overload = op.split(".")
    target = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    if str(target._schema) != schema:
        raise ValueError(f"{op} is {target._schema}, not {schema}")
    arguments = target._schema.arguments
    positional = sum(not a.kwarg_only for a in arguments)

    def call(*args: Any) -> Any:
        assert len(args) == len(arguments)
        names = [a.name for a in arguments[positional:]]
        return target(*args[:positional], **dict(zip(names, args[positional:], strict=True)))

    return call


class Sym:
    """A size expression of a plan, with an example of its value."""

    def __init__(self, index: int, example: int) -> None:
        self.index = index
        self.example = example


class Value:
    """A value of a plan, with an eager example of it."""

    def __init__(self, index: int, example: torch.Tensor) -> None:
        self.index = index
        self.example = example


class Plan:
    """One function. Inputs are example tensors, or (min, max, example) for a SymInt."""

    def __init__(self, *inputs: torch.Tensor | tuple[int, int, int], name: str = "inference") -> None:
        self.function = artifact_pb2.Function(name=name)
        self.constants: list[bytes] = []
        self.kernels: list[str] = []
        self.inputs: list[Any] = []
        self._constants: dict[int, int] = {}
        self.const(0)
        for x in inputs:
            if isinstance(x, tuple):
                self.inputs.append(self._symbol(*x))
                self.function.inputs.add().sym = self.inputs[-1].index
                self.function.values.add()
            else:
                self.function.inputs.add().type = 0
                self.inputs.append(self.value("INPUT", x))

    # --- sizes ---

    def const(self, value: int) -> int:
        if value not in self._constants:
            self.function.syms.exprs.add(op=graph_pb2.SymExpr.CONST, value=value)
            self._constants[value] = len(self.function.syms.exprs) - 1
        return self._constants[value]

    def _symbol(self, low: int, high: int, example: int) -> Sym:
        self.function.syms.symbols.add(min=low, max=high)
        self.function.syms.exprs.add(op=graph_pb2.SymExpr.SYMBOL, value=len(self.function.syms.symbols) - 1)
        return Sym(len(self.function.syms.exprs) - 1, example)

    def expr(self, op: str, *args: Sym | int) -> Sym:
        """ADD or MUL."""
        indices = [self._size(a) for a in args]
        values = [a.example if isinstance(a, Sym) else a for a in args]
        self.function.syms.exprs.add(op=getattr(graph_pb2.SymExpr, op), args=indices)
        return Sym(len(self.function.syms.exprs) - 1, sum(values) if op == "ADD" else math.prod(values))

    def _size(self, size: Sym | int) -> int:
        return size.index if isinstance(size, Sym) else self.const(size)

    # --- values ---

    def value(
        self,
        storage: str,
        example: torch.Tensor,
        sizes: Sequence[Sym | int] | None = None,
        strides: Sequence[Sym | int] | None = None,
        base: int = 0,
        offset: Sym | int = 0,
    ) -> Value:
        sizes = example.shape if sizes is None else sizes
        strides = example.stride() if strides is None else strides
        self.function.values.add(
            storage=getattr(artifact_pb2.PlanValue, storage),
            dtype=_DTYPES[example.dtype],
            sizes=[self._size(s) for s in sizes],
            strides=[self._size(s) for s in strides],
            base=base,
            offset=self._size(offset),
        )
        return Value(len(self.function.values) - 1, example)

    def empty(self, example: torch.Tensor, **shape: Any) -> Value:
        value = self.value("TENSOR", example, **shape)
        self.function.steps.add().allocate = value.index
        return value

    def view(self, base: Value, example: torch.Tensor, offset: Sym | int = 0, **shape: Any) -> Value:
        value = self.value("VIEW", example, base=base.index, offset=offset, **shape)
        self.function.steps.add().view = value.index
        return value

    def constant(self, tensor: torch.Tensor) -> Value:
        tensor = tensor.contiguous()
        self.constants.append(bytes(tensor.reshape(-1).view(torch.uint8).tolist()))
        return self.value("CONSTANT", tensor, base=len(self.constants) - 1)

    # --- steps ---

    def call(self, op: Any, *args: Any, into: Value | None = None, shapes: Any = None, **kwargs: Any) -> Any:
        """A call of an operator, run on the examples too; gives the values of its results.

        `into` is a tensor to write to; `shapes` has (sizes, strides) of each result where these are symbolic.
        """
        schema = op._schema
        external = self.function.steps.add().external
        external.op, external.schema, external.origin = str(op), str(schema), len(self.function.steps)
        full: list[Any] = []
        for i, a in enumerate(schema.arguments):
            full.append(args[i] if i < len(args) else kwargs.get(a.name, a.default_value))
            self._arg(external.args.add(), full[-1])
        examples = _map(full, lambda v: v.example if isinstance(v, (Value, Sym)) else v)
        positional = sum(not a.kwarg_only for a in schema.arguments)
        names = [a.name for a in schema.arguments[positional:]]
        out = op(*examples[:positional], **dict(zip(names, examples[positional:], strict=True)))
        flat = [out] if isinstance(out, torch.Tensor) else _flatten(out)
        results: list[Any] = []
        for i, t in enumerate(flat):
            if not isinstance(t, torch.Tensor):
                results.append(None)
            elif into is not None:
                results.append(into)
            else:
                sizes, strides = shapes[i] if shapes else (None, None)
                results.append(self.value("EXTERNAL", t, sizes, strides))
        external.results.extend(_NO_VALUE if r is None else r.index for r in results)
        return results[0] if isinstance(out, torch.Tensor) else results

    def _arg(self, arg: Any, value: Any) -> None:
        if value is None:
            arg.none.SetInParent()
        elif isinstance(value, Value):
            arg.value = value.index
        elif isinstance(value, Sym):
            arg.sym = value.index
        elif isinstance(value, bool):
            arg.b = value
        elif isinstance(value, int):
            arg.i = value
        elif isinstance(value, float):
            arg.f = value
        elif isinstance(value, str):
            arg.s = value
        elif isinstance(value, torch.dtype):
            arg.dtype = _DTYPES[value]
        elif isinstance(value, torch.device):
            arg.device = graph_pb2.CPU
        elif isinstance(value, torch.layout):
            arg.layout = 0
        elif isinstance(value, torch.memory_format):
            arg.memory_format = _FORMATS[value]
        else:
            arg.list.SetInParent()
            for item in value:
                self._arg(arg.list.items.add(), item)

    def launch(
        self,
        kernel: str,
        *buffers: Value,
        sizes: Sequence[Sym | int] = (),
        extent: Sym | int,
        grain: Sym | int = 1 << 20,
        origin: int = 0,
    ) -> None:
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        self.function.steps.add().launch.CopyFrom(
            artifact_pb2.Launch(
                kernel=self.kernels.index(kernel),
                buffers=[b.index for b in buffers],
                sizes=[self._size(s) for s in sizes],
                extent=self._size(extent),
                grain=self._size(grain),
                origin=origin,
            )
        )

    def release(self, *values: Value) -> None:
        self.function.steps.add().release.values.extend(v.index for v in values)

    def copy(self, to: Value, source: Value) -> None:
        self.function.steps.add().copy.CopyFrom(artifact_pb2.Step.Copy(to=to.index, **{"from": source.index}))

    def output(self, *outputs: Value | Sym | None) -> Plan:
        for out in outputs:
            proto = self.function.outputs.add()
            if out is None:
                proto.none.SetInParent()
            elif isinstance(out, Sym):
                proto.sym = out.index
            else:
                proto.value = out.index
        return self

    # --- loading ---

    def artifact(self, shared_object: bytes = b"", mutated: Sequence[int] = (), workspace: Sym | int = 0) -> Any:
        self.function.workspace = self._size(workspace)
        artifact = artifact_pb2.Artifact(version=3)
        artifact.target.name = "x86-64-v2"
        artifact.target.host.torch_version = torch.__version__.partition("+")[0]
        artifact.target.host.aoti_abi = FACTS["aoti_abi"]
        artifact.target.host.kiln_abi = FACTS["kiln_abi"]
        artifact.signature.mutated_inputs.extend(mutated)
        artifact.functions.append(self.function)
        for data in self.constants:
            artifact.constants.add(data=data)
        for kernel in self.kernels:
            artifact.kernels.add(symbol=kernel)
        if shared_object:
            artifact.shared_object.sha256 = hashlib.sha256(shared_object).digest()
            artifact.shared_object.size = len(shared_object)
        return artifact

    def load(self, shared_object: bytes = b"", **options: Any) -> Any:
        artifact = self.artifact(shared_object, **options)
        loaded = _kiln.load(artifact.SerializeToString(), shared_object, resolve)
        return loaded.function(0)


def _map(value: Any, f: Callable[[Any], Any]) -> Any:
    return [_map(v, f) for v in value] if isinstance(value, (list, tuple)) else f(value)


def _flatten(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return [value]
    return [x for v in value for x in _flatten(v)]


_HEADER = """
#include <stdint.h>
#define KERNEL(name) void name(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, int64_t* error)
"""


def compile_kernels(source: str) -> bytes:
    """A shared object from C."""
    with tempfile.TemporaryDirectory() as folder:
        c, so = Path(folder, "k.c"), Path(folder, "k.so")
        c.write_text(_HEADER + source)
        subprocess.run(["clang-19", "-O2", "-shared", "-fPIC", "-nostdlib", c, "-o", so], check=True)
        return so.read_bytes()
