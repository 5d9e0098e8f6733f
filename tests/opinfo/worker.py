"""A process that makes rows: names on stdin, JSON on stdout, so that a crash costs one row."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import warnings
from typing import Any


def main() -> None:
    setup: dict[str, Any] = json.loads(sys.stdin.readline())
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever torch prints
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)

    import torch
    from kiln.options import Options

    from tests.opinfo import ops_by_name
    from tests.opinfo.rows import Runner

    torch.set_num_threads(1)
    options = Options(server=setup["server"], strict=True, timeout=60)
    runner = Runner(set(setup["listed"]), options)
    ops = ops_by_name()
    for line in sys.stdin:
        job = json.loads(line)
        row = runner.row(ops[job["op"]], job["dtype"], job["known"])
        print(json.dumps(dataclasses.asdict(row)), file=out, flush=True)


if __name__ == "__main__":
    main()
