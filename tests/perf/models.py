"""A training step of the six models (tests/models/zoo.py, full size): eager, Inductor and kiln.

    .venv/bin/python tests/perf/models.py [MODEL...] [--rounds 3] [--steps 7] [--allocator PATH] [--json]

Cold: the first step of a process with an empty cache (kiln's daemon is up), how much of it was the compiler's (kiln:
the server's time; Inductor: what follows AOTAutograd), and its steps as they are. Cached: a second process, under an
allocator that keeps its pages (libjemalloc.so.2, Debian's libjemalloc2): its first step, its steps, and the most bytes
that live during two steps beside parameters and inputs. One process a measurement, interleaved, 2 threads; medians.
In turn: Inductor's and kiln's steps one after the other in one process, under the same allocator, and the median of
their ratios, since machines drift between processes by more than a bar allows.
Exit status 1 if a bar is missed: kiln's cold first step at most 0.4 of Inductor's, its compile time at most an eighth,
peak bytes at most 1.02 of Inductor's, a hit 20 ms of server time; in turn no step below 0.95 of Inductor's speed,
nor their geometric mean below 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

BACKENDS = ("eager", "inductor", "kiln")
ALLOCATOR = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
RETAIN = "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always"
# Of kiln's median beside Inductor's, by measurement; of a hit's server time alone.
BARS = {
    ("cold", "first"): 0.4,
    ("cold", "compile"): 0.125,
    ("cached", "peak"): 1.02,
}
HIT_SECONDS = 0.020
STEP_RATIO = 1 / 0.95


def peak_bytes(step: Any) -> int:
    """The most bytes that were allocated and not yet freed at once while step() ran."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    live = most = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


def step_seconds(call: Any, model: Any, inputs: dict[str, Any]) -> float:
    model.zero_grad()
    start = time.perf_counter()
    call(**inputs)[0].backward()
    return time.perf_counter() - start


def ratios_in_turn(model: Any, inputs: dict[str, Any], steps: int) -> list[float]:
    """kiln's time for a step by Inductor's for the next, after two of each."""
    import torch

    kiln, inductor = (torch.compile(model, backend=b, dynamic=False) for b in ("kiln", "inductor"))
    ratios = [step_seconds(kiln, model, inputs) / step_seconds(inductor, model, inputs) for _ in range(2 + steps)]
    return ratios[2:]


