"""One row of the table: an operator with one dtype, all of its samples in one captured graph."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from kiln.errors import KilnError
from kiln.options import Options
from torch import Tensor

from tests import judge
from tests.opinfo.joint import Compiler, Layouts, NotCounted, Served, Unchanged, is_random, values_and_gradients
from tests.opinfo.samples import Sample, samples_of, seed

# Verdicts, from good to bad: all work in generated kernels; some of it in external calls; all of it there; nothing but
# views; no record; AOTAutograd does not trace it (Dynamo would break the graph there); kiln refused; wrong answers.
KERNELS, PARTLY, EXTERNAL, VIEWS = "kernels", "partly external", "external", "views"
NOT_COUNTED, UNTRACED, FALLBACK, WRONG, CRASHED = "no record", "not traced", "fallback", "wrong", "crashed"


Results = list[Tensor | None]  # values, then gradients


@dataclasses.dataclass
class Row:
    op: str
    dtype: str
    verdict: str
    digests: list[str] = dataclasses.field(default_factory=list)  # of each graph
    samples: int = 0
    launches: int = 0
    external: list[str] = dataclasses.field(default_factory=list)
    worst_error: float = 0.0  # against fp64, of results that differ from eager's
    reason: str = ""


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def harness_digest() -> str:
    """Of the sources that decide what is run and how it is judged, and of torch."""
    here = Path(__file__).parent
    digest = hashlib.sha256(torch.__version__.encode())
    for path in (here / "samples.py", here / "joint.py", here / "rows.py", here.parent / "judge.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Batch:
    """Some samples of an operator as one function of all their tensors."""

    def __init__(self, samples: list[Sample]) -> None:
        self.samples = samples
        self.args = [t for s in samples for t in s.tensors]
        self.counts: list[int] = []  # results of each sample, once it ran

    def f(self, *tensors: Tensor) -> list[Tensor]:
        out: list[Tensor] = []
        self.counts, at = [], 0
        for s in self.samples:
            n = len(s.tensors)
            results = s.call(list(tensors[at : at + n]))
            self.counts.append(len(results))
            out += results
            at += n
        return out

    def fresh(self, exact: bool = False) -> list[Tensor]:
        """Copies with the same strides; for the exact answer, in double precision."""
        return [_copy(t, exact) for t in self.args]


def _copy(t: Tensor, exact: bool) -> Tensor:
    """With the same strides, in a storage with the same elements: some operators read between a view's own."""
    with torch.no_grad():
        storage = torch.empty(0, dtype=t.dtype, device=t.device).set_(t.detach().untyped_storage()).clone()
        if exact and t.is_floating_point():
            storage = storage.double()
        out = storage.as_strided(t.shape, t.stride(), t.storage_offset())
    return out.detach().requires_grad_(t.requires_grad)


class Runner:
    """Makes rows. Not reentrant."""

    def __init__(self, listed: set[str], options: Options) -> None:
        self._harness = harness_digest()
        self._compiler = Compiler(listed, options, self._harness)

    def close(self) -> None:
        self._compiler.close()

    def row(self, op: Any, dtype: str, known: dict[str, Any] | None) -> Row:
        """`known` is the row of an earlier run, which stands where its digests are still right."""
        try:
            samples = samples_of(op, dtype)
        except Exception as e:
            return Row(name_of(op), dtype, UNTRACED, reason=f"samples: {_short(e)}")
        if known is not None:
            parts = self._parts(samples, op, dtype, set(known["digests"]))
            if [d for p in parts for d in p.digests] == known["digests"]:
                return Row(**known)
        return _merged(Row(name_of(op), dtype, KERNELS), self._parts(samples, op, dtype, set()))

    def _parts(self, samples: list[Sample], op: Any, dtype: str, known: set[str]) -> list[Row]:
        parts: list[Row] = []
        self._run(samples, op, dtype, parts, known)
        return parts

    def _run(self, samples: list[Sample], op: Any, dtype: str, parts: list[Row], known: set[str]) -> None:
        """One graph of all samples; where that fails, halves, down to the sample that is at fault."""
        if not samples:
            return
        try:
            part = self._try(samples, op, dtype, known)
        except Unchanged as e:
            part = Row(name_of(op), dtype, KERNELS, [str(e)])
        except NotCounted:
            part = self._without_graph(op, dtype, NOT_COUNTED, "")
            part.samples = len(samples)
        except Exception as e:
            if len(samples) > 1:
                half = len(samples) // 2
                self._run(samples[:half], op, dtype, parts, known)
                self._run(samples[half:], op, dtype, parts, known)
                return
            part = self._without_graph(op, dtype, self._blame(samples[0], e), _short(e))
        parts.append(part)

    def _blame(self, sample: Sample, e: Exception) -> str:
        """Whether kiln refused, could not run what eager can, or had nothing to run."""
        if isinstance(e, KilnError):
            return FALLBACK
        batch = Batch([sample])
        args = batch.fresh()
        try:
            self._compiler.run_as_traced(batch.f, lambda f: values_and_gradients(f, args))
            values_and_gradients(batch.f, batch.fresh())
        except Exception:
            return UNTRACED
        return WRONG

    def _without_graph(self, op: Any, dtype: str, verdict: str, reason: str) -> Row:
        digest = hashlib.sha256((self._harness + verdict + reason).encode()).hexdigest()[:12]
        return Row(name_of(op), dtype, verdict, [digest], samples=1, reason=reason)

    def _try(self, samples: list[Sample], op: Any, dtype: str, known: set[str]) -> Row:
        batch = Batch(samples)
        start = seed(op, dtype)
        args = batch.fresh()
        (values, gradients), served = self._compiler.run(
            batch.f, args, lambda compiled: _seeded(start, lambda: values_and_gradients(compiled, args)), known
        )
        row = Row(name_of(op), dtype, _verdict(served), [served.digest], len(samples), served.launches)
        row.external = served.external
        exact = None if dtype == "f64" or is_random(served.ops) else _exact(batch)
        actual: Results = [*values, *gradients]
        complaints = _compare(row, actual, self._references(batch, start, actual, served.layouts), exact)
        if complaints:
            row.verdict, row.reason = WRONG, complaints[0]
        return row

    def _references(self, batch: Batch, start: int, actual: Results, layouts: Layouts) -> Iterator[Results]:
        """Answers that each result may agree with, the best first: eager's; those of AOTAutograd's trace, which may
        draw other random numbers and, by torch's meta functions, have other strides; and those of eager's kernels for
        contiguous operands, where kernels for others round on the way."""
        args = batch.fresh()
        yield _seeded(start, lambda: _all(batch.f, args))
        traced = self._compiler.run_as_traced(batch.f, lambda f: _seeded(start, lambda: _all(f, args)))
        yield traced
        yield _laid_out(traced, actual, layouts)
        packed = [a.detach().clone(memory_format=torch.contiguous_format).requires_grad_(a.requires_grad) for a in args]
        yield _laid_out(_laid_out(_seeded(start, lambda: _all(batch.f, packed)), traced), actual, layouts)


