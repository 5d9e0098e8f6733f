"""What a call of a compiled function costs above its kernels: run by hand on a quiet machine.

    python tests/client/bench_overhead.py [--inductor]

Tensors of 4x16; the plan's one kernel does nothing. Inductor's figure is that of the function which it gives
AOTAutograd for the same signature, its own small kernel included. The exit status is the number of bars missed.
"""

from __future__ import annotations

import argparse
import sys
import timeit
from collections.abc import Callable
from typing import Any

import torch
from plans import Plan, compile_kernels

CASES = [(10, 2, 5.0), (200, 2, 8.0), (1, 100, 90.0)]  # tensors in, tensors out, bar in microseconds


def microseconds(function: Callable[[list[Any]], Any], tensors: list[torch.Tensor]) -> float:
    number = 200
    return min(timeit.repeat(lambda: function(list(tensors)), number=number, repeat=200)) / number * 1e6


def kiln_function(inputs: int, outputs: int) -> Any:
    x = torch.zeros(4, 16)
    plan = Plan(*[x] * inputs)
    outs = [plan.empty(x) for _ in range(outputs)]
    plan.launch("nothing", *plan.inputs, *outs, extent=1)
    return plan.output(*outs).load(compile_kernels("KERNEL(nothing) {}"))


def inductor_function(inputs: int, outputs: int) -> Any:
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.compile_fx import compile_fx_inner

    found: list[Any] = []

    def compiler(gm: Any, example_inputs: Any) -> Any:
        found.append(compile_fx_inner(gm, example_inputs))
        return found[0]

    def f(*xs: torch.Tensor) -> list[torch.Tensor]:
        total = sum(xs[1:], start=xs[0])
        return [total + i for i in range(outputs)]

    with torch.no_grad():
        backend = aot_autograd(fw_compiler=compiler, inference_compiler=compiler)
        torch.compile(f, backend=backend, dynamic=False)(*[torch.zeros(4, 16) for _ in range(inputs)])
    return found[0]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inductor", action="store_true")
    inductor = parser.parse_args().inductor
    torch.set_num_threads(1)
    missed = 0
    print(f"{'in':>4} {'out':>4} {'kiln us':>9} {'bar':>6}" + ("  inductor us" if inductor else ""))
    for inputs, outputs, bar in CASES:
        tensors = [torch.zeros(4, 16) for _ in range(inputs)]
        ours = microseconds(kiln_function(inputs, outputs), tensors)
        missed += ours > bar
        row = f"{inputs:4} {outputs:4} {ours:9.2f} {bar:6.0f}"
        if inductor:
            row += f"  {microseconds(inductor_function(inputs, outputs), tensors):11.2f}"
        print(row)
    return missed


if __name__ == "__main__":
    sys.exit(main())
