"""Logging, and progress on a terminal.

Everything is logged under the logger `kiln`. KILN_LOGS turns it on without any code, in the manner of TORCH_LOGS: a
level for all ("info", "debug"), or a comma-separated list of "part:level" or "+part" (debug), where the parts are the
modules of this package: KILN_LOGS="+session,backend:info".
"""

from __future__ import annotations

import logging
import os
import sys
import time

from kiln.errors import OptionError
from kiln.proto import compile_pb2

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_SHOW_AFTER_SECONDS = 1.0


def configure(text: str | None = None) -> None:
    """Applies KILN_LOGS (or `text`). OptionError names a bad part."""
    text = os.environ.get("KILN_LOGS", "") if text is None else text
    if not text:
        return
    root = logging.getLogger("kiln")
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
        root.addHandler(handler)
        root.propagate = False
    for part in text.split(","):
        name, _, level = part.strip().partition(":")
        if name.startswith("+"):
            name, level = name[1:], "debug"
        elif not level:
            name, level = ("", name) if name.lower() in _LEVELS else (name, "info")
        if level.lower() not in _LEVELS:
            raise OptionError(f"kiln: KILN_LOGS: {level!r} is not one of {', '.join(_LEVELS)}")
        logging.getLogger(f"kiln.{name}" if name else "kiln").setLevel(_LEVELS[level.lower()])


class Progress:
    """One compile's events: into the log, and onto a terminal once it takes more than a second."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._start = time.monotonic()
        self._shown = 0

    def event(self, data: bytes) -> None:
        text = _describe(compile_pb2.CompileEvent.FromString(data))
        seconds = time.monotonic() - self._start
        self._log.debug("%.3f s: %s", seconds, text)
        if seconds > _SHOW_AFTER_SECONDS and sys.stderr is not None and sys.stderr.isatty():
            line = f"kiln: {text} ({seconds:.0f} s)"
            sys.stderr.write("\r" + line.ljust(self._shown))
            sys.stderr.flush()
            self._shown = len(line)

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()


def _describe(event: compile_pb2.CompileEvent) -> str:
    kind = event.WhichOneof("kind") or "unknown event"
    if kind == "queued":
        return f"queued at position {event.queued.position}"
    if kind == "partitioned":
        return f"partitioned, {len(event.partitioned.signature.saved_values)} values saved for the backward"
    if kind == "kernels":
        return f"kernels {event.kernels.done}/{event.kernels.total}"
    return str(kind)
