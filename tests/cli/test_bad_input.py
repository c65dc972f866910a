"""Each kind of bad input: one line that names file and place, the others analysed, exit code 2."""

from __future__ import annotations

import collections
import gzip
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}


def text_of(*events: Any, rank: int = 1, world_size: int = 2) -> bytes:
    info = {"rank": rank, "world_size": world_size}
    return json.dumps({"distributedInfo": info, "traceEvents": [KERNEL, *events]}).encode()


def raw(events: bytes) -> bytes:
    return b'{"distributedInfo":{"rank":1,"world_size":2},"traceEvents":[' + events + b"]}"


def kernel(more: bytes) -> bytes:
    return b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,' + more + b"}"


def bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    blocks = [packer.compress(b"["), *(packer.compress(b" " * (1 << 20)) for _ in range(300))]
    return b"".join(blocks) + packer.flush()


def database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE moz_places (url TEXT)")
    return connection.serialize()


class _Attack:
    def __reduce__(self) -> Any:
        return os.system, ("echo attacked",)


GOOD = kernel(b'"ts":1,"dur":2') + b","
CASES = {
    "truncated gzip": ("a.json.gz", gzip.compress(text_of(*[KERNEL] * 5000))[:-40], "ends early"),
    "damaged gzip": ("a.json.gz", b"\x1f\x8b\x08\x00" + b"x" * 50, "gzip data is damaged"),
    "truncated JSON": ("a.json", text_of(KERNEL)[:-20], "byte 148: the file ends inside"),
    "a begin without an end": ("a.json", text_of({**KERNEL, "ph": "B"}), "begins without an end"),
    "an end without a begin": ("a.json", text_of({**KERNEL, "ph": "E"}), "ends without a begin"),
    "a negative duration": ("a.json", text_of({**KERNEL, "dur": -1}), "byte 148: 1 spans with a"),
    "huge numbers": ("a.json", raw(GOOD + kernel(b'"ts":1e300,"dur":1')), "impossible time"),
    "not a number": ("a.json", raw(GOOD + kernel(b'"ts":NaN,"dur":1')), "impossible time"),
    "infinity": ("a.json", raw(GOOD + kernel(b'"ts":1,"dur":Infinity')), "impossible time"),
    "NUL": ("a.json", raw(GOOD + kernel(b'"ts":1,"cat":"a","name":"a\0b"')), "hold NUL"),
    "invalid UTF-8": ("a.json", raw(GOOD + kernel(b'"ts":1,"name":"a\xff"')), "are no UTF-8"),
    "an event that is no JSON": ("a.json", raw(GOOD + b'{"ph":"X" "ts":1}'), "malformed events"),
    "text": ("a.json", b"hello", "byte 0: neither JSON"),
    "nothing": ("a.json", b"", "empty"),
    "another JSON": ("a.json", b'{"a": 1}', "no traceEvents"),
    "zip": ("a.json", b"PK\x03\x04rest", "zip archive: unpack it first"),
    "a bomb": ("a.json.gz", bomb(), "expands more than 400-fold: refused"),
    "an SQLite file of another tool": ("a.sqlite", database(), "an SQLite file of another tool"),
    "a damaged SQLite file": ("a.sqlite", b"SQLite format 3\0garbage", "damaged SQLite file"),
    "a pickle": ("a.json", pickle.dumps(collections.OrderedDict()), "a pickle"),
    "a damaged XSpace": ("a.xplane.pb", b"\x0a\xff\xff\x01abc", "byte 0: a field longer"),
    "a damaged Perfetto trace": ("a.pftrace", b"\x0a\x02\x50\x01\x99", "no packet of a Perfetto"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_the_rest_is_analysed(
    pilotlight_cli: Cli, tmp_path: Path, case: str
) -> None:
    name, content, message = CASES[case]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.json").write_bytes(text_of(rank=0, world_size=1))
    done = pilotlight_cli("analyze", str(tmp_path / name), str(tmp_path / "b.json"), "--json")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if str(tmp_path / name) in line]
    (line,) = [line for line in lines if "ranks missing" not in line]
    assert line.startswith(f"pilotlight analyze: {tmp_path / name}: ")
    assert message in line
    found = json.loads(done.stdout)
    assert str(tmp_path / "b.json") in [trace["source"] for trace in found["traces"]]


def test_ranks_that_come_twice_or_are_missing_are_named(
    pilotlight_cli: Cli, tmp_path: Path
) -> None:
    for name, rank in (("a", 0), ("b", 0), ("c", 2)):
        (tmp_path / f"{name}.json").write_bytes(text_of(rank=rank, world_size=4))
    done = pilotlight_cli("analyze", str(tmp_path), "--json")
    assert done.returncode == 2
    twice, missing = done.stderr.splitlines()
    assert f"{tmp_path}/b.json: rank 0 again, after {tmp_path}/a.json: left out" in twice
    assert "2 of 4 ranks missing: 1, 3" in missing


def test_overlapping_spans_are_no_error_and_their_time_counts_once(
    pilotlight_cli: Cli, tmp_path: Path
) -> None:
    """Streams run kernels at the same time, and real traces show it."""
    path = tmp_path / "a.json"
    path.write_bytes(text_of({**KERNEL, "ts": 2, "dur": 4}, {**KERNEL, "ts": 4, "dur": 1}))
    done = pilotlight_cli("analyze", str(path), "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["ranks"]
    assert row["compute_ns"] == row["window_ns"] == 5000


def test_a_loop_of_links_is_named_and_ends(pilotlight_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to(tmp_path / "b.json")
    (tmp_path / "b.json").symlink_to(tmp_path / "a.json")
    (tmp_path / "here").symlink_to(tmp_path)
    (tmp_path / "c.json").write_bytes(text_of(rank=0, world_size=1))
    done = pilotlight_cli("analyze", str(tmp_path), "--json")
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        f"{tmp_path}/a.json",
        f"{tmp_path}/b.json",
    ]
    assert len(json.loads(done.stdout)["traces"]) == 1


def test_a_pickle_with_classes_does_not_run(pilotlight_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "_dump_0").write_bytes(pickle.dumps(_Attack()))
    done = pilotlight_cli("hang", str(tmp_path))
    assert done.returncode == 2
    assert "_dump_0: byte " in done.stderr
    assert "attacked" not in done.stdout + done.stderr


LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from pathlib import Path
from pilotlight.trace.reader import read_traces
found = read_traces([Path(sys.argv[2])], memory_bytes=int(sys.argv[3]))
(trace,) = found.traces
print(len(trace.spans), int(trace.spans.start_ns.sum()), trace.names[-1])
"""


def test_a_trace_larger_than_the_memory_is_read(tmp_path: Path) -> None:
    """Its columns take 84 MB; the process may have 100 MB of its own with Python and numpy."""
    count = 2_000_000
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.write(b"[")
        for begin in range(0, count, 100_000):
            rows = range(begin, begin + 100_000)
            file.write(b",".join(b'{"ph":"X","ts":%d,"name":"a"}' % i for i in rows) + b",")
    command = [sys.executable, "-c", LIMITED, str(400 << 20), str(path)]
    whole = subprocess.run([*command, str(1 << 40)], capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    tight = [sys.executable, "-c", LIMITED, str(100 << 20), str(path), str(8 << 20)]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    bounded = subprocess.run(tight, capture_output=True, text=True, env=environment)
    assert bounded.returncode == 0, bounded.stderr
    assert bounded.stdout == whole.stdout
    assert bounded.stdout.split() == [str(count), str(1000 * count * (count - 1) // 2), "a"]
