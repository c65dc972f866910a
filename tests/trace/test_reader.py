from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pilotlight.errors import UsageError
from pilotlight.trace.reader import read_traces


def trace_text(rank: int | None, world_size: int = 2) -> bytes:
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world_size}}
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    return json.dumps({**info, "traceEvents": [event] * 3}).encode()


def problems(paths: list[Path]) -> list[str]:
    return [str(problem) for problem in read_traces(paths).problems]


def test_a_folder_gives_its_ranks_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(trace_text(0))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(trace_text(1)))
    found = read_traces([tmp_path])
    assert [trace.rank for trace in found.traces] == [0, 1]
    assert found.problems == ()


def test_json_after_a_line_break_needs_nothing_that_reads_other_formats(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\n" + trace_text(0))
    program = (
        "import sys; from pathlib import Path; from pilotlight.trace.reader import read_traces;"
        "print(len(read_traces([Path(sys.argv[1])]).traces[0].spans),"
        " 'pilotlight.trace.perfetto' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3", "False"]


def test_a_tar_of_traces_is_read_without_unpacking(tmp_path: Path) -> None:
    path = tmp_path / "all.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for rank in (1, 0):
            text = gzip.compress(trace_text(rank))
            member = tarfile.TarInfo(f"x/rank{rank}.json.gz")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    found = read_traces([path])
    assert [trace.rank for trace in found.traces] == [0, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["all.tar.gz"]


def test_the_second_file_of_a_rank_is_named_and_left_out(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(trace_text(0))
    found = read_traces([tmp_path / "a.json", tmp_path / "b.json"])
    assert [trace.source for trace in found.traces] == [str(tmp_path / "a.json")]
    assert "b.json: rank 0 again, after " in str(found.problems[0])


def test_of_the_windows_of_one_process_the_last_counts(tmp_path: Path) -> None:
    for time_ns in (1794820740080421480, 1794820742267421778, 1794820741473301200):
        (tmp_path / f"host_1.{time_ns}.pt.trace.json").write_bytes(trace_text(None))
    (tmp_path / "host_2.1794820740080421480.pt.trace.json").write_bytes(trace_text(None))
    found = read_traces([tmp_path])
    names = [Path(trace.source).name for trace in found.traces]
    assert names == [
        "host_1.1794820742267421778.pt.trace.json",
        "host_2.1794820740080421480.pt.trace.json",
    ]
    (problem,) = found.problems
    assert "2 earlier windows of this process left out" in str(problem)


def window_text(begin_us: float, pid: int = 7) -> bytes:
    """What one process did from then on, in 1000 us."""
    lane = {"ph": "X", "cat": "cpu_op", "pid": pid, "tid": pid}
    spans = [{**lane, "name": "aten::mm", "ts": begin_us + 500 * i, "dur": 500} for i in range(2)]
    return json.dumps({"traceEvents": spans}).encode()


def test_windows_of_one_process_are_no_ranks_whatever_their_names(tmp_path: Path) -> None:
    for name, begin_us in (("trace_5.json", 9000), ("trace_10.json", 20000)):
        (tmp_path / name).write_bytes(window_text(begin_us))
    found = read_traces([tmp_path])
    assert [Path(trace.source).name for trace in found.traces] == ["trace_10.json"]
    assert "an earlier window of this process left out" in str(found.problems[0])
    assert "trace_5.json" in str(found.problems[0])


@pytest.mark.parametrize(("begin_us", "pid"), [(9500, 7), (20000, 8)])
def test_what_is_traced_at_once_or_by_another_process_is_a_rank(
    tmp_path: Path, begin_us: float, pid: int
) -> None:
    (tmp_path / "a.json").write_bytes(window_text(9000))
    (tmp_path / "b.json").write_bytes(window_text(begin_us, pid))
    found = read_traces([tmp_path])
    assert [trace.rank for trace in found.traces] == [0, 1]
    assert not found.problems


def test_what_is_wrong_with_a_member_of_an_archive_names_both_once(tmp_path: Path) -> None:
    path = tmp_path / "ranks.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("rank0.json")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"{}"))
    (problem,) = read_traces([path]).problems
    assert str(problem).startswith(f"{path}:rank0.json: byte 1")


def test_a_profile_in_two_formats_counts_once(tmp_path: Path) -> None:
    (tmp_path / "host.trace.json.gz").write_bytes(gzip.compress(trace_text(None)))
    (tmp_path / "perfetto_trace.json.gz").write_bytes(gzip.compress(trace_text(None)))
    (tmp_path / "host.xplane.pb").write_bytes(b"damaged")
    for paths in ([tmp_path], sorted(tmp_path.iterdir())):
        found = read_traces(paths)
        assert found.traces == ()
        assert [problem.source for problem in found.problems] == [f"{tmp_path}/host.xplane.pb"]


def test_missing_ranks_of_a_set_are_named(tmp_path: Path) -> None:
    for rank in (0, 2):
        (tmp_path / f"{rank}.json").write_bytes(trace_text(rank, world_size=4))
    assert "2 of 4 ranks missing: 1, 3" in problems([tmp_path])[0]


def test_one_rank_of_many_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(trace_text(3, world_size=8))
    assert problems([tmp_path]) == []


def test_the_rank_is_taken_from_the_name_if_the_file_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "run_rank-12.json").write_bytes(trace_text(None))
    assert [trace.rank for trace in read_traces([tmp_path]).traces] == [12]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"\x80\x04]", "pickle"),
        (b"\x80\x05]", "pickle"),
        (b"SQLite format 3\0garbage", "damaged SQLite"),
        (gzip.compress(trace_text(0), mtime=0)[:12], "gzip data"),
        (b"\x1f\x8bgarbage", "gzip data is damaged"),
        (b"hello", "neither JSON"),
        (gzip.compress(b"SQLite format 3\0rest", mtime=0), "SQLite within gzip"),
        (b'{"rocprofiler-sdk-tool": [{}]}', "JSON of rocprofv3"),
        (b'{\n "schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}', "an execution trace"),
        (b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]", "a memory timeline"),
    ],
)
def test_a_bad_file_gives_one_line_and_the_others_are_read(
    tmp_path: Path, content: bytes, text: str
) -> None:
    (tmp_path / "a.json").write_bytes(content)
    (tmp_path / "b.json").write_bytes(trace_text(0))
    found = read_traces([tmp_path])
    assert len(found.traces) == 1
    (problem,) = found.problems
    assert str(problem).startswith(f"{tmp_path}/a.json: ")
    assert text in str(problem)
    assert "\n" not in str(problem)


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to(tmp_path / "b.json")
    (tmp_path / "b.json").symlink_to(tmp_path / "a.json")
    (tmp_path / "c").symlink_to(tmp_path)
    assert len(problems([tmp_path])) == 2


