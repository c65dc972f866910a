"""Batches there and back, and what is no batch."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.recording.fields import parse_json
from pilotlight.ship.envelope import seal, unseal
from pilotlight.ship.wire import BATCH_LIMIT_BYTES, TABLES
from pilotlight.store.batch import Clock, decode

HEADER = {
    "protocol": [1, 0],
    "agent": "a",
    "epoch": 1,
    "sequence": 1,
    "node": "n",
    "made_ns": 1,
    "places": [{"job": "j", "rank": 0}],
}
NAMES = st.lists(
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 255), st.text(max_size=20)), max_size=20
)


@given(NAMES)
def test_what_is_sealed_is_decoded(rows: list[tuple[int, int, str]]) -> None:
    batch = decode("default", seal(HEADER, {"names": rows}), Clock(), 5)
    if not rows:
        assert batch.tables == {}
        return
    names = batch.tables["names"]
    assert names["id"].tolist() == [id for id, _, _ in rows]
    assert names.texts["text"] == [
        text.encode(errors="replace").decode().replace("\0", "\ufffd") for _, _, text in rows
    ]


def test_other_tools_read_the_streams() -> None:
    _, streams = unseal(seal(HEADER, {"names": [[7, 1, "forward"]]}))
    table = pa.ipc.open_stream(io.BytesIO(bytes(streams["names"]))).read_all()
    assert table.to_pylist() == [{"id": 7, "kind": 1, "text": "forward"}]


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode("default", data, Clock(), 5)


@given(st.data())
def test_a_batch_with_one_byte_changed_is_refused_or_whole(data: st.DataObject) -> None:
    body = bytearray(seal(HEADER, {"names": [[7, 1, "forward"]], "steps": [_step()]}))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    try:
        batch = decode("default", bytes(body), Clock(), 5)
    except FormatError:
        return
    assert all(columns.rows <= 1 for columns in batch.tables.values())


def test_a_body_that_unpacks_to_too_much_is_refused_before_it_is_unpacked() -> None:
    from backports.zstd import compress

    bomb = compress(bytes(BATCH_LIMIT_BYTES + 1))
    assert len(bomb) < 1 << 16
    with pytest.raises(FormatError, match="more than"):
        unseal(bomb)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": [9, 0]}, "protocol 9 is not spoken here"),
        ({"sequence": 0}, "sequence"),
        ({"sequence": 2**70}, "sequence"),
        ({"agent": "../../etc"}, "agent"),
        ({"node": ""}, "node"),
        ({"places": [{"job": "x" * 300}]}, "job"),
        ({"places": [{"job": "j", "rank": "zero"}]}, "rank"),
        ({"epoch": None}, "epoch"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        decode("default", seal({**HEADER, **change}, {}), Clock(), 5)


def test_a_row_of_a_place_that_does_not_exist_is_refused() -> None:
    with pytest.raises(FormatError, match="place 1 of 1"):
        decode("default", seal(HEADER, {"steps": [_step(place=1)]}), Clock(), 5)


def test_an_older_agent_without_parts_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    from pilotlight.recording.encoder import BatchEncoder, schema_message
    from pilotlight.recording.schema import Table
    from pilotlight.ship import envelope

    old = Table("steps", TABLES["steps"].columns[:4])
    plain = envelope._Plain()
    monkeypatch.setitem(envelope._ENCODERS, "steps", BatchEncoder(old, plain))
    monkeypatch.setitem(envelope._SCHEMAS, "steps", schema_message(old))
    monkeypatch.setattr(envelope, "TABLES", {**TABLES, "steps": old})
    batch = decode("default", seal(HEADER, {"steps": [[0, 1, 2, 3]]}), Clock(), 5)
    steps = batch.tables["steps"]
    assert steps["duration_ns"].tolist() == [3]
    assert steps["compute_ns"].tolist() == [0] and steps["known"].tolist() == [0]


def test_a_table_of_a_newer_agent_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from pilotlight.recording.schema import Table
    from pilotlight.ship import envelope

    new = Table("dreams", TABLES["names"].columns)
    monkeypatch.setattr(envelope, "TABLES", {**TABLES, "dreams": new})
    monkeypatch.setitem(envelope._ENCODERS, "dreams", envelope._ENCODERS["names"])
    monkeypatch.setitem(envelope._SCHEMAS, "dreams", envelope._SCHEMAS["names"])
    batch = decode("default", seal(HEADER, {"dreams": [[1, 1, "x"]]}), Clock(), 5)
    assert batch.skipped == ("dreams",) and batch.tables == {}


def _step(place: int = 0) -> list[int]:
    return [place, 1, 2, 3, *([0] * 9), 0, 0]


@pytest.mark.parametrize("job", ["data-\udcff", "\ud83d\ude00"])
def test_texts_that_are_no_unicode_are_sent_as_such_that_a_store_takes(job: str) -> None:
    raw, _ = unseal(seal({**HEADER, "node": job}, {}))
    assert str(raw["node"]).encode().decode() == raw["node"]


def test_an_agent_that_sends_half_a_letter_is_understood() -> None:
    assert parse_json(b'{"node": "data-\\udcff"}') == {"node": "data-?"}
    assert parse_json(b'{"node": "\\ud83d\\ude00"}') == {"node": "\U0001f600"}
    with pytest.raises(ValueError):
        parse_json(b'{"node": "\xed\xb3\xbf"}')
