"""A training step of GPT-2 124M (1x128): eager, Inductor and kiln, each cold, from its cache, and warm.

    .venv/bin/python tests/perf/step.py [--layers 12] [--rounds 3] [--steps 10]

One process a measurement, interleaved, 2 threads; the cold ones with an empty cache, the others with what a cold one
left. First steps and their parts are medians over the rounds, steps medians over all warm steps. Exit status 1 if a bar
is missed: server's time for the miss under 6 s, for the hit under 20 ms, kiln's step at most 1.1 times Inductor's.
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
from collections import defaultdict
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def measure(backend: str, layers: int, steps: int) -> dict[str, Any]:
    """In this process: first step, its parts, and warm steps. Times in seconds."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(2)
    torch.manual_seed(0)
    config = GPT2Config(n_layer=layers, n_positions=128, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(0, config.vocab_size, (1, 128))

    def loss_of(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        return loss

    if backend == "kiln":
        import kiln
    run = loss_of if backend == "none" else torch.compile(loss_of, backend=backend)

    def step() -> float:
        start = time.perf_counter()
        loss = run(model, tokens)
        loss.backward()
        seconds = time.perf_counter() - start
        model.zero_grad()
        return seconds

    result: dict[str, Any] = {"first": step(), "steps": [step() for _ in range(steps)]}
    if backend == "kiln":
        graphs = kiln.graphs()
        result["server"] = sum(g.server_seconds for g in graphs)
        result["rpc"] = sum(g.client_seconds for g in graphs)
        result["launches"] = sum(g.launches for g in graphs)
        result["external"] = sum(sum(g.external_calls.values()) for g in graphs)
        result["outcome"] = ",".join(g.outcome for g in graphs)
        result["fallbacks"] = kiln.counters()["fallbacks"]
    if backend == "inductor":
        from torch._inductor import metrics

        result["launches"] = metrics.generated_kernel_count
    return result


def child(name: str, env: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", name, "--layers", str(args.layers), "--steps", str(args.steps)]
    run = subprocess.run(command, env=dict(os.environ, **env), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{name}: {run.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child, args.layers, args.steps)))
        return 0

    from kiln.testing import Daemon

    results: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def run(name: str, backend: str, env: dict[str, str]) -> None:
        found = child(backend, env, args)
        results[name].append(found)
        step = statistics.median(found["steps"]) * 1e3
        print(f"# {name:17} first {found['first']:6.2f} s, step {step:7.1f} ms", file=sys.stderr, flush=True)

    for _ in range(args.rounds):
        daemon = Daemon()
        daemon.start()
        cache = tempfile.mkdtemp(prefix="inductor")
        kiln_env = {"KILN_SERVER": daemon.address, "KILN_STRICT": "1"}
        inductor_env = {"TORCHINDUCTOR_CACHE_DIR": cache}
        try:
            run("eager", "none", {})
            run("Dynamo alone", "eager", {})
            for when in ("cold", "cached"):
                run(f"kiln {when}", "kiln", kiln_env)
                run(f"Inductor {when}", "inductor", inductor_env)
        finally:
            daemon.close()
            shutil.rmtree(cache, ignore_errors=True)

    print(f"{'':18} {'first step':>10} {'step':>10} {'server':>10} {'rpc+load':>10} {'launches':>9}")
    median: dict[str, float] = {}
    for name, runs in results.items():
        median[name] = statistics.median(s for run in runs for s in run["steps"])
        row = f"{name:18} {statistics.median(r['first'] for r in runs):8.2f} s {median[name] * 1e3:7.1f} ms"
        if "server" in runs[0]:
            row += f" {statistics.median(r['server'] for r in runs) * 1e3:7.1f} ms"
            row += f" {statistics.median(r['rpc'] for r in runs) * 1e3:7.1f} ms"
        row = f"{row:52}"
        if runs[0].get("launches"):
            row += f" {runs[0]['launches']:9d}"
        print(row)
    miss = statistics.median(r["server"] for r in results["kiln cold"])
    hit = statistics.median(r["server"] for r in results["kiln cached"])
    ratio = median["kiln cached"] / median["Inductor cached"]
    bars = {
        f"miss: {miss:.2f} s of server time, under 6 s": miss < 6,
        f"hit: {hit * 1e3:.1f} ms of server time, under 20 ms": hit < 0.020,
        f"step: {ratio:.2f} times Inductor's, at most 1.1": ratio <= 1.1,
    }
    for text, ok in bars.items():
        print(f"{'ok  ' if ok else 'MISS'} {text}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