def test_paths_that_do_not_exist_are_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x\.json: no such file"):
        read_traces([tmp_path / "x.json"])


def test_one_path_of_several_that_does_not_exist_is_named_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    event = {"ph": "X", "name": "a", "cat": "kernel", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "a.json").write_text(json.dumps([event]))
    found = read_traces([tmp_path / "a.json", tmp_path / "x.json"])
    assert len(found.traces) == 1
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path / 'x.json'}: no such file or folder"
    ]


def test_the_real_ranks_come_out_of_their_tar(shared_data: Path) -> None:
    found = read_traces([shared_data / "kineto" / "dlrm_v100_8ranks.tar.gz"])
    assert [trace.rank for trace in found.traces] == list(range(8))
    assert found.problems == ()


def test_the_reader_knows_folders_by_the_names_their_writers_give() -> None:
    from pilotlight.capture import manifest as capture_manifest
    from pilotlight.recording import manifest as recording_manifest
    from pilotlight.trace.reader import CAPTURE_FILE, RECORDING_FILE

    assert recording_manifest.MANIFEST_FILE == RECORDING_FILE
    assert capture_manifest.MANIFEST_FILE == CAPTURE_FILE


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank1.json")
    (tmp_path / "rank0.json").write_text(
        '{"traceEvents": [{"ph": "X", "name": "a", "cat": "kernel", "ts": 1, "dur": 1, "pid": 0,'
        ' "tid": 7}]}'
    )
    found = read_traces([tmp_path])
    assert len(found.traces) == 1
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path / 'rank1.json'}: no regular file: left out"
    ]


def test_a_pipe_that_is_named_is_not_waited_for_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank1.json")
    found = read_traces([tmp_path / "rank1.json"])
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path / 'rank1.json'}: no regular file: write it to one first"
    ]
