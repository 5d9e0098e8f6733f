from __future__ import annotations

from pathlib import Path
from typing import Any

import kiln
import pytest
import torch
from kiln.logs import configure
from kiln.options import Options


def test_defaults() -> None:
    o = Options.resolve(environ={})
    assert (o.server, o.strict, o.fallback, o.timeout, o.precision, o.memory_budget, o.record) == (
        None, False, "eager", 600, "eager", None, None,
    )  # fmt: skip


def test_recycling() -> None:
    o = Options.resolve(environ={})
    assert (o.recycle_outputs, o.recycle_bytes) == (True, 8 << 30)
    o = Options.resolve(None, {"recycle_bytes": 1 << 20}, {"KILN_RECYCLE_OUTPUTS": "0", "KILN_RECYCLE_BYTES": "7"})
    assert (o.recycle_outputs, o.recycle_bytes) == (False, 1 << 20)


def test_generalizing() -> None:
    assert Options.resolve(environ={}).generalize
    assert not Options.resolve(environ={"KILN_GENERALIZE": "0"}).generalize
    assert not Options.resolve(None, {"generalize": False}, {}).generalize


def test_options_win_over_the_environment() -> None:
    environ = {"KILN_SERVER": "unix:/a", "KILN_STRICT": "1", "KILN_TIMEOUT": "5", "KILN_JOB": "x", "KILN_RECORD": "f"}
    environ["KILN_MEMORY_BUDGET"] = "0"
    o = Options.resolve(None, {"server": "host:70", "timeout": 2.5, "record": Path("g")}, environ)
    assert (o.server, o.strict, o.timeout, o.job, o.record) == ("host:70", True, 2.5, "x", "g")
    assert o.memory_budget == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"serve": "x"}, "unknown option 'serve'; the options are server, strict, fallback"),
        ({"server": "nonsense"}, "not an address"),
        ({"server": "unix:relative"}, "not an address"),
        ({"server": "host:99999"}, "not an address"),
        ({"strict": "perhaps"}, "not a bool"),
        ({"fallback": "aot"}, "not one of eager, inductor"),
        ({"timeout": 0}, "not a positive number of seconds"),
        ({"timeout": True}, "not a positive number of seconds"),
        ({"precision": "exact"}, "not one of eager, fast"),
        ({"memory_budget": 1.5}, "not a number from 0 to 1"),
        ({"recycle_outputs": "maybe"}, "not a bool"),
        ({"recycle_bytes": -1}, "not a number of bytes"),
        ({"recycle_bytes": "1 GB"}, "not a number of bytes"),
        ({"recycle_bytes": 1.5}, "not a number of bytes"),
        ({"memory_budget": "nan"}, "not a number from 0 to 1"),
        ({"record": 3}, "not a string"),
    ],
)
def test_errors_say_what_is_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(kiln.OptionError, match=message):
        Options.resolve(None, options, {})


def test_bad_environment_names_the_variable() -> None:
    with pytest.raises(kiln.OptionError, match="KILN_TIMEOUT"):
        Options.resolve(environ={"KILN_TIMEOUT": "soon"})


def test_modes() -> None:
    Options.resolve("max-autotune", environ={})
    with pytest.raises(kiln.OptionError, match="unknown mode 'fastest'; the modes are default"):
        Options.resolve("fastest", environ={})


def test_an_unknown_option_stops_the_call_even_without_strict() -> None:
    f = torch.compile(lambda x: x + 1, backend=kiln.backend, options={"fast": True})
    with pytest.raises(Exception, match="unknown option 'fast'"):
        f(torch.ones(2))


def test_log_switch() -> None:
    import logging

    configure("+session,backend:error")
    assert logging.getLogger("kiln.session").level == logging.DEBUG
    assert logging.getLogger("kiln.backend").level == logging.ERROR
    with pytest.raises(kiln.OptionError, match="loud"):
        configure("session:loud")
    for name in ("kiln.session", "kiln.backend"):
        logging.getLogger(name).setLevel(logging.NOTSET)
