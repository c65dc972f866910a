"""Coverage-guided fuzzing of the native readers for a short while; `make fuzz` runs it for long."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[[str, str], Path]
Run = Callable[..., Any]

CORPUS = Path(__file__).parents[2] / "native" / "tests" / "corpus"
SECONDS = 25
# Of the scanner, from one seed: as many whatever else the machine does.
SCANS = 8000
# The fuzzer stops as soon as it has found something.
MOST_SECONDS = 90
HUNG_SECONDS = 20
FUZZER = ["-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]


def fuzz(run: Run, fuzzer: Path, folder: Path, seconds: int, *more: object) -> Any:
    found = folder / "found"
    found.mkdir()
    return run(
        # By a small process: the fuzzer counts the peak memory of whoever started it as its own.
        *("sh", "-c", '"$@"; exit $?', "sh"),
        fuzzer,
        f"-max_total_time={seconds}",
        "-max_len=16384",
        "-rss_limit_mb=1024",
        f"-timeout={HUNG_SECONDS}",
        f"-artifact_prefix={folder}/",
        found,
        *(more or (CORPUS,)),
    )


@pytest.mark.parametrize("target", ["drain_fuzz", "drain_live_fuzz"])
def test_no_segment_harms_the_reader(
    program: Program, run: Run, tmp_path: Path, target: str
) -> None:
    done = fuzz(run, program(target, "clang++"), tmp_path, SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None and int(runs[1]) > 1000


def test_no_trace_harms_the_scanner_however_it_is_cut(
    program: Program, run: Run, tmp_path: Path
) -> None:
    folder = CORPUS.parent
    words, seeds = f"-dict={folder / 'scan_fuzz.dict'}", folder / "scan_corpus"
    fixed = (f"-runs={SCANS}", "-seed=1")
    done = fuzz(run, program("scan_fuzz", "clang++"), tmp_path, MOST_SECONDS, *fixed, words, seeds)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {SCANS} runs" in done.stderr


MISTAKES = {
    "any state of a sample is believed": (
        "drain/records.cpp",
        "sample.state <= static_cast<uint8_t>(ThreadState::kDisk) ? sample.state : 0",
        "sample.state",
    ),
    "any head is believed": ("drain/ring_reader.h", "available > bytes_ ||", "false ||"),
    "the ring table may lie outside the segment": (
        "drain/segment_view.cpp",
        "!inside(h.table_offset, sizeof(RingSlot) * uint64_t{h.ring_count}, bytes_)",
        "false",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_fuzzer_finds_a_missing_check(
    mutant: Any, run: Run, tmp_path: Path, mistake: str
) -> None:
    made = mutant.build("drain_fuzz.cpp", *MISTAKES[mistake], "clang++", FUZZER)
    # A reader that goes round in circles is found out sooner.
    done = fuzz(run, made, tmp_path, MOST_SECONDS, "-timeout=5", CORPUS)
    assert done.returncode != 0, done.stderr[-4000:]


def test_the_seeds_are_what_their_generator_writes(
    program: Program, run: Run, tmp_path: Path
) -> None:
    done = run(program("drain_seeds", "g++"), tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in CORPUS.iterdir()}
    assert kept == written
    assert sum(map(len, kept.values())) < 200_000
