"""Counts what deploy/test.sh left in a folder; the last line of the output is "N passed, N failed".

<name>.bep         Bazel's build events as JSON lines: each test's JUnit file, and the targets that did not build
<name>.xml         pytest's JUnit file
<name>.*.status    the exit status of what wrote that file
<name>.step        the exit status of a command that is one case
"""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Count:
    def __init__(self) -> None:
        self.passed = 0
        self.failures: list[str] = []

    def case(self, name: str, ok: bool) -> None:
        if ok:
            self.passed += 1
        else:
            self.failures.append(name)


def count_junit(count: Count, path: Path, where: str) -> int:
    """Counts the cases of a JUnit file; skipped ones are neither. Returns how many failed."""
    before = len(count.failures)
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("skipped") is not None or case.get("status") == "notrun":
            continue
        name = f"{where} {case.get('classname', '')}.{case.get('name', '')}"
        count.case(name, case.find("failure") is None and case.find("error") is None)
    return len(count.failures) - before


def events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def junit_of(result: dict[str, Any]) -> Path | None:
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml" and output.get("uri", "").startswith("file://"):
            path = Path(urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path))
            return path if path.exists() else None
    return None


def count_bazel(count: Count, path: Path) -> None:
    suite = path.stem
    for event in events(path):
        ident = event["id"]
        if "testResult" in event:
            label = f"{suite} {ident['testResult']['label']}"
            ok = event["testResult"].get("status") == "PASSED"
            junit = junit_of(event["testResult"])
            failed = count_junit(count, junit, label) if junit else 0
            # A crash or a timeout may leave a file without a failure, or none.
            if (not ok and failed == 0) or (ok and junit is None):
                count.case(label, ok)
        elif "targetCompleted" in ident and not event.get("completed", {}).get("success", False):
            if event.get("aborted", {}).get("reason") == "SKIPPED":  # target_compatible_with says so
                continue
            count.case(f"{suite} {ident['targetCompleted']['label']} does not build", False)


def main() -> int:
    folder = Path(sys.argv[1])
    count = Count()
    for path in sorted(folder.glob("*.step")):
        count.case(path.stem, path.read_text().strip() == "0")
    for status in sorted(folder.glob("*.status")):
        path = status.with_suffix("")
        before = len(count.failures)
        if path.exists():
            if path.suffix == ".bep":
                count_bazel(count, path)
            else:
                count_junit(count, path, path.stem)
        code = status.read_text().strip()
        if code != "0" and len(count.failures) == before:
            count.case(f"{path.stem} (exit status {code})", False)
    for failure in count.failures:
        print("FAILED", failure)
    print(f"{count.passed} passed, {len(count.failures)} failed")
    return 1 if count.failures else 0


if __name__ == "__main__":
    sys.exit(main())
