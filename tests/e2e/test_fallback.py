"""No failure of kiln's fails a job: one warning with the reason, and the graph runs all the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import warnings
from typing import Any

import kiln
import pytest
import torch
from kiln.testing import Daemon, binary, run_script


def f(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2 + 1


def compile_expecting_one_warning(fn: Any, x: torch.Tensor, match: str, **options: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actual = torch.compile(fn, backend="kiln", dynamic=False, options=options or None)(x)
    torch.testing.assert_close(actual, fn(x))
    ours = [w for w in caught if issubclass(w.category, kiln.KilnWarning)]
    assert len(ours) == 1, [str(w.message) for w in ours]
    assert match in str(ours[0].message)
    assert kiln.counters()["fallbacks"][-1] in str(ours[0].message)


def test_no_server() -> None:
    started = time.monotonic()
    compile_expecting_one_warning(f, torch.ones(3), "UNAVAILABLE", server="unix:/tmp/kiln-nobody-listens-here")
    compile_expecting_one_warning(f, torch.ones(4), "UNAVAILABLE", server="127.0.0.1:9")
    assert time.monotonic() - started < 20


def test_what_cannot_be_captured(server: Daemon) -> None:
    def g(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    compile_expecting_one_warning(g, torch.ones(3), "higher-order operator cond", strict=False)


def test_inductor_as_fallback(server: Daemon) -> None:
    options = {"server": "unix:/tmp/kiln-nobody-listens-here", "fallback": "inductor", "strict": False}
    result = run_script(
        f"""
        import warnings, torch, kiln
        warnings.simplefilter("ignore")
        from torch._dynamo.utils import counters
        from torch._inductor.utils import fresh_cache
        with fresh_cache():
            y = torch.compile(lambda x: x * 2 + 1, backend="kiln", options={options!r})(torch.ones(2))
        result = [y.tolist(), len(kiln.counters()["fallbacks"]), "inductor" in counters]
        """
    )
    assert result == [[3, 3], 1, True]


def test_strict(server: Daemon) -> None:
    g = torch.compile(f, backend="kiln", options={"server": "unix:/tmp/kiln-nobody-listens-here", "strict": True})
    with pytest.raises(Exception, match="UNAVAILABLE"):
        g(torch.ones(3))
    assert kiln.counters()["fallbacks"] == []


def test_wrong_options_are_errors_even_without_strict(server: Daemon) -> None:
    with pytest.raises(Exception, match="unknown option 'precison'; the options are server, strict"):
        torch.compile(f, backend="kiln", options={"precison": "fast", "strict": False})(torch.ones(3))
    with pytest.raises(Exception, match="unknown mode"):
        torch.compile(f, backend="kiln", mode="fastest")(torch.ones(3))


def test_down_and_up_again(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is captured while the daemon is down falls back; the next graph after its restart compiles."""
    monkeypatch.setenv("KILN_SERVER", daemon.address)
    compiled = torch.compile(f, backend="kiln", dynamic=False)
    compiled(torch.ones(2))
    assert kiln.counters()["compiles"] == 1
    daemon.kill()
    compile_expecting_one_warning(f, torch.ones(3), "UNAVAILABLE")
    daemon.start()
    torch.testing.assert_close(compiled(torch.ones(4)), f(torch.ones(4)))
    counters = kiln.counters()
    assert (counters["compiles"], len(counters["fallbacks"])) == (2, 1)
    torch.testing.assert_close(compiled(torch.ones(2)), f(torch.ones(2)))  # what is loaded does not need the daemon


def test_a_daemon_that_hangs_is_not_waited_for_again(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_SERVER", daemon.address)
    monkeypatch.setattr(kiln.session, "PROBE_SECONDS", 0.5)
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        compile_expecting_one_warning(f, torch.ones(2), "DEADLINE_EXCEEDED")
        started = time.monotonic()
        compile_expecting_one_warning(f, torch.ones(3), "asked again in")
        assert time.monotonic() - started < 5
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def test_timeout(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_SERVER", daemon.address)
    compile_expecting_one_warning(f, torch.ones(2), "DEADLINE_EXCEEDED", timeout=1e-4)


def test_an_error_of_the_program_is_not_hidden(server: Daemon) -> None:
    g = torch.compile(lambda x, y: x @ y, backend="kiln")
    with pytest.raises(Exception, match=r"(?s)mat|shape|size"):
        g(torch.ones(2, 3), torch.ones(4, 5))


def test_local_daemon_is_started_once(tmp_path: Any) -> None:
    """Without KILN_SERVER, processes that race start one daemon between them."""
    env = {
        "XDG_CACHE_HOME": str(tmp_path / "c"),
        "XDG_RUNTIME_DIR": str(tmp_path / "r"),
        "KILN_STRICT": "1",
        "KILN_SERVER": "",
    }
    (tmp_path / "r").mkdir(mode=0o700)
    script = """
        import torch, kiln
        y = torch.compile(lambda x: x * 3, backend="kiln")(torch.ones(2))
        from kiln.local import local_address
        result = [y.tolist(), local_address(), kiln.counters()["compiles"] + kiln.counters()["joined"]]
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: run_script(script, env=env), range(3)))
    address = results[0][1]
    status = subprocess.run(
        [binary("kilnctl"), "--server", address, "status", "--json"], capture_output=True, check=True
    )
    os.kill(json.loads(status.stdout)["pid"], signal.SIGTERM)
    assert [r[0] for r in results] == [[3, 3]] * 3
    assert {r[1] for r in results} == {address}
    assert sum(r[2] for r in results) >= 1
