"""kiln: torch.compile through a compile server.

    model = torch.compile(model, backend="kiln")

See kiln.options for what `options={…}` takes, kiln.logs for KILN_LOGS.
"""

from __future__ import annotations

from importlib.metadata import version as _version
from typing import Any

from kiln import logs, session
from kiln.backend import backend
from kiln.counters import CompiledGraph
from kiln.counters import counters as _counters
from kiln.errors import CaptureError, KilnError, KilnWarning, OptionError, ServerError
from kiln.explain import explain

__version__ = _version("kiln")
__all__ = [
    "CaptureError",
    "CompiledGraph",
    "KilnError",
    "KilnWarning",
    "OptionError",
    "ServerError",
    "backend",
    "counters",
    "explain",
    "graphs",
    "reset",
    "trim",
]


def counters() -> dict[str, Any]:
    """What this process had compiled since it began, or since reset(). One compile is one captured graph, forward and
    backward together.

    compiles        graphs that the server compiled for this process
    joined          graphs whose compile another process had begun
    hits            graphs that were in the server's cache
    traced          graphs that AOTAutograd traced; the others were hits by Dynamo's own graph
    kernels         distinct generated kernels in them
    launches        in their plans: of generated kernels; those that follow each other enter the threads once
    external_calls  calls of the host's operators in their plans, by operator
    audits          hits that were traced all the same, as one more graph (option `audit`)
    audit_failures  what was wrong with the entry, one a hit where something was
    fallbacks       reasons, one a graph that runs through the fallback
    recycled        memory of large CPU outputs and saved values: bytes that may be used again, idle_bytes of these that
                    nothing but kiln holds; and tensors that were made over reused and over fresh memory
    """
    return _counters.read() | {"recycled": session.recycled()}


def graphs() -> list[CompiledGraph]:
    """The graphs behind counters(), in order."""
    return _counters.graphs()


def reset() -> None:
    """Zeroes the counters and forgets the connections. Touches nothing on the server, and no graph that is compiled."""
    _counters.reset()
    session.recycled(reset=True)
    session.reset()


def trim() -> int:
    """Gives back the memory of outputs that nothing but kiln holds; returns its bytes."""
    return session.trim()


logs.configure()
