"""The first training step of a new process from a filled cache: Dynamo alone, Inductor, kiln.

    .venv/bin/python tests/perf/first_step.py [MODEL...] [--rounds 3] [--json]

The models of tests/models/zoo.py, full size, on 2 threads; each measurement is a process of its own, in turn, after one
of each that fills the caches (and the machine's page cache). "Dynamo alone" is torch.compile(backend="eager"). Then
where kiln's time goes: the start of its extension, the capture of Dynamo's graph, the server (the look-up and the
code), its loading, the wrapper; the rest is Dynamo, the guards and the step itself. Medians. Exit status 1 if a bar is
missed: kiln at most Dynamo alone + 0.2 s, and below Inductor.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BACKENDS = ("eager", "inductor", "kiln")
MODELS = ("gpt2", "bert", "llama", "vit", "resnet50")
MARGIN = 0.2  # seconds over Dynamo alone


def measure(backend: str, name: str) -> dict[str, Any]:
    """In this process. Seconds."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "models"))
    import torch
    from zoo import MODELS as make

    torch.set_num_threads(2)
    torch.manual_seed(0)
    model, inputs = make[name](full=True)
    if backend == "kiln":
        import kiln
    call = torch.compile(model, backend=backend, dynamic=False)
    start = time.perf_counter()
    call(**inputs)[0].backward()
    result: dict[str, Any] = {"first": time.perf_counter() - start}
    if backend == "kiln":
        graphs = kiln.graphs()
        result["parts"] = {part: sum(g.parts[part] for g in graphs) for part in graphs[0].parts} if graphs else {}
        result["lookups"] = [g.lookup for g in graphs]
    return result


def child(backend: str, name: str, env: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--child", backend]
    run = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="2", **env), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{name}, {backend}: {run.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS), help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=3, help="processes a measurement (default: 3)")
    parser.add_argument("--json", action="store_true", help="print the medians as JSON as well")
    parser.add_argument("--child", choices=BACKENDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child, args.models[0])))
        return 0
    from kiln.testing import Daemon

    daemon = Daemon()
    daemon.start()
    cache = tempfile.mkdtemp(prefix="inductor")
    own = {
        "eager": {},
        "inductor": {"TORCHINDUCTOR_CACHE_DIR": cache},
        "kiln": {"KILN_SERVER": daemon.address, "KILN_STRICT": "1"},
    }
    missed, medians = [], {}
    parts = ("start", "capture", "server", "load", "wrapper")
    print(
        f"{'first step, s':14} {'Dynamo':>8} {'Inductor':>9} {'kiln':>7}   "
        + " ".join(f"{p + ', ms':>12}" for p in parts)
    )
    try:
        for name in args.models:
            for backend in BACKENDS:
                child(backend, name, own[backend])
            found: dict[str, list[dict[str, Any]]] = {backend: [] for backend in BACKENDS}
            for _ in range(args.rounds):
                for backend in BACKENDS:
                    found[backend].append(child(backend, name, own[backend]))
            if any(lookup != "hit" for run in found["kiln"] for lookup in run["lookups"]):
                raise SystemExit(f"{name}: not served from the cache: {found['kiln'][0]['lookups']}")
            first = {b: statistics.median(run["first"] for run in runs) for b, runs in found.items()}
            spent = {p: statistics.median(run["parts"][p] for run in found["kiln"]) for p in parts}
            medians[name] = {**first, **spent}
            row = f"{name:14} {first['eager']:8.2f} {first['inductor']:9.2f} {first['kiln']:7.2f}   "
            print(row + " ".join(f"{spent[p] * 1e3:12.1f}" for p in parts), flush=True)
            if first["kiln"] > first["eager"] + MARGIN or first["kiln"] >= first["inductor"]:
                missed.append(name)
    finally:
        daemon.close()
        shutil.rmtree(cache, ignore_errors=True)
    if args.json:
        print(json.dumps(medians))
    if missed:
        print(f"bars missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
