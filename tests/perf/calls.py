"""What a call costs beside its kernels: kiln's wrapper and AOTAutograd's around the same compiled code.

    .venv/bin/python tests/perf/calls.py [--rounds 5] [--calls 300]

f multiplies a small tensor by 2, 20 or 100 parameters, all of which are saved. Microseconds a call, Dynamo's guards
included: medians over rounds in which the two take turns, in one process with one thread. Exit status 1 if kiln's is
above AOTAutograd's anywhere.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from kiln import call_spec, session
from kiln.testing import Daemon


def product(x: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    for p in parameters:
        x = x * p
    return x


def refuse(*_: Any) -> Any:
    raise call_spec.Refused("to measure AOTAutograd's own wrapper")


def compiled(address: str, args: tuple[Any, ...], own: bool, training: bool) -> Callable[..., Any]:
    """kiln's wrapper (`own`), or AOTAutograd's."""

    def f(x: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
        return product(x, parameters)

    f.__code__ = f.__code__.replace(co_name=f"f_{own}_{training}_{len(args[1])}")  # a cache of its own in Dynamo
    derive, lookup = backend_module.derive, session.lookup
    session.lookup = lambda *_: None
    if not own:
        backend_module.derive = refuse
    try:
        call = torch.compile(f, backend="kiln", options={"server": address, "strict": True})
        with torch.set_grad_enabled(training):
            call(*args)
    finally:
        backend_module.derive, session.lookup = derive, lookup
    return call


def measure(run: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="times that the two take turns (default: 5)")
    parser.add_argument("--calls", type=int, default=300, help="calls a turn (default: 300)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    daemon = Daemon()
    daemon.start()
    worse = False
    print(f"{'us a call':>24} {'AOTAutograd':>12} {'kiln':>8} {'kiln/AOTAutograd':>17}")
    try:
        for count in (2, 20, 100):
            for what in ("inference", "forward", "forward + backward"):
                training = what != "inference"
                x = torch.randn(4)
                parameters = [torch.randn(4, requires_grad=training) for _ in range(count)]
                theirs = compiled(daemon.address, (x, parameters), False, training)
                ours = compiled(daemon.address, (x, parameters), True, training)

                def run(call: Callable[..., Any], back: bool = what.endswith("backward")) -> None:
                    out = call(x, parameters)  # noqa: B023
                    if back:
                        torch.autograd.backward(out, torch.ones_like(out))

                times: dict[bool, list[float]] = {True: [], False: []}
                with torch.set_grad_enabled(training):
                    for _ in range(args.rounds):
                        for own, call in ((False, theirs), (True, ours)):
                            times[own].append(measure(lambda c=call: run(c), args.calls))
                aot, kiln = statistics.median(times[False]), statistics.median(times[True])
                worse |= kiln >= aot
                print(f"{count:4} {what:>19} {aot:12.1f} {kiln:8.1f} {kiln / aot:17.3f}", flush=True)
    finally:
        daemon.close()
    return 1 if worse else 0


if __name__ == "__main__":
    backend_module = sys.modules["kiln.backend"]
    sys.exit(main())
