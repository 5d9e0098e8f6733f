"""Scripts of this folder, each run in a fresh process; what they print is compared."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kiln.testing import Daemon


def run(script: str, backend: str, seed: int, address: str = "", *arguments: str) -> dict[str, Any]:
    """The JSON that `script` prints, with its own hash seed and one thread; `address` is the server's."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "KILN_SERVER": address, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).parent / script), backend, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=900)
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def runs(script: str) -> dict[str, dict[str, Any]]:
    """What the process prints that misses ("miss"), one that then hits ("hit"), AOTAutograd's ("aot"), "eager"'s."""
    daemon = Daemon()
    daemon.start()
    try:
        return {
            "miss": run(script, "kiln", 1, daemon.address),
            "hit": run(script, "kiln", 2, daemon.address),
            "aot": run(script, "aot_eager", 3),
            "eager": run(script, "none", 4),
        }
    finally:
        daemon.close()


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether all numbers of two structures are, relatively and absolutely; everything else is equal."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)
    return bool(a == b)
