from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest
from example import Process, write_chunk, write_example, write_head
from job import EVIL, write_job

from pilotlight.export.pprof import write_pprof
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import WINDOW_NS

GO = shutil.which("go")
needs_pprof = pytest.mark.skipif(GO is None, reason="no go tool pprof is installed")


def profile(folder: Path, file: Path) -> Path:
    with file.open("wb") as out:
        write_pprof(Recording.open(folder), out)
    return file


def pprof(*arguments: str) -> str:
    run = subprocess.run(
        [str(GO), "tool", "pprof", *arguments], capture_output=True, text=True, check=True
    )
    return run.stdout


@needs_pprof
def test_pprof_finds_time_functions_and_lines(tmp_path: Path) -> None:
    file = profile(write_job(tmp_path / "job"), tmp_path / "job.pb.gz")
    text = pprof("-top", "-nodecount=10", "-unit=ns", "-lines", str(file))
    assert "Type: wall" in text
    assert "forward train.py:10" in text
    assert "6000ns" in text
    counts = pprof("-top", "-sample_index=samples", str(file))
    assert "Type: samples" in counts


@needs_pprof
def test_pprof_finds_the_labels(tmp_path: Path) -> None:
    file = profile(write_job(tmp_path / "job"), tmp_path / "job.pb.gz")
    text = pprof("-tags", "-unit=ns", str(file))
    for label in ("thread: Total", "state: Total", "rank: Total", "pid: Total", "MainThread"):
        assert label in text
    assert "running" in text and "waiting" in text
    only_rank_1 = pprof("-top", "-unit=ns", "-tagfocus=rank=^1$", str(file))
    assert "3000ns, 50.00%" in only_rank_1


@needs_pprof
def test_pprof_takes_an_empty_profile(tmp_path: Path) -> None:
    write_head(tmp_path / "job", ranks=0)
    text = pprof("-raw", str(profile(tmp_path / "job", tmp_path / "job.pb.gz")))
    assert "samples/count wall/nanoseconds" in text


def test_names_are_in_the_string_table_as_they_are(tmp_path: Path) -> None:
    file = profile(write_job(tmp_path / "job"), tmp_path / "job.pb.gz")
    assert EVIL.encode() in gzip.decompress(file.read_bytes())


@needs_pprof
def test_time_before_the_detail_comes_from_windows(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    write_head(folder, first_chunk=2, last_chunk=2)
    definitions = {"frames": [(0, 8, "f", "x.py", 3, 1)], "stacks": [(0, 8, 0, 8)]}
    windows = [(0, n * WINDOW_NS, 2, 1, 8, 10, 500, 1, 1) for n in range(1, 4)]
    write_chunk(folder / "windows", {**definitions, "windows": windows})
    samples = [(0, 7, 8, 1, 0, 2 * WINDOW_NS + 5 + n, 7) for n in range(5)]
    samples += [(0, 7, 8, 1, 0, 3 * WINDOW_NS + n, 7) for n in range(5)]
    write_chunk(folder / "detail" / "000002", {**definitions, "samples": samples})
    text = pprof("-top", "-unit=ns", str(profile(folder, tmp_path / "job.pb.gz")))
    assert f"{2 * 500 + 5 * 7}ns" in text


@needs_pprof
def test_names_in_angle_brackets_are_not_cut_off_as_templates(tmp_path: Path) -> None:
    process = Process(0)
    stack = process.stack("<module>", "f.<locals>.<lambda>", "<listcomp>")
    process.add("samples", 7, stack, 1, 0, 10_000, 5_000)
    file = profile(write_example(tmp_path / "job", process), tmp_path / "job.pb.gz")
    lines = pprof("-top", "-unit=ns", str(file)).splitlines()
    names = {line.rpartition("  ")[2] for line in lines[-3:]}
    assert names == {"<module>", "f.<locals>.<lambda>", "<listcomp>"}
