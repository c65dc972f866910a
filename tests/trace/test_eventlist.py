from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.trace import chrome
from pilotlight.trace.eventlist import EventList


def read(text: bytes, block_bytes: int) -> tuple[EventList, list[object]]:
    blocks: Iterator[bytes] = iter(
        [text[i : i + block_bytes] for i in range(0, len(text), block_bytes)]
    )
    events = EventList("a.json", chrome.event_decoder(), chrome.document_decoder())
    return events, [event for piece in events.pieces(blocks) for event in piece]


names = st.text(alphabet='ab{}[]",\\ é\n', max_size=12)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.just("X"),
            "name": names,
            "ts": st.integers(0, 10**15),
            "dur": st.integers(0, 10**6),
            "args": st.dictionaries(names, st.lists(st.dictionaries(names, names), max_size=2)),
        }
    ),
    max_size=12,
)


@given(rows, st.integers(20, 400), st.booleans(), st.sampled_from([None, 1]))
def test_every_event_comes_out_once_whatever_the_block_size(
    events: list[dict[str, object]], block_bytes: int, tail_first: bool, indent: int | None
) -> None:
    rest = {"deviceProperties": [{"name": "x"}, {"name": "y"}], "distributedInfo": {"rank": 3}}
    document = {**rest, "traceEvents": events} if tail_first else {"traceEvents": events, **rest}
    reader, found = read(json.dumps(document, indent=indent).encode(), block_bytes)
    assert [event.name for event in found] == [event["name"] for event in events]  # type: ignore[attr-defined]
    assert reader.problems == []
    assert reader.metadata["distributedInfo"] == {"rank": 3}


@given(rows, st.integers(20, 400))
def test_a_bare_list_needs_no_closing_bracket(
    events: list[dict[str, object]], block_bytes: int
) -> None:
    text = json.dumps(events).encode()[:-1]
    reader, found = read(text, block_bytes)
    assert len(found) == len(events)
    assert reader.problems == []


@given(rows.filter(bool), st.integers(20, 400), st.data())
def test_a_cut_file_keeps_the_events_before_the_cut(
    events: list[dict[str, object]], block_bytes: int, data: st.DataObject
) -> None:
    text = json.dumps({"traceEvents": events}).encode()
    cut = data.draw(st.integers(len('{"traceEvents": ['), len(text) - 2))
    reader, found = read(text[:cut], block_bytes)
    whole = sum(
        len(json.dumps({"traceEvents": events[: i + 1]})) - 2 <= cut for i in range(len(events))
    )
    assert len(found) == whole
    assert "ends inside the event list" in reader.problems[-1].text


def test_the_name_of_the_list_inside_a_string_is_no_list() -> None:
    text = b'{"comment": "\\"traceEvents\\": [", "x": {"traceEvents": [1]}, "traceEvents": []}'
    _, found = read(text, 1000)
    assert found == []


def test_a_malformed_event_is_counted_with_its_place_and_the_rest_is_used() -> None:
    text = b'{"traceEvents": [{"ph":"X","ts":1,"dur":2}, {"ph":"X","ts":[]}, {"ph":"X","ts":3}]}'
    reader, found = read(text, 1000)
    assert len(found) == 2
    assert reader.malformed == 1
    assert reader.problems[0].place.startswith("byte 44 ")


def test_not_a_number_and_invalid_utf8_do_not_lose_the_event() -> None:
    text = b'{"traceEvents": [{"ph":"X","name":"a\xff","ts":1,"dur":NaN}, {"ph":"X","ts":1}]}'
    reader, found = read(text, 1000)
    assert len(found) == 2
    assert reader.malformed == 0


def test_deep_nesting_is_an_error_of_that_event_alone() -> None:
    deep = b'{"ph":"X","name":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    reader, found = read(b'{"traceEvents": [{"ph":"X"}, ' + deep + b"]}", 1 << 20)
    assert len(found) == 1
    assert reader.malformed == 1


@pytest.mark.parametrize("text", [b"hello", b"\0\0\0\0", b'{"a": 1}', b"", b'"x"', b"{"])
def test_a_file_of_another_type_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError, match=r"^a\.json: "):
        read(text, 1000)
