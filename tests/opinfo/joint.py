"""Calls traced by AOTAutograd and compiled by kiln as its back end does it, but without Dynamo."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import kiln.session
import torch
from functorch.compile import aot_function, nop
from kiln.backend import _Unit
from kiln.counters import counters
from kiln.guards import EntryState, global_state
from kiln.options import Options
from torch import Tensor
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.opinfo.samples import DEVICE

Results = list[Tensor]
Layouts = set[tuple[torch.Size, tuple[int, ...]]]  # sizes and strides


class NotCounted(Exception):
    """The graph holds no operator that kiln has a record of: there is nothing to compare."""


class Unchanged(Exception):
    """What was captured and generated is what an earlier run judged; its digest is the argument."""


@dataclasses.dataclass
class Served:
    """What the server made of the graphs of one trace."""

    digest: str
    launches: int
    external: list[str]
    ops: set[str]
    layouts: Layouts  # of the captured outputs


class _Watched(_Unit):
    """Remembers sizes and strides of what the captured graphs give."""

    layouts: Layouts

    def compile_joint(self, gm: Any, *args: Any, **how: Any) -> Any:
        self._look_at(gm)
        return super().compile_joint(gm, *args, **how)

    def compile_inference(self, gm: Any, *args: Any) -> Any:
        self._look_at(gm)
        return super().compile_inference(gm, *args)

    def _look_at(self, gm: Any) -> None:
        outputs = [n.meta.get("val") for n in gm.graph.output_node().all_input_nodes]
        self.layouts = {(v.shape, v.stride()) for v in outputs if isinstance(v, Tensor)}


class Compiler:
    """Compiles functions of tensors, and remembers what was captured."""

    def __init__(self, listed: set[str], options: Options, salt: str) -> None:
        self._listed, self._options, self._salt = listed, options, salt
        self._known: set[str] = set()
        self._graphs: list[bytes] = []
        self._ops: set[str] = set()
        self._compile = kiln.session.compile_graph
        kiln.session.compile_graph = self._remember

    def close(self) -> None:
        kiln.session.compile_graph = self._compile

    def _remember(self, request: Any, options: Options, lookup: str, gpu: int) -> Any:
        graph = request.graph
        self._graphs.append(graph.SerializeToString(deterministic=True))
        self._ops |= {op.name for op in graph.ops}
        if not self._ops & self._listed:
            raise NotCounted
        compiled = self._compile(request, options, lookup, gpu)
        if (digest := self._digest()) in self._known:
            raise Unchanged(digest)
        return compiled

    def run(
        self, f: Callable[..., Results], args: list[Tensor], call: Callable[..., Any], known: set[str]
    ) -> tuple[Any, Served]:
        """`call` of the compiled f, and what was served for it. Unchanged where its digest is among `known`."""
        self._graphs, self._ops, self._known = [], set(), known
        kiln.reset()
        gpu = torch.cuda.current_device() if DEVICE == "cuda" else -1
        unit = _Watched(self._options, EntryState((), tuple(a.requires_grad for a in args), global_state(), gpu))
        unit.layouts = set()
        with tracing(TracingContext(FakeTensorMode())):
            compiled = aot_function(
                f,
                fw_compiler=unit.take,
                bw_compiler=unit.take,
                inference_compiler=unit.compile_inference,
                partition_fn=unit.compile_joint,
                decompositions={},
                keep_inference_input_mutations=True,
            )
            result = call(compiled)
            if is_random(self._ops):  # tracing may have drawn too: again, from the start
                result = call(compiled)
        return result, self._served(unit.layouts)

    @staticmethod
    def run_as_traced(f: Callable[..., Results], call: Callable[..., Any]) -> Any:
        """`call` of f as AOTAutograd's graphs say, through eager's kernels."""
        with tracing(TracingContext(FakeTensorMode())):
            traced = aot_function(f, fw_compiler=nop, bw_compiler=nop, decompositions={})
            call(traced)
            return call(traced)

    def _digest(self) -> str:
        digest = hashlib.sha256(self._salt.encode())
        for part in (*self._graphs, *(g.shared_object.encode() for g in counters.graphs())):
            digest.update(hashlib.sha256(part).digest())
        return digest.hexdigest()[:12]

    def _served(self, layouts: Layouts) -> Served:
        external = sorted({op for g in counters.graphs() for op in g.external_calls})
        return Served(self._digest(), sum(g.launches for g in counters.graphs()), external, set(self._ops), layouts)


def is_random(ops: set[str]) -> bool:
    for name in ops:
        library, op, overload = name.split(".", 2)
        target = getattr(getattr(getattr(torch.ops, library), op), overload)
        if torch.Tag.nondeterministic_seeded in target.tags:
            return True
    return False


def values_and_gradients(f: Callable[..., Results], args: list[Tensor]) -> tuple[Results, list[Tensor | None]]:
    """The results, and the gradients of the arguments that want one, for fixed cotangents."""
    out = list(f(*args))
    wanted = [r for r in out if r.requires_grad]
    leaves = [a for a in args if a.requires_grad]
    if not wanted or not leaves:
        return [r.detach() for r in out], []
    cotangents = [_cotangent(r) for r in wanted]
    gradients = torch.autograd.grad(wanted, leaves, cotangents, allow_unused=True)
    return [r.detach() for r in out], list(gradients)


def _cotangent(like: Tensor) -> Tensor:
    """The same numbers, up to rounding, for every dtype."""
    line = torch.linspace(-1, 2, max(like.numel(), 2), dtype=torch.float64)[: like.numel()]
    return line.to(like.device, like.dtype).reshape(like.shape)
