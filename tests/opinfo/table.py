"""The table: rows made by worker processes, kept in results.jsonl, one line a row, sorted."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kiln.testing import Daemon

from tests.opinfo.rows import CRASHED
from tests.opinfo.samples import DEVICE

RESULTS = Path(__file__).with_name("results.jsonl" if DEVICE == "cpu" else f"results.{DEVICE}.jsonl")
ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 180  # for one row

Key = tuple[str, str]
Rows = dict[Key, dict[str, Any]]


def load(path: Path = RESULTS) -> Rows:
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["op"], row["dtype"]): row for row in rows}


def save(rows: Rows, path: Path = RESULTS) -> None:
    text = "".join(json.dumps(rows[key], sort_keys=True) + "\n" for key in sorted(rows))
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)


class _Worker:
    def __init__(self, daemon: Daemon, listed: Iterable[str]) -> None:
        command = [sys.executable, "-m", "tests.opinfo.worker"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._send({"server": daemon.address, "listed": sorted(listed)})

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def row(self, key: Key, known: dict[str, Any] | None) -> dict[str, Any] | None:
        """None where the process died or took too long; it is gone then."""
        assert self.process.stdout is not None
        self._send({"op": key[0], "dtype": key[1], "known": known})
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(_SECONDS) else ""
        if line:
            row: dict[str, Any] = json.loads(line)
            return row
        self.close()
        return None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def run(
    keys: Iterable[Key], known: Rows, done: Callable[[Key, dict[str, Any]], None], daemon: Daemon, listed: Iterable[str]
) -> None:
    """Makes the rows of `keys`, one after the other, and hands each to `done`."""
    worker: _Worker | None = None
    try:
        for key in keys:
            worker = worker or _Worker(daemon, listed)
            row = worker.row(key, known.get(key))
            if row is None:
                code, worker = worker.process.returncode, None
                reason = "no answer in time" if code == -9 else f"the process ended with {code}"
                row = {"op": key[0], "dtype": key[1], "verdict": CRASHED, "digests": [], "samples": 0, "launches": 0}
                row |= {"external": [], "worst_error": 0.0, "reason": reason}
            done(key, row)
    finally:
        if worker is not None:
            worker.close()


def listed_ops(daemon: Daemon) -> set[str]:
    """The overloads that kiln has a record of."""
    return {name for op in daemon.ctl("ops")["ops"] for name in op.get("torch", [])}
