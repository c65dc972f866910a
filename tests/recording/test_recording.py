from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from example import Process, write_chunk, write_example, write_head
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.recording.recording import Recording


def mark(number: int, process: int = 0) -> tuple[int, ...]:
    return (process, 1, 0, 1, number, number)


def three_chunks(folder: Path) -> Path:
    write_head(folder, first_chunk=2, last_chunk=4)
    for number in (2, 3, 4):
        write_chunk(folder / "detail" / f"{number:06}", {"marks": [mark(number)]})
    return folder


def test_a_table_is_joined_over_the_chunks(tmp_path: Path) -> None:
    recording = Recording.open(three_chunks(tmp_path))
    assert recording.detail("marks")["value"].tolist() == [2, 3, 4]
    assert recording.windows("steps").rows == 0
    assert recording.warnings == []


def test_a_missing_chunk_is_named(tmp_path: Path) -> None:
    three_chunks(tmp_path)
    shutil.rmtree(tmp_path / "detail" / "000003")
    recording = Recording.open(tmp_path)
    assert recording.detail("marks")["value"].tolist() == [2, 4]
    assert recording.warnings == ["detail: chunks between 000002 and 000004 miss"]


def test_a_chunk_dropped_while_reading_is_not_damage(tmp_path: Path) -> None:
    recording = Recording.open(three_chunks(tmp_path))
    assert len(recording.chunks) == 3
    shutil.rmtree(tmp_path / "detail" / "000002")
    assert recording.detail("marks")["value"].tolist() == [3, 4]
    assert recording.warnings == ["000002: dropped by the recorder while being read"]


def test_rows_with_impossible_times_are_left_out_and_counted(tmp_path: Path) -> None:
    write_head(tmp_path)
    rows = [(0, 1, 0, 1, -5, 1), (0, 1, 0, 1, 2**62, 2), (0, 1, 0, 1, 7, 3)]
    write_chunk(tmp_path / "detail" / "000001", {"marks": rows})
    recording = Recording.open(tmp_path)
    assert recording.detail("marks")["value"].tolist() == [3]
    assert recording.warnings == ["detail: marks: 2 rows with impossible times left out"]


def test_a_process_that_nobody_described_is_kept_and_named(tmp_path: Path) -> None:
    write_head(tmp_path)
    write_chunk(tmp_path / "detail" / "000001", {"marks": [mark(1), mark(2, process=9)]})
    recording = Recording.open(tmp_path)
    assert recording.detail("marks").rows == 2
    assert [process.start.process for process in recording.processes] == [0, 9]
    assert recording.warnings == ["process 9: not in processes.jsonl"]


def test_rows_of_very_many_unknown_processes_are_left_out_and_counted(tmp_path: Path) -> None:
    write_head(tmp_path)
    rows = [mark(1, process=number) for number in range(5000)]
    write_chunk(tmp_path / "detail" / "000001", {"marks": rows})
    recording = Recording.open(tmp_path)
    assert recording.detail("marks").rows == 4096
    assert "904 rows of too many processes left out" in recording.warnings[-1]


def test_names_are_shared_by_text_over_processes(tmp_path: Path) -> None:
    first, second = Process(0), Process(1)
    first.name("other")
    ids = [first.name("loss"), second.name("loss")]
    assert ids[0] != ids[1]
    write_example(tmp_path, first, second)
    names = Recording.open(tmp_path).names
    found = names.find(np.array([0, 1, 0, 1]), np.array([*ids, 0, 999]))
    assert [names.texts[place] for place in found] == ["loss", "loss", "", "(unknown)"]


