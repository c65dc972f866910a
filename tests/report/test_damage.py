"""Whatever happened to the bytes of a recording, a report or one clear error comes out."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from example import Process, write_chunk, write_example
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pilotlight.errors import FormatError
from pilotlight.recording.recording import Recording
from pilotlight.report.document import document_of, to_json
from pilotlight.report.report import report_of
from pilotlight.report.terminal import print_report

EDITS = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.integers(0, 1 << 20),
        st.sampled_from([b"", b"\xff" * 8, bytes(8), b"\x7f", b"-1", b"9" * 30, b"null", b"{}"]),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    process = Process(0)
    for number in range(12):
        at = 5_000 + 1_000 * number
        process.add("steps", 100, number, at, 900)
        process.add("spans", 100, process.name("forward"), 1, 0, at, 500)
        process.add("samples", 100, process.stack("main", "forward"), 1, 0, at, 400)
        process.add("counters", 100, process.name("loss"), at, 0.5)
        process.add("gaps", 0, 1, at, at, 3)
    folder = write_example(tmp_path_factory.mktemp("whole"), process)
    windows = [(0, 0, 2, 1, 8, 3, 500, 1, 1), (0, 0, 1, 0, 8, 3, 500, 1, 1)]
    write_chunk(folder / "windows", {"windows": windows, "histograms": [(0, 0, 1, 8, 77, 5)]})
    return folder


@settings(max_examples=120, deadline=None)
@given(edits=EDITS)
def test_a_damaged_recording_gives_a_report_or_one_error(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int, bytes, int]]
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "recording"
    shutil.copytree(whole, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for which, place, new, removed in edits:
        file = files[which % len(files)]
        data = file.read_bytes()
        at = place % (len(data) + 1)
        file.write_bytes(data[:at] + new + data[at + removed :])
    try:
        report = report_of(Recording.open(folder))
    except FormatError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
    else:
        to_json(document_of(report))
        print_report(report, Console(file=io.StringIO(), width=100))
    shutil.rmtree(folder)
