from __future__ import annotations

import io
import struct
import tracemalloc

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.recording import arrow
from pilotlight.recording.decoder import Batch, Damage, StreamDecoder
from pilotlight.recording.encoder import BatchEncoder, schema_message
from pilotlight.recording.flatbuffer import TableView
from pilotlight.recording.rows import pack_rows
from pilotlight.recording.schema import TABLES, Table
from pilotlight.recording.zstd import ZstdCompressor

NAMES = TABLES["names"]
ROWS = [(0, 8 * number, "text " * number) for number in range(1, 30)]


def stream_of(table: Table, *batches: list[tuple[int, int, str]]) -> bytes:
    encoder = BatchEncoder(table, ZstdCompressor(level=1))
    encoded = [encoder.encode(len(rows), pack_rows(table.name, rows)) for rows in batches]
    return b"".join([schema_message(table), *encoded])


def decoded(data: bytes, table: Table = NAMES) -> list[Batch | Damage]:
    return list(StreamDecoder(io.BytesIO(data), table, len(data), []).read())


WHOLE = stream_of(NAMES, ROWS, ROWS[:3])


@settings(max_examples=400, deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8
    )
)
def test_changed_bytes_give_whole_batches_or_damage(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    for item in decoded(bytes(data)):
        if isinstance(item, Batch):
            assert len(item.columns["id"]) == 4 * item.rows
            assert len(item.columns["text:offsets"]) == 4 * (item.rows + 1)
        else:
            assert 0 <= item.start < item.end <= len(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    decoded(data)
    decoded(arrow.CONTINUATION + struct.pack("<i", len(data)) + data)


def test_a_batch_that_claims_to_be_huge_allocates_little() -> None:
    zeros = 200 << 20
    packed = ZstdCompressor(level=1).compress(bytes(zeros), ZstdCompressor.FLUSH_FRAME)
    encoder = BatchEncoder(NAMES, ZstdCompressor(level=1))
    bomb = encoder.encode(29, pack_rows("names", ROWS))
    honest = struct.pack("<q", 29 * 4)
    at = bomb.index(honest, bomb.index(b"\x28\xb5\x2f\xfd") - 8)
    for claimed in (zeros, 1 << 62, -2):
        data = schema_message(NAMES) + bomb[:at] + struct.pack("<q", claimed) + bomb[at + 8 :]
        tracemalloc.start()
        (item,) = decoded(data)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert isinstance(item, Damage) and f"claims {claimed} bytes" in item.reason
        assert peak_bytes < 1 << 20
    assert len(packed) < 1 << 20


def test_more_bytes_than_a_buffer_claims_are_damage() -> None:
    encoder = BatchEncoder(NAMES, ZstdCompressor(level=1))
    data = bytearray(encoder.encode(29, pack_rows("names", ROWS)))
    packed = ZstdCompressor(level=1).compress(bytes(64 << 20), ZstdCompressor.FLUSH_FRAME)
    first = data.index(b"\x28\xb5\x2f\xfd")
    room = len(data) - first
    data[first:] = packed[:room]
    (item,) = decoded(schema_message(NAMES) + bytes(data))
    assert isinstance(item, Damage)


def test_columns_of_a_newer_minor_version_are_skipped() -> None:
    columns = {
        "process": pa.array([1, 2], pa.uint32()),
        "note": pa.array(["new", "er"], pa.utf8()),
        "id": pa.array([8, 16], pa.uint32()),
        "weight": pa.array([0.5, 1.5], pa.float64()),
        "text": pa.array(["a", "bc"], pa.utf8()),
    }
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(table)
    (batch,) = decoded(sink.getvalue())
    assert isinstance(batch, Batch)
    assert batch.columns.keys() == {"process", "id", "text", "text:offsets"}
    assert (batch.columns["id"], batch.columns["text"]) == (struct.pack("<2I", 8, 16), b"abc")


def test_a_file_without_one_of_our_columns_is_damage() -> None:
    data = stream_of(Table("names", NAMES.columns[:2]), [(1, 8, "")])
    (item,) = decoded(data)
    assert isinstance(item, Damage) and "no column text" in item.reason


def test_a_broken_schema_does_not_cost_the_batches() -> None:
    metadata = schema_message(NAMES)[8:]
    version_place = TableView.root(metadata).place(0)
    assert version_place is not None
    data = bytearray(WHOLE)
    data[8 + version_place] ^= 0xFF
    damage, *batches = decoded(bytes(data))
    assert isinstance(damage, Damage) and "another version" in damage.reason
    assert [batch.rows for batch in batches if isinstance(batch, Batch)] == [29, 3]
