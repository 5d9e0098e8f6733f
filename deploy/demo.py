"""kiln at work, from an empty cache: what it does is printed as it goes, and each claim is checked.

    deploy/demo.sh                 all of it
    deploy/demo.py --train         the GPT-2 part alone, against KILN_SERVER, as JSON

The exit status is 0 if every check held.
"""

from __future__ import annotations

import copy
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import kiln
import torch
from kiln.testing import Daemon, binary

STEPS = 20
failed: list[str] = []


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


def say(text: str) -> None:
    print(f"   {text}", flush=True)


def check(what: str, ok: bool) -> None:
    print(f"   {'ok  ' if ok else 'FAIL'} {what}", flush=True)
    if not ok:
        failed.append(what)


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2 + 1)


def show_relu(daemon: Daemon) -> None:
    title("relu(x * 2 + 1): one kernel, one read and one write")
    kiln.reset()
    y = torch.compile(relu, backend="kiln")(torch.tensor([-1, -0.25, 0.5]))
    say(f"[-1, -0.25, 0.5] -> {y.tolist()}")
    check("the values are [0, 0.5, 2]", y.tolist() == [0, 0.5, 2])
    counters = kiln.counters()
    check(
        "one compile, one kernel, one launch", [counters[k] for k in ("compiles", "kernels", "launches")] == [1, 1, 1]
    )
    (graph,) = kiln.graphs()
    (kernel,) = daemon.ctl("cache", "inspect", graph.key)["provenance"]["kernels"]
    say("the kernel:")
    for line in kernel["text"].splitlines():
        say("    " + line)
    counts = interpret(kernel["text"])
    say(f"the loop interpreter counts the elements of x and y: {counts}")
    check("x is read once, y is written once", counts == {"reads": [3, 0], "writes": [0, 3]})


def interpret(text: str) -> dict[str, list[int]]:
    """Elements that the loop interpreter reads and writes in each buffer of a kernel of fixed sizes."""
    run = subprocess.run([binary("kiln-opt"), "--interp", "-"], input=text, capture_output=True, text=True)
    if run.returncode != 0:
        say(run.stderr.strip())
    rows = re.findall(r"reads (\d+) writes (\d+)", run.stdout)
    return {"reads": [int(r) for r, _ in rows], "writes": [int(w) for _, w in rows]}


def show_sizes() -> None:
    title("sizes: one artifact a size, or one for all")
    kiln.reset()
    torch._dynamo.reset()
    static = torch.compile(relu, backend="kiln", dynamic=False, options={"generalize": False})
    right = all(torch.equal(static(x), relu(x)) for x in (torch.randn(n) for n in (8, 8, 16, 8)))
    graphs = kiln.graphs()
    say(f"dynamic=False, sizes 8, 8, 16, 8: {len(graphs)} captures, {[g.outcome for g in graphs]}")
    check("two captures, two compiles, eager's values", right and [g.outcome for g in graphs] == ["compiled"] * 2)

    kiln.reset()
    torch._dynamo.reset()
    dynamic = torch.compile(relu, backend="kiln", dynamic=True)
    right = all(torch.equal(dynamic(x), relu(x)) for x in (torch.randn(n) for n in range(2, 62, 3)))
    graphs = kiln.graphs()
    say(f"dynamic=True, 20 sizes from 2 to 59: {len(graphs)} capture, {[g.outcome for g in graphs]}")
    check("one compile serves all of them with eager's values", right and [g.outcome for g in graphs] == ["compiled"])


def train() -> dict[str, Any]:
    """Trains a small GPT-2 from one seed, in eager mode and compiled; times are of forward and backward, in seconds."""
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=6, n_embd=192, n_head=6, vocab_size=1024, n_positions=128, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"  # or transformers warns while it is traced, which breaks the graph
    reference = copy.deepcopy(model)
    eager, compiled = Trainer(reference, reference), Trainer(model, torch.compile(model, backend="kiln"))
    for step in range(STEPS):  # in turn, so that a busy machine is equally slow for both
        eager.step(step)
        compiled.step(step)
    return {
        "eager": {"losses": eager.losses, "times": eager.times},
        "kiln": {"losses": compiled.losses, "times": compiled.times},
        "counters": kiln.counters(),
        "graphs": [[g.key, g.artifact, g.shared_object] for g in kiln.graphs()],
        "server_seconds": sum(g.server_seconds for g in kiln.graphs()),
    }


