"""The user's own daemon: kilnd beside the interpreter, in PATH, or where KILN_KILND says; started unless it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from kiln.errors import ServerError

_START_SECONDS = 30.0


def find_kilnd() -> str | None:
    named = os.environ.get("KILN_KILND")
    if named:
        return named
    beside = os.path.join(os.path.dirname(sys.executable), "kilnd")
    return beside if os.access(beside, os.X_OK) else shutil.which("kilnd")


def local_address() -> str:
    """The address of the running daemon. kilnd itself knows the rule by which the socket is named, and lets one of many
    processes that ask at once start it. ServerError UNAVAILABLE with the reason."""
    kilnd = find_kilnd()
    if kilnd is None:
        raise ServerError("UNAVAILABLE", "no kilnd beside the interpreter or in PATH; set KILN_SERVER or KILN_KILND")
    try:
        run = subprocess.run(
            [kilnd, "--local"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_SECONDS
        )
    except OSError as e:
        raise ServerError("UNAVAILABLE", f"{kilnd}: {e.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ServerError("UNAVAILABLE", f"{kilnd} --local did not answer in {_START_SECONDS:.0f} s") from None
    address = run.stdout.strip()
    if run.returncode != 0 or not address.startswith("unix:"):
        why = run.stderr.strip().splitlines()
        raise ServerError("UNAVAILABLE", f"{kilnd} --local failed: {why[-1] if why else run.returncode}")
    return address