def measure(backend: str, name: str, steps: int) -> dict[str, Any]:
    """In this process. Times in seconds."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "models"))
    import torch
    from zoo import MODELS

    torch.set_num_threads(2)
    torch.manual_seed(0)
    model, inputs = MODELS[name](full=True)
    if backend in ("kiln", "both"):
        import kiln
    if backend == "both":
        return {"ratios": ratios_in_turn(model, inputs, steps)}
    call = model if backend == "eager" else torch.compile(model, backend=backend, dynamic=False)

    def step() -> float:
        return step_seconds(call, model, inputs)

    result: dict[str, Any] = {"first": step(), "steps": [step() for _ in range(steps)]}
    model.zero_grad()  # what was allocated before is not counted
    if backend == "kiln":
        kiln.trim()
    result["peak"] = peak_bytes(lambda: [step(), step()])  # the second with what the first has left behind
    if backend == "kiln":
        result["compile"] = sum(g.server_seconds for g in kiln.graphs())
        if kiln.counters()["fallbacks"]:
            raise SystemExit(f"{name}: kiln fell back to eager")
    if backend == "inductor":
        from torch._dynamo.utils import compilation_time_metrics

        result["compile"] = sum(compilation_time_metrics.get("compile_fx_inner", []))
    return result


def child(backend: str, name: str, steps: int, env: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--child", backend, "--steps", str(steps)]
    run = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="2", **env), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{name}, {backend}: {run.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def measure_round(names: list[str], steps: int, allocator: str, results: dict[tuple[str, str, str], list[Any]]) -> None:
    """One cold and one cached process of every model and backend."""
    from kiln.testing import Daemon

    daemon = Daemon()
    daemon.start()
    cache = tempfile.mkdtemp(prefix="inductor")
    own = {
        "eager": {},
        "inductor": {"TORCHINDUCTOR_CACHE_DIR": cache},
        "kiln": {"KILN_SERVER": daemon.address, "KILN_STRICT": "1"},
    }
    try:
        for name in names:
            for when, env in (("cold", {}), ("cached", {"LD_PRELOAD": allocator, "MALLOC_CONF": RETAIN})):
                for backend in BACKENDS:
                    found = child(backend, name, steps, own[backend] | env)
                    results[name, backend, when].append(found)
                    text = f"first {found['first']:6.2f} s, step {statistics.median(found['steps']) * 1e3:7.1f} ms"
                    print(f"# {name:9} {backend:9} {when:7} {text}", file=sys.stderr, flush=True)
            found = child("both", name, steps, own["inductor"] | own["kiln"] | env)
            results[name, "both", "in turn"].append(found)
            text = f"kiln/Inductor {statistics.median(found['ratios']):.3f}"
            print(f"# {name:9} {'both':9} in turn {text}", file=sys.stderr, flush=True)
    finally:
        daemon.close()
        shutil.rmtree(cache, ignore_errors=True)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["gpt2", "bert", "llama", "vit", "resnet50", "mlp"]
    parser.add_argument("models", nargs="*", metavar="MODEL", default=names, help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3, help="processes a measurement (default: 3)")
    parser.add_argument("--steps", type=int, default=7, help="steps measured a process (default: 7)")
    parser.add_argument("--allocator", default=ALLOCATOR, help=f"the allocator to preload (default: {ALLOCATOR})")
    parser.add_argument("--json", action="store_true", help="print the medians as JSON as well")
    parser.add_argument("--child", choices=(*BACKENDS, "both"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child, args.models[0], args.steps)))
        return 0
    if unknown := set(args.models) - set(names):
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    if not os.path.exists(args.allocator):
        parser.error(f"{args.allocator} is not there: install libjemalloc2, or name another with --allocator")
    results: defaultdict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for _ in range(args.rounds):
        measure_round(args.models, args.steps, args.allocator, results)

    medians: dict[tuple[str, str, str, str], float] = {}
    for (name, backend, when), runs in results.items():
        if backend == "both":
            medians[name, backend, when, "ratio"] = statistics.median(r for run in runs for r in run["ratios"])
            continue
        medians[name, backend, when, "step"] = statistics.median(s for run in runs for s in run["steps"])
        for what in ("first", "compile", "peak"):
            if what in runs[0]:
                medians[name, backend, when, what] = statistics.median(run[what] for run in runs)
    if args.json:
        print(json.dumps({" ".join(key): value for key, value in medians.items()}))
    columns = (
        ("cold", "first", "first step, s", 1.0),
        ("cold", "compile", "compiler, s", 1.0),
        ("cold", "step", "step, ms", 1e3),
        ("cached", "first", "cached first, s", 1.0),
        ("cached", "compile", "a hit, ms", 1e3),
        ("cached", "step", "retained, ms", 1e3),
        ("cached", "peak", "peak, MiB", 1 / 2**20),
    )
    missed = []
    for when, what, title, scale in columns:
        if (when, what) == ("cached", "compile"):  # Inductor's is none of its back end's
            print(f"\n{title:16}{'kiln':>10}")
            for name in args.models:
                seconds = medians[name, "kiln", when, what]
                print(f"{name:16}{seconds * scale:10.2f}")
                if seconds > HIT_SECONDS:
                    missed.append(f"{name}: {title} {seconds * scale:.1f}, at most {HIT_SECONDS * scale:.1f}")
            continue
        backends = BACKENDS if what != "compile" else BACKENDS[1:]
        print(f"\n{title:16}" + "".join(f"{b:>10}" for b in backends) + f"{'kiln/Inductor':>15}")
        ratios = []
        for name in args.models:
            values = [medians[name, b, when, what] for b in backends]
            ratios.append(values[-1] / values[-2])
            print(f"{name:16}" + "".join(f"{v * scale:10.2f}" for v in values) + f"{ratios[-1]:15.3f}")
            if ratios[-1] > BARS.get((when, what), math.inf):
                missed.append(f"{name}: {title} {ratios[-1]:.3f}, at most {BARS[when, what]:.3f}")
        print(f"{'geometric mean':16}{'':{10 * len(backends)}}{geometric_mean(ratios):15.3f}")
    print(f"\n{'in turn, retained':31}{'kiln/Inductor':>20}")
    ratios = [medians[name, "both", "in turn", "ratio"] for name in args.models]
    for name, ratio in zip(args.models, ratios, strict=True):
        print(f"{name:31}{ratio:20.3f}")
        if ratio > STEP_RATIO:
            missed.append(f"{name}: steps in turn {ratio:.3f}, at most {STEP_RATIO:.3f}")
    print(f"{'geometric mean':31}{geometric_mean(ratios):20.3f}")
    if geometric_mean(ratios) > 1:
        missed.append(f"geometric mean: steps in turn {geometric_mean(ratios):.3f}, at most 1")
    for text in missed:
        print(f"MISS {text}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
