from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from example import Process, write_chunk, write_example, write_head
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import WINDOW_NS
from pilotlight.report.coverage import coverage_of
from pilotlight.report.quantiles import bucket_of
from pilotlight.report.report import report_of

MS = 1_000_000


def test_detail_tells_all_when_no_chunk_was_dropped(tmp_path: Path) -> None:
    process = Process(0)
    process.add("samples", 7, process.stack("f"), 1, 0, 5_000, 10 * MS)
    folder = write_example(tmp_path, process)
    assert coverage_of(Recording.open(folder)).detail_from_ns.tolist() == [0]


def test_after_a_dropped_chunk_detail_begins_with_a_whole_window(tmp_path: Path) -> None:
    write_head(tmp_path, first_chunk=2, last_chunk=2)
    phase = 3_000_000_000
    windows = [(0, phase + n * WINDOW_NS, 2, 1, 8, 1, 10 * MS, 1, 1) for n in range(3)]
    write_chunk(tmp_path / "windows", {"windows": windows})
    sample = (0, 7, 8, 1, 0, phase + WINDOW_NS + 5, 10 * MS)
    write_chunk(tmp_path / "detail" / "000002", {"samples": [sample]})
    found = coverage_of(Recording.open(tmp_path)).detail_from_ns.tolist()
    assert found == [phase + 2 * WINDOW_NS]


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(st.integers(0, 6 * WINDOW_NS - 1), min_size=1, max_size=40),
    cut_ns=st.integers(0, 6 * WINDOW_NS),
    phase_ns=st.integers(0, WINDOW_NS - 1),
)
def test_every_record_is_counted_once_wherever_the_detail_begins(
    tmp_path_factory: pytest.TempPathFactory, ends: list[int], cut_ns: int, phase_ns: int
) -> None:
    """Windows know all records, the detail those that ended after the dropped chunks."""
    folder = tmp_path_factory.mktemp("recording")
    write_head(folder, first_chunk=2, last_chunk=2)
    base = 100 * WINDOW_NS
    name, length = 8, 2 * MS
    windows: dict[int, int] = {}
    for end in ends:
        start = (base + end - phase_ns) // WINDOW_NS * WINDOW_NS + phase_ns
        windows[start] = windows.get(start, 0) + 1
    bucket = int(bucket_of(np.array([length]))[0])
    write_chunk(
        folder / "windows",
        {
            "names": [(0, name, "forward")],
            "windows": [
                row
                for start, count in windows.items()
                for row in (
                    (0, start, 1, 0, name, count, count * length, length, length),
                    (0, start, 2, 1, 16, count, count * 10 * MS, 10 * MS, 10 * MS),
                    (0, start, 3, 0, 2, count, count * 3 * MS, 3 * MS, 3 * MS),
                )
            ],
            "histograms": [(0, start, 1, name, bucket, n) for start, n in windows.items()],
        },
    )
    kept = [base + end for end in ends if end >= cut_ns]
    write_chunk(
        folder / "detail" / "000002",
        {
            "names": [(0, name, "forward")],
            "spans": [
                row
                for end in kept
                for row in (
                    (0, 7, name, 1, 0, end - length, length),
                    (0, 7, 0, 2, 0, end - 3 * MS, 3 * MS),
                )
            ],
            "samples": [(0, 7, 16, 1, 0, end, 10 * MS) for end in kept],
        },
    )
    report = report_of(Recording.open(folder))
    (forward,) = report.ranges
    assert (forward.count, forward.total_ns) == (len(ends), len(ends) * length)
    assert forward.p50_ns == pytest.approx(length, rel=0.0625)
    assert int(report.flame.entry_samples.sum()) == len(ends)
    assert int(report.flame.entry_ns.sum()) == len(ends) * 10 * MS
    (collections,) = report.garbage
    assert (collections.count, collections.total_ns) == (len(ends), len(ends) * 3 * MS)
    assert report.processes[0].times is not None
    assert report.processes[0].times.running_ns == len(ends) * 10 * MS


def test_a_step_that_began_before_the_agent_came_is_within_the_recording(tmp_path: Path) -> None:
    process = Process(0)
    process.add("steps", 7, 0, 400, 150 * MS)
    folder = write_example(tmp_path, process)
    assert Recording.open(folder).processes[0].start.time_ns == 1_000
    assert coverage_of(Recording.open(folder)).start_ns == 400