def test_stacks_are_shared_over_processes(tmp_path: Path) -> None:
    first, second = Process(0), Process(1)
    first.stack("elsewhere")
    stacks = [first.stack("main", "step", "forward"), second.stack("main", "step", "forward")]
    write_example(tmp_path, first, second)
    calls = Recording.open(tmp_path).calls
    nodes = calls.find(np.array([0, 1, 0, 0]), np.array([*stacks, 0, 4_000]))
    assert nodes[0] == nodes[1]
    assert [frame.function for frame in calls.path(int(nodes[0]))] == ["main", "step", "forward"]
    assert calls.path(int(nodes[2])) == []
    assert [frame.function for frame in calls.path(int(nodes[3]))] == ["(unknown)"]


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.just(0), st.integers(1, 12), st.integers(0, 14), st.integers(0, 3)),
        max_size=30,
    )
)
def test_stacks_that_refer_in_circles_end(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("recording")
    write_head(folder)
    write_chunk(folder / "detail" / "000001", {"stacks": rows, "frames": [(0, 1, "f", "x", 1, 1)]})
    calls = Recording.open(folder).calls
    ids = np.arange(0, 16)
    for node in calls.find(np.zeros(16, np.uint32), ids).tolist():
        assert len(calls.path(node)) <= len(rows) + 1
    assert all(parent < node for node, parent in enumerate(calls.parents) if node)


def test_the_last_name_of_a_thread_counts(tmp_path: Path) -> None:
    process = Process(0)
    process.add("threads", 7, process.name("MainThread"))
    process.add("threads", 7, process.name("loader"))
    write_example(tmp_path, process)
    assert Recording.open(tmp_path).thread_names == {(0, 7): "loader"}


def test_text_that_is_not_utf8_is_still_text(tmp_path: Path) -> None:
    from pilotlight.recording.chunk import ChunkWriter

    write_head(tmp_path)
    writer = ChunkWriter(tmp_path / "detail" / "000001")
    ends = b"\0\0\0\0\2\0\0\0"
    columns = {"process": bytes(4), "id": b"\10\0\0\0", "text": b"\xff\xfe", "text:offsets": ends}
    writer.append("names", 1, columns)
    writer.commit({})
    names = Recording.open(tmp_path).names
    assert names.texts[2] == "\N{REPLACEMENT CHARACTER}" * 2


def test_a_pipe_in_place_of_a_table_does_not_block(tmp_path: Path) -> None:
    three_chunks(tmp_path)
    file = tmp_path / "detail" / "000003" / "marks.arrows"
    file.unlink()
    os.mkfifo(file)
    recording = Recording.open(tmp_path)
    assert recording.detail("marks")["value"].tolist() == [2, 4]
    assert "not a plain file" in recording.warnings[0]


def test_a_recording_with_nothing_in_it_opens(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    recording = Recording.open(tmp_path)
    assert recording.detail("spans").rows == 0
    assert recording.calls.parents == [0, 0]


def test_a_folder_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a recording"):
        Recording.open(tmp_path)


def test_a_part_of_a_recording_tells_only_of_its_time(tmp_path: Path) -> None:
    write_head(tmp_path, range_ns=(3, 4))
    for number in (2, 3, 4, 5):
        tables = {"marks": [mark(number)], "steps": [(0, 7, number, number - 1, 1)]}
        write_chunk(tmp_path / "detail" / f"{number:06}", tables)
    recording = Recording.open(tmp_path)
    assert recording.detail("marks")["value"].tolist() == [3, 4]
    assert recording.detail("steps")["step"].tolist() == [3, 4]


def test_the_main_thread_has_the_pid_or_takes_the_steps(tmp_path: Path) -> None:
    first, second, third = Process(0), Process(1), Process(2)
    first.add("threads", 100, first.name("python"))
    first.add("threads", 7, first.name("python"))
    second.add("threads", 12, second.name("python"))
    second.add("steps", 12, 1, 5, 5)
    third.add("threads", 9, third.name("python"))
    recording = Recording.open(write_example(tmp_path, first, second, third))
    assert recording.main_threads == {0: 100, 1: 12}
    assert recording.thread_names == {
        (0, 100): "MainThread",
        (0, 7): "python",
        (1, 12): "MainThread",
        (2, 9): "python",
    }