def _all(f: Callable[..., list[Tensor]], args: list[Tensor]) -> Results:
    values, gradients = values_and_gradients(f, args)
    return [*values, *gradients]


def _laid_out(results: Results, like: Results, layouts: Layouts | None = None) -> Results:
    """Results with the strides of others, where those are among `layouts`."""
    return [
        _restrided(r, x.stride())
        if r is not None and x is not None and (layouts is None or (x.shape, x.stride()) in layouts)
        else r
        for r, x in zip(results, like, strict=True)
    ]


def _restrided(t: Tensor, strides: tuple[int, ...]) -> Tensor:
    """The same elements in another layout, which may have several in one place."""
    if t.numel() == 0:
        return torch.empty_strided(t.shape, strides, dtype=t.dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, strides, strict=True))
    places = torch.arange(extent).as_strided(t.shape, strides)
    storage = torch.zeros(extent, dtype=t.dtype)
    storage[places.reshape(-1)] = t.reshape(-1)
    return storage.as_strided(t.shape, strides)


def _exact(batch: Batch) -> Results | None:
    try:
        return _all(batch.f, batch.fresh(exact=True))
    except Exception:  # an argument names a dtype that only the original takes
        return None


def _compare(row: Row, actual: Results, references: Iterator[Results], exact: Results | None) -> list[str]:
    """What is wrong with the results that agree with none of the references, as the first one has it."""
    first = next(references)
    if len(actual) != len(first):
        return [f"{len(actual)} results, not {len(first)}"]
    exact = exact if exact is not None and len(exact) == len(actual) else [None] * len(actual)
    complaints = {i: c for i, a in enumerate(actual) if (c := _complaint(a, first[i], exact[i]))}
    while complaints and (reference := _next(references)):
        complaints = {i: c for i, c in complaints.items() if _complaint(actual[i], reference[i], exact[i])}
    for a, e, x in zip(actual, first, exact, strict=True):
        if a is not None and e is not None and x is not None and x.shape == a.shape and judge.worst_error(a, e) > 0:
            row.worst_error = max(row.worst_error, judge.worst_error(a, x))
    return [f"result {i}: {' '.join(c.split())}" for i, c in complaints.items()]


def _next(references: Iterator[Results]) -> Results | None:
    try:
        return next(references, None)
    except Exception:  # no other answer is to be had, and the complaint stands
        return None


def _complaint(actual: Tensor | None, expected: Tensor | None, exact: Tensor | None) -> str | None:
    if actual is not None and expected is not None:
        if actual.dtype == expected.dtype == torch.complex32:  # which torch cannot compare
            actual, expected = actual.to(torch.complex64), expected.to(torch.complex64)
        return judge.complaint(actual, expected, exact)
    some = actual if actual is not None else expected
    if some is not None and torch.count_nonzero(some):
        return f"{'no' if actual is None else 'a'} gradient, unlike eager"
    return None


def _verdict(served: Served) -> str:
    if served.launches:
        return PARTLY if served.external else KERNELS
    return EXTERNAL if served.external else VIEWS


def _merged(total: Row, parts: list[Row]) -> Row:
    order = [WRONG, FALLBACK, UNTRACED, PARTLY, EXTERNAL, KERNELS, VIEWS, NOT_COUNTED]
    parts = parts or [Row(total.op, total.dtype, UNTRACED, reason="no samples")]
    present = {p.verdict for p in parts}
    # A sample that no graph can hold says nothing of the others.
    if present & {KERNELS, PARTLY, EXTERNAL, VIEWS}:
        present -= {UNTRACED, NOT_COUNTED}
    total.verdict = next(v for v in order if v in present)
    total.reason = next((p.reason for p in parts if p.verdict == total.verdict), "")
    total.digests = [d for p in parts for d in p.digests]
    total.samples = sum(p.samples for p in parts)
    total.launches = sum(p.launches for p in parts)
    total.external = sorted({e for p in parts for e in p.external})
    total.worst_error = float(f"{max(p.worst_error for p in parts):.3g}")
    return total


def _seeded(start: int, run: Callable[[], Any]) -> Any:
    torch.manual_seed(start)
    return run()


def _short(e: BaseException) -> str:
    """Without what differs from run to run: addresses of servers and objects."""
    text = re.sub(r"\[unix:[^]]*\]|0x[0-9a-f]+", "", " ".join(str(e).split()))
    return f"{type(e).__name__}: {text[:200].strip()}"
