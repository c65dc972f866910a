from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pilotlight.errors import FormatError
from pilotlight.recording.chunk import ChunkReader, ChunkWriter, last_positions
from pilotlight.recording.columns import Columns, join_batches
from pilotlight.recording.journal import JOURNAL_FILE
from pilotlight.recording.rows import Value, pack_rows
from pilotlight.recording.schema import TABLES, UTF8

VALUES: dict[str, SearchStrategy[Value]] = {
    "u8": st.integers(0, 2**8 - 1),
    "u16": st.integers(0, 2**16 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "i64": st.integers(0, 2**60),
    "f64": st.floats(allow_nan=False),
    UTF8: st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
}


def rows_of(table: str) -> SearchStrategy[list[tuple[Value, ...]]]:
    columns = TABLES[table].columns
    return st.lists(st.tuples(*(VALUES[column.kind] for column in columns)), max_size=60)


def append(writer: ChunkWriter, table: str, rows: Sequence[Sequence[Value]]) -> None:
    writer.append(table, len(rows), pack_rows(table, rows))


def mark(number: int) -> tuple[int, ...]:
    return (0, 1, 8, 1, number, number)


def columns_of(folder: Path, table: str) -> Columns:
    return join_batches(TABLES[table], ChunkReader(folder).read(table))[0]


def marks_of(folder: Path) -> list[int]:
    return list(columns_of(folder, "marks")["value"].tolist())


def rows_in(columns: Columns, table: str) -> list[tuple[Value, ...]]:
    parts = [
        columns.texts[column.name] if column.kind == UTF8 else columns[column.name].tolist()
        for column in TABLES[table].columns
    ]
    return list(zip(*parts, strict=True))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), table=st.sampled_from(sorted(TABLES)))
def test_what_is_written_is_read_by_us_and_by_pyarrow(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, table: str
) -> None:
    folder = tmp_path_factory.mktemp("chunk")
    writer = ChunkWriter(folder)
    written = []
    for _ in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(1, 3))):
            rows = data.draw(rows_of(table))
            append(writer, table, rows)
            written += rows
        writer.commit({})
    writer.close()

    assert rows_in(columns_of(folder, table), table) == [
        tuple(value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row)
        for row in written
    ]
    if written:
        with pa.ipc.open_stream(str(folder / TABLES[table].file)) as stream:
            theirs = stream.read_all()
        theirs.validate(full=True)
        assert [tuple(row.values()) for row in theirs.to_pylist()] == written


def test_a_batch_beyond_the_join_limit_becomes_several(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    rows = 600_000
    columns = {
        column.name: bytes(rows * {"u32": 4, "u8": 1, "i64": 8}[column.kind])
        for column in TABLES["marks"].columns
    }
    for _ in range(3):
        writer.append("marks", rows, columns)
    writer.commit({})
    assert [batch.rows for batch in ChunkReader(tmp_path).read("marks")] == [rows] * 3


def test_a_file_cut_at_any_byte_reads_up_to_the_last_whole_batch(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path / "whole")
    ends = []
    for number in range(3):
        append(writer, "marks", [mark(number)])
        writer.commit({})
        ends.append((tmp_path / "whole" / "marks.arrows").stat().st_size)
    whole = (tmp_path / "whole" / "marks.arrows").read_bytes()
    journal = (tmp_path / "whole" / JOURNAL_FILE).read_bytes()
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / JOURNAL_FILE).write_bytes(journal)
    for length in range(len(whole) + 1):
        (cut / "marks.arrows").write_bytes(whole[:length])
        expected = [number for number, end in enumerate(ends) if end <= length]
        reader = ChunkReader(cut)
        columns, _ = join_batches(TABLES["marks"], reader.read("marks"))
        assert columns["value"].tolist() == expected, length
        assert bool(reader.warnings) == (length < len(whole)), length


