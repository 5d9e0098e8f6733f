"""Launches of one training or evaluation step of the six models (tests/models/zoo.py): kiln's beside Inductor's.

    .venv/bin/python tests/perf/launches.py [MODEL...] [--full]

Kernel launches and calls of ATen operators, forward and backward together, on the same captured graphs. Inductor's are
the calls that its generated wrapper makes: of its kernels, each of which may be several loops in one parallel region,
and of `extern_kernels` and `torch.ops`. kiln's are the entries into the threads, each for kernels that follow each
other. Then what kiln's kernels compute and move (kiln-opt --stop-after=fuse): graph nodes, and MB beside what they
would move one by one. Exit status 1 if a model does not compile, or kiln's kernels are launched more often than
Inductor's.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))

import kiln
import torch
import torch._functorch.config
import torch._inductor.config
from kiln.testing import Daemon, binary
from torch._inductor.utils import run_and_get_code
from zoo import MODELS

_LAUNCH = re.compile(r"^ {8,}cpp_fused_?\w*\(", re.MULTILINE)
_TOTAL = re.compile(r"^# total: (\d+) nodes in \d+ steps move (\d+) bytes, one by one (\d+);", re.MULTILINE)
_EXTERNAL = re.compile(r"^ {8,}(?:\w+ = )?(?:extern_kernels|torch\.ops)\.[\w.]+\(", re.MULTILINE)


def step(call: Any, inputs: dict[str, Any], training: bool) -> None:
    if training:
        call(**inputs)[0].backward()
    else:
        with torch.no_grad():
            call(**inputs)


def traffic(record: str) -> tuple[int, float, float]:
    """Nodes in kernels, and MB that the kernels move, fused and one by one, of the recorded request."""
    command = [binary("kiln-opt"), record, "--stop-after=fuse"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [list(map(int, total)) for total in _TOTAL.findall(text)]
    nodes, fused, alone = (sum(column) for column in zip(*found, strict=True))
    return nodes, fused / 1e6, alone / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS), help=", ".join(MODELS))
    parser.add_argument("--full", action="store_true", help="the models as they are used, not small")
    args = parser.parse_args()
    torch._inductor.config.fx_graph_cache = False  # a cached graph is not generated again
    torch._functorch.config.enable_autograd_cache = False
    daemon = Daemon()
    daemon.start()
    more = []
    records = tempfile.TemporaryDirectory(prefix="kiln-launches-")
    head = f"{'':16} {'kiln: kernels':>14} {'external':>9} {'Inductor: kernels':>18} {'external':>9}"
    print(f"{head} {'nodes':>7} {'MB moved':>9} {'one by one':>11}")
    try:
        for name in args.models:
            for training in (True, False):
                torch.manual_seed(0)
                model, inputs = MODELS[name](full=args.full)
                model.train(training)
                torch._dynamo.reset()
                kiln.reset()
                record = f"{records.name}/{name}{training}"
                options = {"server": daemon.address, "strict": True, "record": record}
                step(torch.compile(model, backend="kiln", dynamic=False, options=options), inputs, training)
                ours = kiln.counters()
                _, codes = run_and_get_code(step, torch.compile(model, dynamic=False), inputs, training)
                launches, external = (sum(len(p.findall(code)) for code in codes) for p in (_LAUNCH, _EXTERNAL))
                case = name + (" train" if training else " eval")
                if ours["launches"] > launches:
                    more.append(case)
                row = f"{case:16} {ours['launches']:14d}"
                row += f" {sum(ours['external_calls'].values()):9d} {launches:18d} {external:9d}"
                nodes, fused, alone = traffic(record)
                print(f"{row} {nodes:7d} {fused:9.1f} {alone:11.1f}", flush=True)
    finally:
        daemon.close()
        records.cleanup()
    if more:
        print(f"more launches than Inductor's: {', '.join(more)}")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
