"""What a job asks of the server, in a file, for `kilnctl prewarm`: v1.Recorded messages, each after a varint of its
length."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator

from kiln.proto import compile_pb2

_lock = threading.Lock()
_written: set[tuple[str, bytes]] = set()


def append(path: str, recorded: compile_pb2.Recorded) -> None:
    """Adds a message to the file; many processes may share it. A process adds the same one once. OSError."""
    path, data = os.path.abspath(path), recorded.SerializeToString(deterministic=True)
    with _lock:
        written = (path, hashlib.sha256(data).digest())
        if written in _written and os.path.exists(path):
            return
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            _write(fd, _varint(len(data)) + data)
        finally:
            os.close(fd)
        _written.add(written)


def _write(fd: int, frame: bytes) -> None:
    """All of it or nothing: half a frame would make what follows unreadable."""
    size = os.fstat(fd).st_size
    try:
        while frame:
            frame = frame[os.write(fd, frame) :]
    except OSError:
        os.ftruncate(fd, size)
        raise


def read(path: str) -> Iterator[compile_pb2.Recorded]:
    """The messages of a file. ValueError if it is cut off or no such file at all."""
    with open(path, "rb") as file:
        while first := file.read(1):
            length, shift = first[0] & 0x7F, 7
            while first[0] & 0x80:
                first = file.read(1)
                if not first or shift > 63:
                    raise ValueError(f"{path} is cut off or is no recording")
                length |= (first[0] & 0x7F) << shift
                shift += 7
            data = file.read(length)
            if len(data) != length:
                raise ValueError(f"{path} is cut off")
            yield compile_pb2.Recorded.FromString(data)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(0x80 | n & 0x7F)
        n >>= 7
    out.append(n)
    return bytes(out)
