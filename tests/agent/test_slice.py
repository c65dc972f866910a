from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pilotlight.agent.clocks import Clocks, read_pair
from pilotlight.agent.recorder import Recorder, Taken
from pilotlight.agent.slice import copy_last, is_slice
from pilotlight.agent.tables import packed
from pilotlight.errors import FormatError, UsageError
from pilotlight.recording.manifest import AgentFacts, ClockPair, Manifest
from pilotlight.recording.processes import ProcessStart
from pilotlight.recording.recording import Recording

SECOND = 1_000_000_000
OFFSET = 1_700_000_000 * SECOND


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Five chunks, of which each was committed 30 s after the one before; the last is open."""
    folder = tmp_path / "recording"
    folder.mkdir()
    agent = AgentFacts(pid=1, version="1")
    manifest = Manifest(
        "job", "node", "boot", OFFSET, ("python",), agent, (ClockPair(0, OFFSET),), 1 << 20
    )
    recorder = Recorder(folder, manifest, lambda: False)
    recorder.roster.start(ProcessStart(0, 1, 2, "s", 0, 0, (1, 0)))
    for number in range(5):
        now_ns = number * 30 * SECOND
        recorder.begin_commit(now_ns, 1 << 30)
        mark = {"marks": packed("marks", [(0, 1, 1, 1, now_ns, number)])}
        recorder.commit([Taken(0, "s", mark, {}, {})], now_ns)
    recorder.flush_windows(0)
    recorder.write_manifest(agent, manifest.clocks)
    for number in range(5):
        journal = folder / "detail" / f"{number + 1:06d}" / "commit.jsonl"
        committed_ns = OFFSET + number * 30 * SECOND
        os.utime(journal, ns=(committed_ns, committed_ns))
    return folder


def values(folder: Path) -> list[int]:
    opened = Recording.open(folder)
    found: list[int] = opened.detail("marks")["value"].tolist()
    assert opened.warnings == []
    return found


def test_only_the_chunks_of_the_last_seconds_are_copied(recording: Path, tmp_path: Path) -> None:
    made = copy_last(recording, tmp_path / "slice", 45 * SECOND)
    assert made.chunks == 2
    assert made.range_ns[1] - made.range_ns[0] == 45 * SECOND
    assert abs(made.range_ns[1] - 120 * SECOND) < SECOND // 10
    assert values(tmp_path / "slice") == [3, 4]
    assert is_slice(tmp_path / "slice") and not is_slice(recording)
    content = json.loads((tmp_path / "slice" / "manifest.json").read_text())
    assert (content["state"], content["first_chunk"], content["last_chunk"]) == ("finished", 4, 5)
    assert content["range_ns"] == list(made.range_ns)


def test_a_slice_never_begins_before_its_recording(recording: Path, tmp_path: Path) -> None:
    made = copy_last(recording, tmp_path / "slice", 3600 * SECOND)
    assert made.range_ns[0] == 0
    assert values(tmp_path / "slice") == [0, 1, 2, 3, 4]


def test_closed_chunks_are_linked_and_the_open_one_is_copied(
    recording: Path, tmp_path: Path
) -> None:
    copy_last(recording, tmp_path / "slice", 3600 * SECOND)
    inodes = [
        (folder / "detail" / chunk / "marks.arrows").stat().st_ino
        for chunk in ("000001", "000005")
        for folder in (recording, tmp_path / "slice")
    ]
    assert inodes[0] == inodes[1] and inodes[2] != inodes[3]


def test_a_folder_with_something_in_it_is_not_written_to(recording: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not empty"):
        copy_last(recording, tmp_path, SECOND)


def test_a_folder_that_is_no_recording_says_so(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a recording"):
        copy_last(tmp_path, tmp_path / "slice", SECOND)


def test_a_stepped_clock_adds_a_pair_and_a_drifting_one_does_not() -> None:
    clocks = Clocks(ClockPair(0, 1000))
    assert not clocks.observe(ClockPair(10 * SECOND, 10 * SECOND + 40_000_000))
    stepped = ClockPair(20 * SECOND, 80 * SECOND)
    assert clocks.observe(stepped)
    assert clocks.pairs == (ClockPair(0, 1000), stepped)
    assert not clocks.observe(ClockPair(21 * SECOND, 81 * SECOND))


def test_a_clock_that_is_stepped_for_ever_keeps_a_bounded_number_of_pairs() -> None:
    clocks = Clocks(read_pair())
    first = clocks.pairs[0]
    for number in range(1, 200):
        clocks.observe(ClockPair(number, number * SECOND))
    assert len(clocks.pairs) == 64
    assert clocks.pairs[0] == first and clocks.pairs[-1].realtime_ns == 199 * SECOND