class Trainer:
    def __init__(self, model: torch.nn.Module, call: Callable[..., Any]) -> None:
        self._call = call
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.losses: list[float] = []
        self.times: list[float] = []

    def step(self, step: int) -> None:
        torch.manual_seed(step)  # for dropout
        ids = torch.randint(1024, (4, 64), generator=torch.Generator().manual_seed(step % 4))
        start = time.perf_counter()
        loss = self._call(input_ids=ids, labels=ids).loss
        loss.backward()
        self.times.append(time.perf_counter() - start)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.losses.append(loss.item())


def train_in_new_process(daemon: Daemon, **env: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, __file__, "--train"],
        env=dict(os.environ, KILN_SERVER=daemon.address, KILN_STRICT="1", **env),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def describe_calls(result: dict[str, Any]) -> None:
    first = result["kiln"]["times"][0]
    warm, eager = (statistics.median(result[k]["times"][3:]) for k in ("kiln", "eager"))
    extra = first - warm
    even = f"{extra / (eager - warm):.0f} calls" if warm < eager else "never (the warm call is not faster here)"
    say(f"first call {first:.2f} s (server {result['server_seconds']:.2f} s), warm {warm * 1e3:.1f} ms,")
    say(f"eager {eager * 1e3:.1f} ms; break-even: {even}")
    c = result["counters"]
    external = sum(c["external_calls"].values())
    say(f"{c['kernels']} distinct kernels, {c['launches']} launches and {external} external calls a step")


def show_training(daemon: Daemon, record: Path) -> None:
    title(f"GPT-2, 6 layers, random weights: {STEPS} steps in eager mode and in kiln from one seed")
    first = train_in_new_process(daemon, KILN_RECORD=str(record), PYTHONHASHSEED="1")
    worst = 0.0
    for step, (a, b) in enumerate(zip(first["eager"]["losses"], first["kiln"]["losses"], strict=True)):
        worst = max(worst, abs(a - b) / abs(a))
        say(f"step {step:2}   eager {a:.6f}   kiln {b:.6f}   difference {abs(a - b) / abs(a):.1e}")
    check(f"losses agree within 1e-4 (largest relative difference {worst:.1e})", worst <= 1e-4)
    check("nothing fell back", first["counters"]["fallbacks"] == [] and first["counters"]["compiles"] >= 1)
    describe_calls(first)

    title("the same script in a second process")
    second = train_in_new_process(daemon, PYTHONHASHSEED="2")
    describe_calls(second)
    only_hits(second, first)

    title("an empty cache, compiled ahead from the recorded file, then a third process")
    daemon.stop()
    daemon.wipe()
    daemon.start()
    prewarm = daemon.ctl("prewarm", str(record))
    say(f"kilnctl prewarm: {json.dumps(prewarm)}")
    third = train_in_new_process(daemon, PYTHONHASHSEED="3")
    describe_calls(third)
    only_hits(third, first)


def only_hits(result: dict[str, Any], first: dict[str, Any]) -> None:
    c = result["counters"]
    graphs = len(first["graphs"])
    say(f"{c['hits']} hits, {c['compiles']} compiles, {c['joined']} joined")
    check("every look-up is a hit, nothing compiles", (c["hits"], c["compiles"], c["joined"]) == (graphs, 0, 0))
    check("the artifacts are the same bytes", result["graphs"] == first["graphs"])
    check("the losses are the same bits", result["kiln"]["losses"] == first["kiln"]["losses"])


def show_stats(daemon: Daemon) -> None:
    title("kilnctl stats")
    env = dict(os.environ, KILN_SERVER=daemon.address)
    subprocess.run([binary("kilnctl"), "stats"], env=env, check=False)
    totals = daemon.ctl("stats")["totals"]
    check("the server counted a hit and a compile", int(totals["hits"]) >= 1 and int(totals["compiles"]) >= 1)


def main() -> int:
    if sys.argv[1:] == ["--train"]:
        print(json.dumps(train()))
        return 0
    started = time.monotonic()
    daemon = Daemon()
    title(f"kilnd on {daemon.address}, cache in {daemon.dir}/data, empty")
    try:
        daemon.start()
        os.environ.update(KILN_SERVER=daemon.address, KILN_STRICT="1")
        with tempfile.TemporaryDirectory() as scratch:
            show_relu(daemon)
            show_sizes()
            show_training(daemon, Path(scratch) / "requests")
            show_stats(daemon)
        check("SIGTERM drains it, exit status 0", daemon.stop() == 0)
    finally:
        daemon.close()
    title(f"{'all checks hold' if not failed else 'FAILED: ' + '; '.join(failed)} ({time.monotonic() - started:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
