from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def write_rank(path: Path, rank: int) -> Path:
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": i, "dur": 1}
        for i in range(5)
    ]
    info = {"rank": rank, "world_size": 2}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))
    return path


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("out.json", b"{"),
        ("out.json.gz", b"\x1f\x8b"),
        ("out.pftrace", b"\x0a"),
        ("out.parquet", b"PAR1"),
        ("out.pb.gz", b"\x1f\x8b"),
        ("out.speedscope.json", b'{"$schema"'),
    ],
)
def test_the_name_of_the_output_says_the_format(
    pilotlight_cli: Cli, tmp_path: Path, name: str, start: bytes
) -> None:
    source = write_rank(tmp_path / "a.json", 0)
    done = pilotlight_cli("convert", str(source), str(tmp_path / name), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"files": [str(tmp_path / name)], "spans": 5}
    assert (tmp_path / name).read_bytes().startswith(start)


def test_to_says_it_if_the_name_does_not(pilotlight_cli: Cli, tmp_path: Path) -> None:
    source = write_rank(tmp_path / "a.json", 0)
    done = pilotlight_cli("convert", str(source), str(tmp_path / "x"), "--to", "perfetto")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_bytes()[:1] == b"\x0a"


def test_several_ranks_need_a_folder_and_come_back(pilotlight_cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1):
        write_rank(folder / f"{rank}.json", rank)
    done = pilotlight_cli("convert", str(folder), str(tmp_path / "one.json"))
    assert done.returncode == 2
    assert "need a folder" in done.stderr
    done = pilotlight_cli("convert", str(folder), str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "rank0.json.gz",
        "rank1.json.gz",
    ]


def test_a_size_that_is_none_is_refused(pilotlight_cli: Cli, tmp_path: Path) -> None:
    source = write_rank(tmp_path / "a.json", 0)
    done = pilotlight_cli("convert", str(source), "x.json", "--memory", "much")
    assert done.returncode == 2
    assert "is no size" in done.stderr
