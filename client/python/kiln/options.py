"""`torch.compile(options={…})`, `mode=` and the environment.

| option      | environment    | values                            | default                                   |
|-------------|----------------|-----------------------------------|-------------------------------------------|
| server      | KILN_SERVER    | "unix:/path" or "host:port"       | the local daemon, started when it is absent |
| strict      | KILN_STRICT    | bool                              | False: a graph that fails falls back        |
| fallback    | KILN_FALLBACK  | "eager" or "inductor"             | "eager"                                   |
| timeout     | KILN_TIMEOUT   | seconds for one compile           | 600                                       |
| precision   | KILN_PRECISION | "eager" or "fast"                 | "eager"                                   |
| memory_budget | KILN_MEMORY_BUDGET | 0 (recompute) to 1 (save)       | torch's activation_memory_budget          |
| recycle_outputs | KILN_RECYCLE_OUTPUTS | bool                          | True                                      |
| recycle_bytes | KILN_RECYCLE_BYTES | bytes                           | 8 GiB                                     |
| audit       | KILN_AUDIT     | share of hits traced all the same | 0                                         |
| generalize  | KILN_GENERALIZE | bool                             | True                                      |
| record      | KILN_RECORD    | a file that requests are added to | none                                      |
| job         | KILN_JOB       | a name for the server's statistics | the program's name                        |

An option wins over the environment.

`audit`: a hit rests on the word of the client that made the entry. A sampled one is traced by AOTAutograd all the same,
and the entry compared with what that makes; what was traced runs. See audits and audit_failures in kiln.counters().
`generalize`: a graph without symbolic sizes that the server has at two other sizes is compiled once more, with symbols
for the sizes that vary; later processes run that at whatever size they have (kiln.generalize). Off: one compile a size.

`recycle_outputs`: large CPU outputs and saved values are made over memory that nobody uses any more, which spares the
page faults of fresh memory; they are ordinary tensors. Memory of up to `recycle_bytes` takes part, in use or not. What
has not been used for 10 s goes with the next call, or with kiln.trim(). Both options are the process's: those of the
graph that was compiled last hold.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any

from kiln.errors import OptionError

# torch.compile's modes. There is one way to compile here, so they are accepted and change nothing.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")


@dataclasses.dataclass(frozen=True)
class Options:
    """Resolved options of one torch.compile call. `server`, `memory_budget` and `record` are None where not given."""

    server: str | None = None
    strict: bool = False
    fallback: str = "eager"
    timeout: float = 600.0
    precision: str = "eager"
    memory_budget: float | None = None
    recycle_outputs: bool = True
    recycle_bytes: int = 8 << 30
    audit: float = 0.0
    generalize: bool = True
    record: str | None = None
    job: str = ""

    @staticmethod
    def resolve(
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Options:
        """OptionError names what is unknown, and lists what there is."""
        if mode is not None and mode not in MODES:
            raise OptionError(f"kiln: unknown mode {mode!r}; the modes are {', '.join(MODES)}")
        names = [field.name for field in dataclasses.fields(Options)]
        values: dict[str, Any] = {"job": os.path.basename(sys.argv[0]) if sys.argv else ""}
        for name in names:
            text = (os.environ if environ is None else environ).get(f"KILN_{name.upper()}")
            if text:
                values[name] = _checked(name, text, f"KILN_{name.upper()}")
        for name, value in (options or {}).items():
            if name not in names:
                raise OptionError(f"kiln: unknown option {name!r}; the options are {', '.join(names)}")
            if value is not None:
                values[name] = _checked(name, value, f"option {name!r}")
        return Options(**values)


def _checked(name: str, value: Any, where: str) -> Any:
    check = _CHECKS[name]
    try:
        return check(value)
    except (TypeError, ValueError) as e:
        raise OptionError(f"kiln: {where}: {value!r} is {e}") from None


def _address(value: Any) -> str:
    if isinstance(value, str):
        host, separator, port = value.rpartition(":")
        if host == "unix" and port.startswith("/"):
            return value
        if separator and host and host != "unix" and port.isdigit() and int(port) < 65536:
            return value
    raise ValueError('not an address; write "unix:/path" or "host:port"')


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError("not a bool")
    return text in _TRUE


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if isinstance(value, bool) or not 0 < seconds < 1e9:
        raise ValueError("not a positive number of seconds")
    return seconds


def _bytes(value: Any) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if isinstance(value, bool | float) or not 0 <= count < 1 << 62:
        raise ValueError("not a number of bytes")
    return count


def _share(value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:
        raise ValueError("not a number from 0 to 1")
    return share


def _string(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ValueError("not a string")
    return os.fspath(value)


def _one_of(*allowed: str) -> Any:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"not one of {', '.join(allowed)}")
        return str(value)

    return check


_CHECKS = {
    "server": _address,
    "strict": _bool,
    "fallback": _one_of("eager", "inductor"),
    "timeout": _seconds,
    "precision": _one_of("eager", "fast"),
    "memory_budget": _share,
    "recycle_outputs": _bool,
    "recycle_bytes": _bytes,
    "audit": _share,
    "generalize": _bool,
    "record": _string,
    "job": _string,
}