def test_a_journal_cut_at_any_byte_counts_up_to_its_last_whole_line(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    ends = []
    for number in range(3):
        append(writer, "marks", [mark(number)])
        writer.commit({"a": number})
        ends.append((tmp_path / JOURNAL_FILE).stat().st_size)
    journal = (tmp_path / JOURNAL_FILE).read_bytes()
    for length in range(len(journal) + 1):
        (tmp_path / JOURNAL_FILE).write_bytes(journal[:length])
        whole = sum(end <= length for end in ends)
        assert marks_of(tmp_path) == list(range(whole)), length
        assert last_positions(tmp_path) == ({"a": whole - 1} if whole else {})


def test_an_agent_that_takes_over_cuts_what_was_not_committed(tmp_path: Path) -> None:
    killed = ChunkWriter(tmp_path)
    append(killed, "marks", [mark(0)])
    append(killed, "names", [(0, 8, "loss")])
    killed.commit({"s": 1})
    for file in ("marks.arrows", "names.arrows", JOURNAL_FILE):
        with (tmp_path / file).open("ab") as stream:
            stream.write(b"half a batch")
    (tmp_path / "spans.arrows").write_bytes(b"never committed")

    heir = ChunkWriter(tmp_path)
    append(heir, "marks", [mark(1)])
    append(heir, "spans", [(0, 1, 8, 1, 0, 5, 6)])
    heir.commit({"s": 2})
    heir.close()

    assert marks_of(tmp_path) == [0, 1]
    assert columns_of(tmp_path, "names").texts["text"] == ["loss"]
    assert columns_of(tmp_path, "spans")["duration_ns"].tolist() == [6]
    assert last_positions(tmp_path) == {"s": 2}
    assert ChunkReader(tmp_path).closed
    with pa.ipc.open_stream(str(tmp_path / "marks.arrows")) as stream:
        assert stream.read_all()["value"].to_pylist() == [0, 1]


def test_positions_are_merged_by_segment(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    writer.commit({"a": 1, "b": 1})
    writer.commit({"a": {"rings": {"0": [1200, [[7, 81723]], 3, 81000]}}})
    assert last_positions(tmp_path) == {
        "a": {"rings": {"0": [1200, [[7, 81723]], 3, 81000]}},
        "b": 1,
    }


def test_committed_bytes_are_what_the_files_hold(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    for number in range(5):
        append(writer, "marks", [mark(number)])
        append(writer, "names", [(0, number, "x" * number)])
        writer.commit({"s": number})
        held = sum(file.stat().st_size for file in tmp_path.iterdir())
        assert writer.committed_bytes == held


def test_a_commit_without_news_writes_nothing(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    writer.append("marks", 0, pack_rows("marks", []))
    writer.commit({})
    assert writer.committed_bytes == 0


def test_a_closed_chunk_is_not_taken_over(tmp_path: Path) -> None:
    ChunkWriter(tmp_path).close()
    with pytest.raises(FormatError, match="closed"):
        ChunkWriter(tmp_path)


def test_close_with_uncommitted_rows_is_refused(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    append(writer, "marks", [mark(0)])
    with pytest.raises(ValueError, match="commit"):
        writer.close()


def test_a_file_shorter_than_committed_is_not_taken_over(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    append(writer, "marks", [mark(0)])
    writer.commit({})
    os.truncate(tmp_path / "marks.arrows", 20)
    with pytest.raises(FormatError, match="shorter"):
        ChunkWriter(tmp_path)


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("nothing", {}, "no such table"),
        ("marks", {"more": b""}, "more"),
        ("marks", {"value": None}, "value"),
        ("marks", {"value": b"1234567"}, "7 bytes instead of 8"),
        ("names", {"text:offsets": bytes(4)}, "4 bytes instead of 8"),
        ("names", {"text": b"longer"}, "6 bytes instead of 1"),
        ("names", {"text:offsets": b"\1\0\0\0\1\0\0\0"}, "begin at 0"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    tmp_path: Path, table: str, change: dict[str, bytes | None], message: str
) -> None:
    rows = {"marks": [mark(0)], "names": [(0, 8, "x")]}.get(table, [])
    columns: dict[str, bytes | None] = dict(pack_rows(table, rows)) if rows else {}
    columns.update(change)
    given_columns = {name: data for name, data in columns.items() if data is not None}
    with pytest.raises(ValueError, match=message):
        ChunkWriter(tmp_path).append(table, 1, given_columns)


FULL_DISK = """
import resource, sys
from pathlib import Path
from pilotlight.recording.chunk import ChunkWriter
from pilotlight.recording.rows import pack_rows

writer = ChunkWriter(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
failed = 0
for number in range(40):
    writer.append("marks", 1, pack_rows("marks", [(0, 1, 8, 1, number, number)]))
    try:
        writer.commit({"s": number})
    except OSError:
        failed += 1
print(failed)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.append("marks", 1, pack_rows("marks", [(0, 1, 8, 1, 99, 99)]))
writer.commit({"s": 99})
writer.close()
"""


@pytest.mark.parametrize("limit_bytes", [700, 1333, 4000, 4001])
def test_a_full_disk_costs_only_the_rows_of_failed_commits(
    tmp_path: Path, limit_bytes: int
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(limit_bytes)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    failed = int(run.stdout)
    assert 0 < failed <= 40
    assert marks_of(tmp_path) == [*range(40 - failed), 99]
    reader = ChunkReader(tmp_path)
    assert list(reader.read("marks")) and reader.warnings == []


def test_a_damaged_batch_is_left_out_by_name_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "detail" / "000001"
    writer = ChunkWriter(folder)
    ends = []
    for number in range(4):
        append(writer, "marks", [mark(number)])
        writer.commit({})
        ends.append((folder / "marks.arrows").stat().st_size)
    data = bytearray((folder / "marks.arrows").read_bytes())
    data[ends[0] : ends[0] + 40] = b"\x7f" * 40
    (folder / "marks.arrows").write_bytes(data)

    reader = ChunkReader(folder)
    columns, _ = join_batches(TABLES["marks"], reader.read("marks"))
    assert columns["value"].tolist() == [0, 2, 3]
    assert reader.warnings == [
        f"detail/000001/marks.arrows: bytes {ends[0]} to {ends[1]} left out: no message begins here"
    ]


def test_a_chunk_without_its_journal_is_read_to_its_last_whole_batch(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    for number in range(2):
        append(writer, "marks", [mark(number)])
        writer.commit({})
    (tmp_path / JOURNAL_FILE).unlink()
    with (tmp_path / "marks.arrows").open("ab") as stream:
        stream.write(b"\xff\xff\xff\xff\x80\x00")
    assert marks_of(tmp_path) == [0, 1]
    assert any("is missing" in warning for warning in ChunkReader(tmp_path).warnings)


def test_a_line_of_nonsense_in_the_journal_is_named_and_left_out(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    for number in range(2):
        append(writer, "marks", [mark(number)])
        writer.commit({})
    lines = (tmp_path / JOURNAL_FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL_FILE).write_bytes(lines[0] + b'{"lengths": [1]}\n' + lines[1])
    assert marks_of(tmp_path) == [0, 1]
    assert "line 2" in ChunkReader(tmp_path).warnings[0]


def test_the_writer_imports_nothing_heavy() -> None:
    script = (
        "import sys, pilotlight.recording.chunk, pilotlight.recording.manifest\n"
        "import pilotlight.recording.processes, pilotlight.recording.places\n"
        "print([name for name in ('numpy', 'pyarrow', 'rich') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert run.stdout.strip() == "[]"


def test_the_journal_is_one_json_object_a_line(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path)
    append(writer, "marks", [mark(0)])
    writer.commit({"s": 1})
    writer.close()
    lines = [json.loads(line) for line in (tmp_path / JOURNAL_FILE).read_text().splitlines()]
    size = (tmp_path / "marks.arrows").stat().st_size
    assert lines == [
        {"lengths": {"marks.arrows": size - 8}, "positions": {"s": 1}},
        {"lengths": {"marks.arrows": size}, "closed": True},
    ]
