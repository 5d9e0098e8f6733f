from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from kiln import record
from kiln.proto import compile_pb2


def _request(job: str, size: int) -> compile_pb2.Recorded:
    return compile_pb2.Recorded(
        compile=compile_pb2.CompileRequest(protocol_version=1, job=compile_pb2.JobInfo(job=job, request_id="x" * size))
    )


def _append_many(path: str, job: str) -> None:
    for i in range(50):
        record.append(path, _request(job, i * 40))


def test_round_trip(tmp_path: Path) -> None:
    path = str(tmp_path / "r")
    for size in (0, 100, 20000):
        record.append(path, _request("a", size))
        record.append(path, _request("a", size))
    assert [len(r.compile.job.request_id) for r in record.read(path)] == [0, 100, 20000]


def test_many_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "r")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_many, args=(path, str(j))) for j in range(3)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
        assert w.exitcode == 0
    jobs = [r.compile.job.job for r in record.read(path)]
    assert sorted(jobs) == ["0"] * 50 + ["1"] * 50 + ["2"] * 50


def test_cut_off_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r"
    record.append(str(path), _request("a", 300))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="cut off"):
        list(record.read(str(path)))
