"""The back end that torch.compile calls: AOTAutograd on this side, everything after it on the server's."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import fx

from kiln import session, wrapper
from kiln.call_spec import Refused, Traced, derive
from kiln.capture import Capture, capture_inference, capture_joint
from kiln.counters import counters
from kiln.errors import CaptureError, KilnError, KilnWarning, ServerError
from kiln.generalize import General, generalize
from kiln.guards import EntryState, guard_spec, name_inputs
from kiln.lookup import Lookup
from kiln.opaque import BoxedFunction, function_of, split
from kiln.options import Options
from kiln.proto import compile_pb2

log = logging.getLogger("kiln.backend")


def backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """`torch.compile(model, backend="kiln", options={…})`; see kiln.options.

    Forward and backward are compiled and loaded when this returns. If any part of that fails, what is returned runs
    Dynamo's graph in eager mode (or through Inductor), and one KilnWarning gives the reason; with `strict` a KilnError
    is raised instead. OptionError for a bad option.
    """
    resolved = Options.resolve(mode, options)
    try:
        return _compile(gm, example_inputs, resolved)
    except Exception as e:
        if _is_dynamos_own(e):
            raise
        return _fall_back(gm, example_inputs, resolved, e)


def _compile(gm: fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    _refuse_unsupported_modes(gm)
    entry = EntryState.now(gm, example_inputs)
    unit = _Unit(options, entry)
    lookup, found = unit.look_up(gm, example_inputs)
    if found is not None:
        return cast(Callable[..., Any], found)
    generalization = lookup.generalization(options) if lookup is not None else None
    if lookup is not None and generalization is not None:
        try:
            return _compile_general(
                generalize(gm, example_inputs, entry, lookup.request.guards, generalization), options
            )
        except Exception as e:
            if _is_dynamos_own(e):
                raise
            log.info("the graph is traced for its sizes alone: %s", e, exc_info=not isinstance(e, KilnError))
            unit.note(f"not generalized: {e}")
    compiled = unit.trace(gm, example_inputs)
    return unit.finish(gm, lookup, len(example_inputs)) or compiled


def _compile_general(general: General, options: Options) -> Callable[..., Any]:
    """What runs in place of the graph that `general` was made of. KilnError: that is traced instead."""
    if _is_first_call_fake():
        raise CaptureError("the first call is with fake tensors")
    unit = _Unit(options, general.entry, general)
    with general.tracing():
        lookup, call = unit.look_up(general.gm, general.examples)
        if lookup is None or lookup.refused:
            raise CaptureError(unit.lookup if lookup is None else lookup.outcome)
        if call is None:
            try:
                unit.trace(general.gm, general.fakes())
            except Exception as e:
                if _lies_in_the_graph(e):
                    lookup.refuse(str(e), None, options)
                raise
            call = unit.finish(general.gm, lookup, len(general.examples))
    if call is None:
        raise CaptureError("AOTAutograd's wrapper is needed")
    return functools.partial(call, *general.hints)


class _Unit:
    """One compile: the callbacks that AOTAutograd calls, in turn, for one of Dynamo's graphs, or for what has been made
    of it (`general`)."""

    def __init__(self, options: Options, entry: EntryState, general: General | None = None) -> None:
        self._options = options
        self._entry = entry
        self._general = general
        self._in_autocast = torch._C._is_any_autocast_enabled()
        self._done: tuple[Capture, session.Compiled] | None = None
        self._metadata: Any = None
        self.lookup = ""  # what it gave

    def look_up(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[Lookup | None, Any]:
        """What later processes will ask for, if the graph has a key; and what runs in its place, if it is known."""
        try:
            lookup = Lookup(gm, example_inputs, self._entry, self._request(), self._general is not None)
        except CaptureError as e:
            self.lookup = f"no key: {e}"
            log.info("no look-up, the graph is traced: %s", e)
            return None, None
        found = lookup.find(self._options)
        self.lookup = lookup.outcome
        if self._general is not None and found is None:
            self.note("with symbols for its sizes")
        return lookup, found

    def note(self, text: str) -> None:
        """Adds to what the look-up gave."""
        self.lookup = f"{self.lookup}; {text}"

    def trace(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Runs AOTAutograd, which compiles. What runs then, if `finish` has nothing better."""
        from torch._dynamo.backends.common import aot_autograd

        # Nothing is donated, so that retain_graph=True works as in eager mode.
        with torch._functorch.config.patch(donated_buffer=False):
            compiled: Callable[..., Any] = aot_autograd(
                fw_compiler=self.take,
                bw_compiler=self.take,
                inference_compiler=self.compile_inference,
                partition_fn=self.compile_joint,
                decompositions={},
                keep_inference_input_mutations=True,
            )(gm, example_inputs)
        return compiled

    def finish(self, gm: fx.GraphModule, lookup: Lookup | None, num_inputs: int) -> Callable[..., Any] | None:
        """What runs, once AOTAutograd is through: what a later process, which hits, will run as well. None: only
        AOTAutograd's own wrapper will do."""
        if self._done is None:  # AOTAutograd had nothing to compile
            return None
        capture, done = self._done
        training = len(done.functions) == 2
        try:
            spec = derive(Traced(self._metadata, capture, done.signature, training, self._in_autocast), num_inputs)
        except Refused as e:
            log.info("AOTAutograd is needed: %s", e)
            if lookup is not None:
                lookup.refuse(str(e), done, self._options)
            return None
        if lookup is not None:
            lookup.put(spec, done, self._options)
        call = wrapper.build(spec, gm.forward, *done.functions, fixed_sizes=self._general is not None)
        return _fakes_first(call, gm.forward) if _is_first_call_fake() else call

    def compile_joint(
        self,
        gm: fx.GraphModule,
        joint_inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        **_: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """AOTAutograd's partitioner: both functions are compiled when it returns."""
        capture = capture_joint(gm, num_fwd_outputs, _shape_env(joint_inputs))
        compiled = self._compile(capture, static_lifetime_input_indices or ())
        forward, backward = compiled.functions
        return split(capture, compiled.signature, forward, backward)

    def take(self, gm: fx.GraphModule, _example_inputs: Sequence[Any]) -> BoxedFunction:
        """AOTAutograd's forward and backward compiler."""
        self._read_metadata()
        return function_of(gm)

    def compile_inference(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> BoxedFunction:
        metadata = self._read_metadata()
        capture = capture_inference(gm, _shape_env(example_inputs))
        compiled = self._compile(capture, metadata.static_input_indices if metadata is not None else ())
        (function,) = compiled.functions
        return function

    def _read_metadata(self) -> Any:
        """AOTAutograd's, which is complete when it calls a compiler."""
        from torch._guards import TracingContext

        if self._metadata is None:
            self._metadata = TracingContext.get().fw_metadata
        return self._metadata

    def _compile(self, capture: Capture, static_inputs: Sequence[int]) -> session.Compiled:
        if self._general is not None:
            self._general.check()
        name_inputs(capture, self._entry)
        request = self._request()
        request.graph.CopyFrom(capture.graph)
        request.debug.CopyFrom(capture.debug)
        request.guards.CopyFrom(guard_spec(capture, self._entry, static_inputs))
        compiled = session.compile_graph(request, self._options, self.lookup, self._entry.gpu)
        self._done = (capture, compiled)
        return compiled

    def _request(self) -> compile_pb2.CompileRequest:
        request = compile_pb2.CompileRequest()
        request.options.precision = compile_pb2.Options.Precision.Value(self._options.precision.upper())
        budget = self._options.memory_budget
        if budget is None:
            budget = torch._functorch.config.activation_memory_budget
        if budget != 1.0:
            request.options.memory_budget = budget
        return request


def _is_first_call_fake() -> bool:
    """DDPOptimizer, where AOTAutograd has run, learns from a call with fake tensors what comes out."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return context is not None and bool(context.fakify_first_call)


def _fakes_first(call: Callable[..., Any], eager: Callable[..., Any]) -> Callable[..., Any]:
    fake = True

    def run(*args: Any) -> Any:
        nonlocal fake
        if fake:
            fake = False
            return eager(*args)
        return call(*args)

    return run


def _shape_env(inputs: Any) -> Any:
    from torch._guards import detect_fake_mode

    fake_mode = detect_fake_mode(inputs)
    return fake_mode.shape_env if fake_mode is not None else None


def _refuse_unsupported_modes(gm: fx.GraphModule) -> None:
    if torch._dynamo.config.compiled_autograd or torch._dynamo.compiled_autograd.in_compiled_autograd_region:
        raise CaptureError("compiled autograd traces the backward, which here is compiled code")
    for node in gm.graph.nodes:
        if node.target is torch.ops.higher_order.invoke_subgraph:  # its subgraphs would be shipped one by one
            raise CaptureError(f"{node.name}: higher-order operator invoke_subgraph is not supported")


def _lies_in_the_graph(e: Exception) -> bool:
    """Whether every process would fail as this one did."""
    if isinstance(e, ServerError):
        return e.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED")
    return isinstance(e, Refused | CaptureError) or not (isinstance(e, KilnError) or _is_dynamos_own(e))


def _is_dynamos_own(e: Exception) -> bool:
    """Control flow that belongs to Dynamo: it restarts its analysis."""
    from torch._dynamo.exc import RestartAnalysis

    return isinstance(e, RestartAnalysis)


def _fall_back(
    gm: fx.GraphModule, example_inputs: Sequence[Any], options: Options, error: Exception
) -> Callable[..., Any]:
    reason = str(error) if isinstance(error, KilnError) else f"{type(error).__name__}: {error}"
    log.debug("falling back", exc_info=error)
    if options.strict:
        if isinstance(error, KilnError):
            raise error
        raise KilnError(reason) from error
    counters.add_fallback(reason)
    warnings.warn(f"kiln: a graph runs through {options.fallback}: {reason}", KilnWarning, stacklevel=2)
    if options.fallback == "inductor":
        from torch._dynamo.backends.registry import lookup_backend

        compiled: Callable[..., Any] = lookup_backend("inductor")(gm, list(example_inputs))
        return compiled
    eager: Callable[..., Any] = gm.forward
    return eager
