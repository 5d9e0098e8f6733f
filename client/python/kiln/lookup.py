"""Look-ups of Dynamo's graph: a hit needs neither AOTAutograd nor a compile."""

from __future__ import annotations

import hashlib
import logging
import random
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from kiln import session, wrapper
from kiln.call_spec import VERSION, Refused, install, predicates_of
from kiln.counters import counters
from kiln.errors import CaptureError, KilnError, KilnWarning, ServerError
from kiln.guards import EntryState, torch_guard_spec
from kiln.options import Options
from kiln.proto import call_spec_pb2, compile_pb2, generalization_pb2
from kiln.torch_graph import capture_torch

log = logging.getLogger("kiln.lookup")

_MISS = "not in the cache"

# The server cannot be asked at all: a compile would fail likewise.
_GONE = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})

_dice = random.Random()  # not the program's own


class Lookup:
    """One of Dynamo's graphs, as the server knows it. Made before AOTAutograd runs."""

    def __init__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        entry: EntryState,
        request: compile_pb2.CompileRequest,
        general: bool = False,
    ) -> None:
        """`request` has the options; its graph and guards are filled in. CaptureError where the graph has no key.

        `general`: the graph has symbols that Dynamo's has not (kiln.generalize).
        """
        start = time.monotonic()
        if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            raise CaptureError("saved-tensor hooks are active")
        if torch._functorch.config.joint_custom_pass is not None:
            raise CaptureError("torch._functorch.config.joint_custom_pass is set: code decides what the graph becomes")
        request.graph.CopyFrom(capture_torch(gm))
        request.guards.CopyFrom(torch_guard_spec(gm, example_inputs, entry))
        self.request = request
        self._general = general
        self._gpu = entry.gpu
        self._eager = gm.forward
        self._num_inputs = len(example_inputs)
        self._sizes = [value for value in example_inputs if not isinstance(value, torch.Tensor)]
        self._hints = [_hint(size) for size in self._sizes]
        self._shape_env = next((s.node.shape_env for s in self._sizes if isinstance(s, torch.SymInt)), None)
        self._guards_before = len(self._shape_env.guards) if self._shape_env is not None else 0
        self._alias_guards_before = len(_alias_guards())
        self._seconds = time.monotonic() - start
        self._start_seconds = 0.0
        self.refused = False  # an entry says that AOTAutograd is needed
        self._audited: session.Found | None = None  # a hit that is traced all the same
        self.outcome = ""  # of find: session.HIT, or why it found nothing

    def find(self, options: Options) -> Callable[..., Any] | None:
        """What runs in the graph's place; None: it has to be traced. ServerError if there is no server to ask."""
        start = time.monotonic()
        session.address(self.request, options, self._gpu)
        self._start_seconds = time.monotonic() - start
        start = time.monotonic()
        self.request.ClearField("job")
        digest = hashlib.sha256(self.request.SerializeToString(deterministic=True)).digest()
        self._seconds += time.monotonic() - start
        if options.record:
            self.outcome = "not asked: a recording holds what a hit leaves out"
            return None
        try:
            hit = session.GENERAL_HIT if self._general else session.HIT
            found = session.lookup(digest, self._hints, options, hit, self._gpu)
            call, self.outcome = self._judge(found)
            if call is not None and _dice.random() < options.audit:
                self._audited, self.outcome = found, "audited"
            return None if self._audited or session.watching() else call
        except KilnError as e:
            if isinstance(e, ServerError) and e.code in _GONE:
                raise
            self.outcome = f"failed: {e}"
            log.warning("the look-up failed, the graph is traced: %s", e)
            return None

    def _judge(self, found: session.Found | None) -> tuple[Callable[..., Any] | None, str]:
        """What runs, and what the look-up has come to."""
        if found is None:
            return None, _MISS
        if found.compiled is None:
            self.refused = True
            return None, f"AOTAutograd is needed: {found.variant.refused}"
        if not install(found.variant, self._sizes):
            return None, "not in the cache for these sizes"
        return self._build(found.variant, found.compiled), session.HIT

    def _build(self, variant: call_spec_pb2.Variant, compiled: session.Compiled) -> Callable[..., Any]:
        if variant.spec.num_inputs != self._num_inputs:
            raise KilnError(f"the entry is for {variant.spec.num_inputs} inputs, the graph has {self._num_inputs}")
        start = time.monotonic()
        call = wrapper.build(variant.spec, self._eager, *compiled.functions, fixed_sizes=self._general)
        if compiled.graph is not None:
            compiled.graph.parts.update(
                start=self._start_seconds, capture=self._seconds, wrapper=time.monotonic() - start
            )
        return call

    def generalization(self, options: Options) -> generalization_pb2.Generalization | None:
        """After `find` has found nothing: what the graph has in common with others, of other sizes."""
        if not options.generalize or self.outcome != _MISS or self._hints or session.watching():
            return None
        try:
            return session.find_generalization(self.request, options)
        except KilnError as e:
            log.warning("the graph is traced for its sizes alone: %s", e)
            return None

    def put(self, spec: call_spec_pb2.CallSpec, compiled: session.Compiled, options: Options) -> None:
        """Lets later processes hit. Raises nothing: it says so in the log where that does not work out."""
        try:
            if len(_alias_guards()) > self._alias_guards_before:
                raise Refused("AOTAutograd guards on which inputs share a storage")
            guards = list(self._shape_env.guards)[self._guards_before :] if self._shape_env is not None else []
            variant = predicates_of(guards, self._sizes, self._shape_env)
        except Refused as e:
            self.refuse(str(e), compiled, options)
            return
        variant.spec.CopyFrom(spec)
        self._put(variant, compiled, options)

    def _audit(self, traced: call_spec_pb2.Variant, compiled: session.Compiled | None) -> None:
        """Compares the entry that was hit with what AOTAutograd and the server have made of the same graph."""
        if self._audited is None or self._audited.compiled is None:
            return
        entry, wrong = self._audited.variant, []
        if traced.refused:
            wrong.append("a call where AOTAutograd is needed")
        elif entry.spec != traced.spec:
            wrong.append("another call")
        if (entry.syms, list(entry.predicates)) != (traced.syms, list(traced.predicates)):
            wrong.append("other predicates")
        if compiled is None or self._audited.compiled.key != compiled.key:
            wrong.append("other code")
        failure = f"the entry of request {entry.request.sha256.hex()} has {', '.join(wrong)}" if wrong else ""
        counters.add_audit(failure)
        if failure:
            warnings.warn(
                f"kiln: an entry is not what AOTAutograd makes of its graph: {failure}. What was traced runs, and "
                "takes the entry's place; whoever may write in this namespace may have put it.",
                KilnWarning,
                stacklevel=2,
            )

    def refuse(self, reason: str, compiled: session.Compiled | None, options: Options) -> None:
        """Lets later processes go to AOTAutograd without a try of this. `compiled`: what this process has compiled."""
        if not self.refused:
            self._put(call_spec_pb2.Variant(version=VERSION, refused=reason), compiled, options)

    def _put(self, variant: call_spec_pb2.Variant, compiled: session.Compiled | None, options: Options) -> None:
        self._audit(variant, compiled)
        request = compile_pb2.PutCallSpecRequest(request=self.request, variant=variant)
        request.request.job.job = options.job
        try:
            session.put_call_spec(request, compiled, options)
        except KilnError as e:
            log.warning("later processes will trace this graph again: %s", e)


def _hint(size: Any) -> int:
    """Nothing is ever guarded of a size without a value (mark_unbacked), so any will do."""
    hint = size if type(size) is int else size.node.hint
    return hint if type(hint) is int else 0


def _alias_guards() -> Any:
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return context.guards_context.aotautograd_guards if context is not None else ()
