"""Kernels that models are made of: eager, Inductor and kiln, each as it is and under an allocator that keeps its pages.

    .venv/bin/python tests/perf/kernels.py [KERNEL...] [--rounds 3] [--calls 7] [--allocator PATH] [--json]
    .venv/bin/python tests/perf/kernels.py [KERNEL...] --as-is [--backends kiln,eager] [--rounds 3] [--calls 7]

Fresh large outputs are mapped page by page by the kernel, which costs more than computing them: the second set of
columns (needs libjemalloc.so.2, Debian's libjemalloc2) shows the code alone. One process a measurement, interleaved,
2 threads; medians of all calls, in ms, and the speed of kiln relative to Inductor. Exit status 1 if, under the
allocator, kiln is slower than Inductor by more than 10% on any kernel, or in the geometric mean at all.

--as-is: outputs and their memory included, no allocator. Also the share of a copy: the bytes that must move (each
input once, each output once) by the time, beside torch's copy_ of 64 MiB just after it. Exit status 1 if kiln's
geometric mean over the kernels of SHARES is below 0.8.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Built = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
BACKENDS = ("eager", "inductor", "kiln")
ALLOCATOR = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
RETAIN = "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always"

SHARE_BAR = 0.8
COPY = "copy"

R = torch.randn


def _relu_affine() -> Built:
    return lambda x: torch.relu(x * 2 + 1), (R(8192, 2048),)


def _bias_gelu() -> Built:
    return lambda x, b: F.gelu(x + b), (R(8192, 2048), R(2048))


def _swiglu() -> Built:
    return lambda x, r: F.silu(x) * r, (R(8192, 2048), R(8192, 2048))


def _layernorm() -> Built:
    return lambda x, w, b: F.layer_norm(x, (2048,), w, b), (R(8192, 2048), R(2048), R(2048))


def _residual_layernorm() -> Built:
    return lambda x, r, w, b: F.layer_norm(x + r, (2048,), w, b), (R(8192, 2048), R(8192, 2048), R(2048), R(2048))


def _rmsnorm() -> Built:
    return lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, (R(8192, 2048), R(2048))


def _softmax() -> Built:
    return lambda x: torch.softmax(x, -1), (R(8192, 2048),)


def _cross_entropy() -> Built:
    return lambda x, t: F.cross_entropy(x, t), (R(512, 32000), torch.randint(32000, (512,)))


def _cross_entropy_backward() -> Built:
    def backward(x: torch.Tensor, lse: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        onehot = torch.arange(x.shape[1]) == t[:, None]
        return (torch.exp(x - lse) - onehot.to(x.dtype)) / x.shape[0]

    x = R(512, 32000)
    return backward, (x, x.logsumexp(-1, keepdim=True), torch.randint(32000, (512,)))


def _sum_dim0() -> Built:
    return lambda x: x.sum(0), (R(8192, 2048),)


def _transpose_add() -> Built:
    return lambda x, y: x.t() + y, (R(4096, 4096), R(4096, 4096))


def _var_mean_all() -> Built:
    return lambda x: torch.var_mean(x), (R(8192, 2048),)


def _layernorm_backward() -> Built:
    x, w, b = R(8192, 2048), R(2048), R(2048)
    _, mean, rstd = torch.native_layer_norm(x, (2048,), w, b, 1e-5)

    def backward(
        g: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, w: torch.Tensor, b: torch.Tensor
    ) -> Any:
        return torch.ops.aten.native_layer_norm_backward(g, x, (2048,), mean, rstd, w, b, (True, True, True))

    return backward, (R(8192, 2048), x, mean, rstd, w, b)


def _softmax_backward() -> Built:
    y = torch.softmax(R(8192, 2048), -1)
    return lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32), (R(8192, 2048), y)


def _gelu_backward_bias_grad() -> Built:
    def backward(g: torch.Tensor, x: torch.Tensor) -> Any:
        d = torch.ops.aten.gelu_backward(g, x)
        return d, d.sum(0)

    return backward, (R(8192, 2048), R(8192, 2048))


def _batch_norm_eval() -> Built:
    return (
        lambda x, m, v, w, b: torch.relu(F.batch_norm(x, m, v, w, b, False)),
        (R(16, 128, 56, 56), R(128), R(128).abs() + 0.1, R(128), R(128)),
    )


def _batch_norm_train() -> Built:
    return (
        lambda x, m, v, w, b: torch.relu(F.batch_norm(x, m, v, w, b, True)),
        (R(16, 128, 56, 56), R(128), R(128).abs() + 0.1, R(128), R(128)),
    )


def _rope() -> Built:
    def rope(q: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        a, b = q.chunk(2, -1)
        return q * c + torch.cat((-b, a), -1) * s

    return rope, (R(2, 16, 2048, 128), R(2048, 128), R(2048, 128))


def _bf16_gelu_chain() -> Built:
    x, y = R(8192, 2048, dtype=torch.bfloat16), R(8192, 2048, dtype=torch.bfloat16)
    return lambda x, y: F.gelu(x) * y + x, (x, y)


def _adam() -> Built:
    def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Any:
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v

    n = 1 << 24
    return adam, (R(n), R(n), R(n), R(n).abs())


def _outputs_512() -> Built:
    """512 outputs of 0.5 MiB."""
    return lambda x: [t * 2 + 1 for t in x.unbind(0)], (R(512, 1 << 17),)


KERNELS: dict[str, Callable[[], Built]] = {
    name.removeprefix("_"): value
    for name, value in list(globals().items())
    if name.startswith("_") and callable(value) and getattr(value, "__annotations__", {}).get("return") == "Built"
}
SHARES = set(KERNELS) - {"outputs_512"}  # those of shared/reference/anchors.md


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in tensors_in(v)]


def moved_bytes(name: str) -> int:
    """The least bytes that a call must read and write."""
    function, inputs = KERNELS[name]()
    twice = inputs[0].nbytes if name == "batch_norm_train" else 0  # for the statistics, then for the result
    return twice + sum(t.nbytes for t in (*inputs, *tensors_in(function(*inputs))))


def copy_seconds(calls: int) -> list[float]:
    """Of copies of 64 MiB."""
    x, y = R(1 << 24), torch.zeros(1 << 24)
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        y.copy_(x)
        times.append(time.perf_counter() - start)
    return times


def measure(backend: str, names: list[str], calls: int) -> dict[str, list[float]]:
    """Seconds of each of `calls` warm calls of each kernel, and of as many copies after them, in this process."""
    torch.set_num_threads(2)
    if backend == "kiln":
        import kiln  # noqa: F401
    times: dict[str, list[float]] = {}
    for name in names:
        torch.manual_seed(0)
        torch._dynamo.reset()
        function, inputs = KERNELS[name]()
        call = function if backend == "eager" else torch.compile(function, backend=backend, dynamic=False)
        with torch.no_grad():
            for _ in range(3):
                call(*inputs)
            times[name] = []
            for _ in range(calls):
                start = time.perf_counter()
                call(*inputs)
                times[name].append(time.perf_counter() - start)
        times[f"{COPY} {name}"] = copy_seconds(3 + calls)[3:]
    return times


def child(backend: str, names: list[str], calls: int, allocator: str | None) -> dict[str, list[float]]:
    env = dict(os.environ, OMP_NUM_THREADS="2")
    if allocator:
        env |= {"LD_PRELOAD": allocator, "MALLOC_CONF": RETAIN}
    command = [sys.executable, __file__, *names, "--child", backend, "--calls", str(calls)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    times: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return times


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def compare_as_is(names: list[str], backends: list[str], rounds: int, calls: int) -> int:
    times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for backend in backends:
            for name, seconds in child(backend, names, calls, None).items():
                times[name, backend] += seconds
    medians = {key: statistics.median(values) for key, values in times.items()}
    head = "".join(f"{b:>10}" for b in backends)
    print(f"{'':26}{'ms':>10}{'':{10 * len(backends) - 10}}   {'share of a copy':>10}\n{'':26}{head}   {head}")
    shares: dict[str, list[float]] = {b: [] for b in backends}
    for name in names:
        row, bytes_ = "", moved_bytes(name)
        for backend in backends:
            rate = 2 * (64 << 20) / medians[f"{COPY} {name}", backend]
            share = bytes_ / medians[name, backend] / rate
            row += f"{share:10.2f}"
            if name in SHARES:
                shares[backend].append(share)
        print(f"{name:26}" + "".join(f"{medians[name, b] * 1e3:10.2f}" for b in backends) + f"   {row}")
    means = {b: geometric_mean(values) for b, values in shares.items() if values}
    print(f"{'geometric mean':26}{'':{10 * len(backends)}}   " + "".join(f"{m:10.2f}" for m in means.values()))
    return 1 if means.get("kiln", SHARE_BAR) < SHARE_BAR else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=", ".join(KERNELS))
    parser.add_argument("--rounds", type=int, default=3, help="processes a measurement (default: 3)")
    parser.add_argument("--calls", type=int, default=7, help="calls measured a process (default: 7)")
    parser.add_argument("--allocator", default=ALLOCATOR, help=f"the allocator to preload (default: {ALLOCATOR})")
    parser.add_argument("--json", action="store_true", help="print the medians, in seconds, as JSON")
    parser.add_argument("--as-is", action="store_true", help="without an allocator, and as shares of a copy")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="with --as-is (default: all)")
    parser.add_argument("--child", choices=BACKENDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.kernels or list(KERNELS)
    if unknown := set(names) - set(KERNELS):
        parser.error(f"no such kernel: {', '.join(sorted(unknown))}")
    if args.child:
        print(json.dumps(measure(args.child, names, args.calls)))
        return 0
    if args.as_is:
        return compare_as_is(names, args.backends.split(","), args.rounds, args.calls)
    if not os.path.exists(args.allocator):
        parser.error(f"{args.allocator} is not there: install libjemalloc2, or name another with --allocator")
    times: defaultdict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        for backend in BACKENDS:
            for retained in (False, True):
                for name, seconds in child(backend, names, args.calls, args.allocator if retained else None).items():
                    times[name, backend, retained] += seconds
    medians = {key: statistics.median(values) for key, values in times.items()}
    if args.json:
        print(
            json.dumps(
                {
                    name: {f"{b}{'_retained' * r}": medians[name, b, r] for b in BACKENDS for r in (False, True)}
                    for name in names
                }
            )
        )
    head = "".join(f"{b:>10}" for b in BACKENDS) + f"{'ratio':>8}"
    print(f"{'':26}{'as is':>10}{'':28}   {'pages retained':>14}\n{'':26}{head}   {head}")
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for name in names:
        row = f"{name:26}"
        for retained in (False, True):
            ratio = medians[name, "inductor", retained] / medians[name, "kiln", retained]
            ratios[retained].append(ratio)
            row += "".join(f"{medians[name, b, retained] * 1e3:10.2f}" for b in BACKENDS) + f"{ratio:8.2f}   "
        print(row)
    means = {retained: geometric_mean(values) for retained, values in ratios.items()}
    print(f"{'geometric mean':26}{means[False]:38.2f}{means[True]:41.2f}")
    return 0 if means[True] >= 1.0 and min(ratios[True]) >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
