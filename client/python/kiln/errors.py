"""What can go wrong, as exceptions. None of them reaches user code unless `strict` is on or an option is wrong."""

from __future__ import annotations


class KilnError(RuntimeError):
    """A graph could not be compiled. Raised where `strict` is on; otherwise the graph falls back with a KilnWarning."""


class CaptureError(KilnError):
    """The graph holds something that the wire format has no place for; the message names it."""


class ServerError(KilnError):
    """The server refused or failed a compile, or could not be reached.

    `code` is the name of the status ("UNAVAILABLE", "INVALID_ARGUMENT", …); `node` is the index of the graph's node
    that is to blame, or -1.
    """

    def __init__(self, code: str, message: str, node: int = -1) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.node = node


class OptionError(ValueError):
    """An option of torch.compile or an environment variable is unknown or has a bad value. Always raised."""


class KilnWarning(RuntimeWarning):
    """A graph runs through the fallback; the message has the reason."""
