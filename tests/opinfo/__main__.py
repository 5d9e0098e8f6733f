"""OpInfo's operators against eager mode, forward and backward, at the joint level.

    python -m tests.opinfo                  what is missing in results.jsonl, or was made by another build
    python -m tests.opinfo --ops softmax,nn.functional.batch_norm --dtypes f32,bf16
    python -m tests.opinfo --all            every row again
    KILN_OPINFO_DEVICE=cuda python -m tests.opinfo      on a GPU, in results.cuda.jsonl

A row whose digest (graphs, generated code, harness) is unchanged is kept, not judged again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kiln.testing import Daemon, binary

from tests.opinfo import ops_by_name, table
from tests.opinfo.rows import CRASHED, FALLBACK, WRONG, harness_digest
from tests.opinfo.samples import DTYPES, supported

_BAD = (WRONG, CRASHED)
_SAVE_SECONDS = 10


def main() -> int:
    options = _parse()
    ops = ops_by_name()
    names = options.ops.split(",") if options.ops else sorted(ops)
    unknown = [name for name in names if name not in ops]
    if unknown:
        sys.exit(f"no such operators: {', '.join(unknown)}")
    rows = table.load()
    stamp = Stamp()
    keys = [(n, d) for n in names for d in options.dtypes.split(",") if supported(ops[n], d)]
    if not (options.all or options.ops):
        keys = [key for key in keys if not (key in rows and stamp.covers(key))]
    keys = keys[options.part[0] :: options.part[1]]
    daemon = Daemon("--workers", "1")
    daemon.start()
    start = saved = time.monotonic()

    def done(key: table.Key, row: dict[str, Any]) -> None:
        nonlocal saved
        rows[key] = row
        stamp.add(key)
        if options.verbose or row["verdict"] in (*_BAD, FALLBACK):
            print(f"{' '.join(key)}: {row['verdict']} {', '.join(row['external'])} {row['reason']}", flush=True)
        if not options.no_save and time.monotonic() - saved > _SAVE_SECONDS:
            _save(rows, keys)
            stamp.save()
            saved = time.monotonic()

    try:
        table.run(keys, {} if options.all else rows, done, daemon, table.listed_ops(daemon))
    finally:
        if not options.no_save:
            _save(rows, keys)
        stamp.save()
        daemon.close()
    print(f"{len(keys)} rows in {time.monotonic() - start:.0f} s")
    for verdict, count in Counter(row["verdict"] for row in rows.values()).most_common():
        print(f"{count:6} {verdict}")
    return any(rows[key]["verdict"] in _BAD for key in keys)


def _save(rows: table.Rows, keys: list[table.Key]) -> None:
    """Other processes' rows stay."""
    table.save(table.load() | {key: rows[key] for key in keys if key in rows})


class Stamp:
    """Which rows this build and this harness have made already: kept per machine, beside other caches."""

    def __init__(self) -> None:
        build = hashlib.sha256(Path(binary("kilnd")).read_bytes() + harness_digest().encode()).hexdigest()[:16]
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        self._path = cache / "kiln-opinfo" / build
        self._done = set(self._path.read_text().splitlines()) if self._path.exists() else set()

    def covers(self, key: table.Key) -> bool:
        return " ".join(key) in self._done

    def add(self, key: table.Key) -> None:
        self._done.add(" ".join(key))

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        before = set(self._path.read_text().splitlines()) if self._path.exists() else set()
        self._path.write_text("\n".join(sorted(self._done | before)) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--ops", help="names, comma separated")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--all", action="store_true", help="judge every row again")
    parser.add_argument("--no-save", action="store_true", help="leave results.jsonl alone")
    parser.add_argument("--verbose", "-v", action="store_true", help="print every row")
    parser.add_argument("--part", type=lambda s: tuple(map(int, s.split("/"))), default=(0, 1), metavar="I/N",
                        help="every Nth row from the Ith on, to share the work between processes")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
