"""A kilnd of one's own, and scripts in processes of their own: for tests and demonstrations."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

_START_SECONDS = 30.0
_IDLE_SECONDS = 900  # a daemon whose owner was killed does not stay for ever


def binary(name: str) -> str:
    """kilnd or kilnctl: beside the interpreter, else in PATH."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is neither beside {sys.executable} nor in PATH; run deploy/install.sh")
    return found


class Daemon:
    """kilnd on a unix socket, with a data directory that outlives restarts."""

    def __init__(self, *flags: str) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="kiln", dir="/tmp"))  # a socket's path has at most 107 bytes
        self.socket = self.dir / "s"
        self.address = f"unix:{self.socket}"
        self.log = self.dir / "log"
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        assert self._process is None
        command = [binary("kilnd"), "--listen", self.address, "--data-dir", str(self.dir / "data")]
        command += ["--idle-exit-seconds", str(_IDLE_SECONDS), *self._flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"kilnd did not start:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.01)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def wipe(self) -> None:
        """Forgets everything that was compiled; the daemon must not run."""
        assert self._process is None
        shutil.rmtree(self.dir / "data", ignore_errors=True)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def ctl(self, *args: str) -> Any:
        """kilnctl's JSON."""
        env = dict(os.environ, KILN_SERVER=self.address)
        run = subprocess.run([binary("kilnctl"), *args, "--json"], env=env, capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"kilnctl {' '.join(args)}: {run.stderr}")
        return json.loads(run.stdout) if run.stdout.strip() else None

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(self.socket))
            except OSError:
                return False
            return True

    def _end(self, how: int) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def run_script(script: str, *, env: dict[str, str] | None = None, timeout: float = 300) -> Any:
    """Runs Python in a new process; `result` is what the script assigns to the variable of that name, through JSON."""
    source = textwrap.dedent(script) + "\nimport json as _json\nprint('RESULT' + _json.dumps(result))\n"
    run = subprocess.run(
        [sys.executable, "-c", source],
        env=dict(os.environ, **(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT")]
    if run.returncode != 0 or not lines:
        raise RuntimeError(f"the script ended with {run.returncode}:\n{run.stdout[-2000:]}\n{run.stderr[-6000:]}")
    return json.loads(lines[-1].removeprefix("RESULT"))
