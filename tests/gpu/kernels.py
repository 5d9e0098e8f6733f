"""Kernels that models are made of, on a GPU: kiln's against eager, by value, and against eager and Inductor, by time.

    python tests/gpu/kernels.py KERNELS.json [NAME...] [--no-inductor | --check] [--out results.json]

KERNELS.json: assemble.py's, made anywhere. The share of a copy is the bytes that must move (each input once, each
output once) by the time, by the rate of a device copy; medians. Exit status 1 if a result is wrong by the one rule
(tests/judge.py).
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.judge import complaint

BF16, F32 = torch.bfloat16, torch.float32
ROWS, COLUMNS = 32768, 4096
PARTIAL_ELEMENTS = 1 << 23
aten = torch.ops.aten


def R(*sizes: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*sizes, device="cuda", dtype=dtype)


def _f32(x: Tensor) -> Tensor:
    """As the models do; the answer in fp64 stays there."""
    return x if x.dtype == torch.float64 else x.float()


def _adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return p - m / (v.sqrt() + 1e-8) * 0.001, m, v


def _rope(q: Tensor, c: Tensor, s: Tensor) -> Tensor:
    return q * c + torch.cat((-q[..., 64:], q[..., :64]), -1) * s


def _bn(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return torch.relu(x * scale.view(1, 256, 1, 1) + shift.view(1, 256, 1, 1)).to(x.dtype)


def _layernorm_backward(g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, w: Tensor, b: Tensor) -> Any:
    return aten.native_layer_norm_backward(g, x, (COLUMNS,), mean, rstd, w, b, [True] * 3)


def _flat() -> list[Tensor]:
    return [R(1 << 27, dtype=F32) for _ in range(3)] + [R(1 << 27, dtype=F32).abs()]


def _moments() -> list[Tensor]:
    return [R(ROWS, 1, dtype=F32) * 0.01, R(ROWS, 1, dtype=F32).abs() * 0.01 + 1]


X = (ROWS, COLUMNS)
# The functions and arguments that the graphs of kernels/ are of.
CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]]]] = {
    "relu_affine": (lambda x: torch.relu(x * 2 + 1), lambda: [R(*X)]),
    "bias_gelu": (lambda x, b: F.gelu(x + b), lambda: [R(*X), R(COLUMNS)]),
    "swiglu": (lambda x, r: F.silu(x) * r, lambda: [R(*X), R(*X)]),
    "layernorm": (lambda x, w, b: F.layer_norm(x, (COLUMNS,), w, b), lambda: [R(*X), R(COLUMNS), R(COLUMNS)]),
    "residual_layernorm": (
        lambda x, r, w, b: F.layer_norm(x + r, (COLUMNS,), w, b),
        lambda: [R(*X), R(*X), R(COLUMNS), R(COLUMNS)],
    ),
    "softmax": (lambda x: torch.softmax(_f32(x), 1).to(x.dtype), lambda: [R(*X)]),
    "softmax_backward": (
        lambda g, y: aten._softmax_backward_data(g, y, 1, g.dtype),
        lambda: [R(*X), torch.softmax(R(*X).float(), 1).to(BF16)],
    ),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(_f32(x), t),
        lambda: [R(8192, 50304), torch.randint(50304, (8192,), device="cuda")],
    ),
    "layernorm_backward": (
        _layernorm_backward,
        lambda: [R(*X), R(*X), *_moments(), R(COLUMNS), R(COLUMNS)],
    ),
    "bias_grad": (lambda x: _f32(x).sum(0), lambda: [R(*X)]),
    "var_mean_all": (lambda x: torch.var_mean(_f32(x)), lambda: [R(*X)]),
    "transpose_add": (lambda x, y: x.t() + y, lambda: [R(8192, 8192), R(8192, 8192)]),
    "rope": (_rope, lambda: [R(8, 32, 4096, 128), R(4096, 128), R(4096, 128)]),
    "bn_eval_relu": (_bn, lambda: [R(64, 256, 56, 56), R(256, dtype=F32), R(256, dtype=F32)]),
    "adam": (_adam, _flat),
}


class Driver:
    """What is needed of the CUDA driver, in torch's context."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.error = torch.zeros(1, dtype=torch.int64, device="cuda")

    def check(self, status: int) -> None:
        if status != 0:
            name = ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(name))
            raise SystemExit(f"CUDA: {(name.value or b'?').decode()}")

    def launcher(self, launch: dict[str, Any], buffers: list[Tensor]) -> Callable[[], None]:
        """All buffers are allocations of torch's, so aligned."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.cuModuleLoadData(ctypes.byref(module), launch["ptx"].encode() + b"\0"))
        self.check(self.lib.cuModuleGetFunction(ctypes.byref(function), module, b"k_aligned"))
        values = [ctypes.c_void_p(t.data_ptr()) for t in (*buffers, self.error)]
        parameters = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values])
        blocks, threads = launch["blocks"], launch["threads"]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def run() -> None:
            self.check(self.lib.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, None))

        run.keep = values, buffers  # type: ignore[attr-defined]
        return run


def wrong(outputs: list[Tensor], wanted: tuple[Tensor, ...], exact: tuple[Tensor, ...]) -> str | None:
    for actual, expected, answer in zip(outputs, wanted, exact, strict=True):
        if found := complaint(actual, expected, answer):
            return found
    return None


def tuple_of(result: Any) -> tuple[Tensor, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def wide(t: Tensor) -> Tensor:
    return t.double() if t.is_floating_point() else t


def measure(name: str, kernel: dict[str, Any], driver: Driver, columns: list[str], copy: float) -> dict[str, Any]:
    function, make = CASES[name]
    torch.manual_seed(0)
    inputs = make()
    wanted = tuple_of(function(*inputs))
    memory = {f"%{i}": t for i, t in enumerate(inputs)}
    memory |= {v: torch.full_like(w, float("nan")) for v, w in zip(kernel["returns"], wanted, strict=True)}
    launches = []
    for launch in kernel["launches"]:
        for buffer in launch["buffers"]:
            if buffer not in memory:
                memory[buffer] = torch.full((PARTIAL_ELEMENTS,), float("nan"), device="cuda")
        launches.append(driver.launcher(launch, [memory[b] for b in launch["buffers"]]))

    def run() -> None:
        for launch in launches:
            launch()

    run()
    outputs = [memory[v] for v in kernel["returns"]]
    torch.cuda.synchronize()
    equal = all(torch.equal(o, w) for o, w in zip(outputs, wanted, strict=True))
    # Where the answer is eager's bit for bit, fp64 has nothing to add.
    exact = wanted if equal else tuple_of(function(*(wide(t) for t in inputs)))
    moved = sum(t.nbytes for t in (*inputs, *wanted))

    def share(call: Callable[[], Any]) -> float:
        return round(moved / bench(call) / copy, 3)

    row = {"wrong": wrong(outputs, wanted, exact), "equal": equal}
    if "kiln" in columns:
        row["kiln"] = share(run)
    if "eager" in columns:
        row["eager"] = share(lambda: function(*inputs))
    if "inductor" in columns:
        torch._dynamo.reset()
        compiled = torch.compile(function, dynamic=False)
        compiled(*inputs)
        row["inductor"] = share(lambda: compiled(*inputs))
    return row


def bench(call: Callable[[], Any]) -> float:
    """The median, in milliseconds."""
    from triton.testing import do_bench

    return float(do_bench(call, return_mode="median"))


def copy_rate() -> float:
    """Bytes read and written a millisecond."""
    source = torch.empty(1 << 30, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / bench(lambda: target.copy_(source))


def driver_version() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--check", action="store_true", help="values only, no times: for compute-sanitizer")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    kernels = json.loads(args.kernels.read_text())
    driver = Driver()
    columns = [] if args.check else ["kiln", "eager"] if args.no_inductor else ["kiln", "inductor", "eager"]
    copy = copy_rate() if columns else 1.0
    rows: dict[str, dict[str, Any]] = {}
    print(f"{'share of a copy':20}" + "".join(f"{c:>10}" for c in columns))
    for name in args.names or CASES:
        row = rows[name] = measure(name, kernels[name], driver, columns, copy)
        note = "  WRONG: " + row["wrong"] if row["wrong"] else "  equal to eager" if row["equal"] else ""
        print(f"{name:20}" + "".join(f"{row[c]:10.3f}" for c in columns) + note, flush=True)
        torch.cuda.empty_cache()
    means = {c: round(math.exp(sum(math.log(r[c]) for r in rows.values()) / len(rows)), 3) for c in columns}
    print(f"{'geometric mean':20}" + "".join(f"{means[c]:10.3f}" for c in columns))
    if args.out:
        made = {
            "device": torch.cuda.get_device_name(),
            "driver": driver_version(),
            "torch": torch.__version__,
            "date": datetime.date.today().isoformat(),
            "copy_gb_per_s": round(copy / 1e6),
            "geometric_mean": means,
            "kernels": rows,
        }
        args.out.write_text(json.dumps(made, indent=1) + "\n")
    return 1 if any(row["wrong"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
