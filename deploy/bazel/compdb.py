#!/usr/bin/env python3
"""Writes compile_commands.json from Bazel's action graph: deploy/bazel/compdb.py [TARGETS], by default //...

Nothing is rebuilt; build first, so that generated headers exist.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def bazel(*args: str) -> str:
    run = subprocess.run(["bazel", *args], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return run.stdout


def for_clangd(arguments: list[str]) -> list[str]:
    """The compiler's arguments without module maps and dependency files."""
    kept: list[str] = []
    skip = False
    for arg in arguments:
        if skip:
            skip = False
        elif arg == "-MF":
            skip = True
        elif arg != "-MD" and not arg.startswith(("-fmodule", "-Wprivate-header", "-frandom-seed")):
            kept.append(arg)
    return kept


def main() -> None:
    targets = sys.argv[1] if len(sys.argv) > 1 else "//..."
    root = bazel("info", "workspace").strip()
    execroot = bazel("info", "execution_root").strip()
    graph = json.loads(bazel("aquery", "--output=jsonproto", f'mnemonic("CppCompile", {targets})'))
    entries: dict[str, dict[str, Any]] = {}
    for action in graph.get("actions", []):
        arguments = for_clangd(action["arguments"])
        source = arguments[arguments.index("-c") + 1]
        file = os.path.join(execroot if source.startswith("bazel-out/") else root, source)
        entries[file] = {"directory": execroot, "file": file, "arguments": arguments}
    with open(os.path.join(root, "compile_commands.json"), "w") as out:
        json.dump(list(entries.values()), out, indent=1)
    print(len(entries), "entries")


main()
