from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chrome_reference import KINDS, Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight import _scan

DROPPED = {
    "impossible": "spans with a negative or impossible time",
    "ends": "ends without a begin",
    "begins": "begins without an end",
    "values": "counter values that are no numbers",
    "times": "counters with a negative or impossible time",
}


def scan(text: bytes, block_bytes: int = 1 << 20, most_names: int = 1000) -> _scan.Scanner:
    scanner = _scan.Scanner(
        kinds=list(KINDS.items()),
        with_correlation=1 << 5 | 1 << 6,
        with_bytes=1 << 6,
        arguments=[("Input Dims", 2), ("registers", 0), ("occupancy", 1)],
        unused_flows=["ac2g"],
        most_names=most_names,
        most_lanes=1000,
    )
    for i in range(0, len(text), block_bytes):
        scanner.feed(text[i : i + block_bytes])
    scanner.finish()
    return scanner


def rows(scanner: _scan.Scanner) -> Iterator[tuple[Any, ...]]:
    names, lanes = scanner.names(), scanner.lanes()
    columns = (column.tolist() for column in scanner.spans())
    for start, duration, kind, name, lane, correlation, size in zip(*columns, strict=True):
        yield start, duration, kind, names[name], *lanes[lane], correlation, size


def counters(scanner: _scan.Scanner) -> list[tuple[int, str, float]]:
    names = scanner.names()
    time, name, value = (column.tolist() for column in scanner.counters())
    return [(t, names[n], v) for t, n, v in zip(time, name, value, strict=True)]


def agree(elements: list[bytes], block_bytes: int) -> None:
    reference = Reference()
    for text in elements:
        reference.add_text(text)
    reference.finish()
    scanner = scan(b'{"traceEvents": [' + b",".join(elements) + b"]}", block_bytes)
    assert scanner.troubles() == []
    assert list(rows(scanner)) == reference.spans
    assert counters(scanner) == reference.counters
    assert scanner.malformed()[0] == reference.malformed
    assert scanner.skipped() == dict(reference.skipped)
    found = {key: scanner.dropped()[what][0] for key, what in DROPPED.items()}
    assert {key: count for key, count in found.items() if count} == dict(+reference.dropped)


times = (
    st.integers(-5, 10**19)
    | st.floats()
    | st.sampled_from([1e300, 0.1235, 5e-324, "12.5", "x", "", None, True, [], "1 ", "NaN"])
    | st.decimals(0, 10**9, places=3).map(float)
)
texts = st.text(alphabet='abZ{}[]",\\/ é\n\0\ud83d😀\x7f', max_size=8)
ids = st.integers(-1, 3) | texts | st.none() | st.booleans() | st.floats() | st.lists(texts)
arguments = st.dictionaries(
    texts | st.sampled_from(["correlation", "bytes", "Total Allocated", "Device Id", "name"]),
    st.recursive(ids | times, lambda inner: st.lists(inner, max_size=2), max_leaves=4),
    max_size=4,
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXBBEECiMsb") | texts | st.none()},
    optional={
        "name": ids,
        "cat": st.sampled_from(["kernel", "gpu_memcpy", "cpu_op", "other"]) | ids,
        "pid": ids,
        "tid": st.integers(1, 2) | ids,
        "ts": st.integers(0, 1000) | times,
        "dur": st.integers(0, 1000) | times,
        "args": arguments | ids,
    },
)
values = events | st.lists(events, max_size=2) | ids


@settings(max_examples=400)
@given(st.lists(values, max_size=6), st.integers(1, 300), st.booleans(), st.booleans())
def test_the_scanner_and_the_json_module_agree(
    elements: list[Any], block_bytes: int, ascii_only: bool, spaced: bool
) -> None:
    texts = []
    for element in elements:
        text = json.dumps(element, ensure_ascii=ascii_only, indent=1 if spaced else None)
        texts.append(text.encode("utf-8", "replace"))
    agree(texts, block_bytes)


@settings(max_examples=400)
@given(
    st.lists(events, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(1, 300),
)
def test_the_scanner_and_the_json_module_agree_on_damaged_events(
    elements: list[Any], damage: list[tuple[int, int]], block_bytes: int
) -> None:
    """Damage that moves the borders of events is another matter."""
    texts = []
    for element in elements:
        text = bytearray(json.dumps(element).encode())
        for place, byte in damage:
            place %= len(text)
            if chr(byte) not in '{}[]",\\' and chr(text[place]) not in '{}[]",\\':
                text[place] = byte
        texts.append(bytes(text))
    agree(texts, block_bytes)


# Keys of one length that begin and end alike are learned in one place.
members = st.sampled_from(
    [b'"ph":"X"', b'"ph": "X"', b'"ts": 5', b'"ts":  7', b'"name": "a"', b'"name":\n"b"',
     b'"dur": 1', b'"nome": 3', b'"nxme": "c"', b'"cat": "kernel"', b'"pid": 1', b'"tid" : 2',
     b'"args": {}',
     b'"args": {"correlation": 4, "bytes": 5}', b'"args": {"bytes": 5, "correlation": 6}',
     b'"args": { "correlation" : 7}', b'"args": {"correlatiom": 8}', b'"args": [1]',
     b'"args": {"correlation": 9,}', b'"args": {"a", "b"}', b'"x\\u0041": 1', b'"": 1']
)  # fmt: skip


@settings(max_examples=400)
@given(
    st.lists(st.lists(members, max_size=9).map(b", ".join), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([b"{", b"{ ", b"{\n  "])), max_size=40),
    st.sampled_from([1 << 20, 1000, 60, 7]),
)
def test_events_that_nearly_repeat_each_other_are_read_as_they_are(
    layouts: list[bytes], order: list[tuple[int, bytes]], block_bytes: int
) -> None:
    events = [b'"ph": "X", "ts": 1, "dur": 2, ' + one for one in layouts]
    chosen = [(events[number % len(events)], brace) for number, brace in order]
    agree([brace + text + b"}" for text, brace in chosen], block_bytes)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_are_replaced_as_python_does(name: bytes) -> None:
    name = name.replace(b'"', b"").replace(b"\\", b"")
    scanner = scan(b'[{"ph":"X","ts":1,"name":"' + name + b'"}]')
    expected = name.decode("utf-8", "replace").replace("\0", "\ufffd")
    assert [row[3] for row in rows(scanner)] == [expected]
    assert scanner.repaired()[0] == (name != expected.encode())


def test_names_that_become_equal_are_one() -> None:
    text = b'[{"ph":"X","ts":1,"name":"a\xff"},{"ph":"X","ts":1,"name":"a\xfe"},'
    scanner = scan(text + b'{"ph":"X","ts":1,"name":"a\\ufffd"}]')
    assert scanner.names() == ["a\ufffd"]


@given(st.integers(0, 10**15), st.integers(0, 999))
def test_times_are_exact_to_the_nanosecond(whole: int, thousandths: int) -> None:
    (row,) = rows(scan(b'[{"ph":"X","ts":%d.%03d}]' % (whole, thousandths)))
    assert row[0] == whole * 1000 + thousandths


def test_a_clock_of_nanoseconds_is_known_by_its_size() -> None:
    (row,) = rows(scan(b'[{"ph":"X","ts":1700000000123456789,"dur":250}]'))
    assert row[:2] == (1_700_000_000_123_456_789, 250)


def test_the_last_of_equal_keys_counts() -> None:
    (row,) = rows(scan(b'[{"ph":"B","name":"a","ph":"X","ts":1,"name":"b","ts":2}]'))
    assert row[0] == 2000 and row[3] == "b"


def test_arguments_are_kept_by_row() -> None:
    text = b"""[{"ph":"X","ts":1},
      {"ph":"X","ts":2,"args":{"Input Dims":[[2, 3]],"registers":7,"occupancy":0.5}},
      {"ph":"X","ts":-1,"args":{"registers":8}},
      {"ph":"X","ts":3,"args":{"Input Dims":[[2, 3]],"registers":"9","occupancy":"x"}}]"""
    scanner = scan(text)
    found = {key: [c.tolist() for c in columns] for key, columns in scanner.arguments().items()}
    assert found == {
        "Input Dims": [[1, 2], [0, 0]],
        "registers": [[1, 2], [7, 9]],
        "occupancy": [[1], [0.5]],
    }
    assert scanner.texts() == ["[[2, 3]]"]


@given(st.lists(events, max_size=5), st.integers(20, 400), st.booleans(), st.data())
def test_members_around_the_list_are_found_before_and_after_it(
    elements: list[Any], block_bytes: int, first: bool, data: st.DataObject
) -> None:
    rest = {"x": [{"traceEvents": [1]}, '"traceEvents": ['], "distributedInfo": {"rank": 3}}
    document = {**rest, "traceEvents": elements} if first else {"traceEvents": elements, **rest}
    text = json.dumps(document, indent=data.draw(st.sampled_from([None, 1]))).encode()
    scanner = scan(text, block_bytes)
    assert scanner.troubles() == []
    assert json.loads(scanner.metadata()) == {"distributedInfo": {"rank": 3}}


spans = st.lists(
    st.fixed_dictionaries(
        {"ph": st.just("X"), "ts": st.integers(0, 9), "name": texts, "args": arguments}
    ),
    min_size=1,
    max_size=8,
)


@given(spans, st.integers(20, 400), st.data())
def test_a_cut_file_keeps_the_events_before_the_cut(
    elements: list[Any], block_bytes: int, data: st.DataObject
) -> None:
    text = json.dumps({"traceEvents": elements}).encode()
    cut = data.draw(st.integers(len('{"traceEvents": ['), len(text) - 2))
    scanner = scan(text[:cut], block_bytes)
    whole = sum(
        len(json.dumps({"traceEvents": elements[: i + 1]})) - 2 <= cut for i in range(len(elements))
    )
    assert len(list(rows(scanner))) == whole
    (trouble,) = scanner.troubles()
    assert "ends inside the event list" in trouble[1] and not trouble[2]


@given(spans, st.integers(20, 400))
def test_a_bare_list_needs_no_closing_bracket(elements: list[Any], block_bytes: int) -> None:
    scanner = scan(json.dumps(elements).encode()[:-1], block_bytes)
    assert len(list(rows(scanner))) == len(elements)
    assert scanner.troubles() == []


def test_a_missing_closing_brace_is_reported() -> None:
    scanner = scan(b'{"traceEvents": [{"ph":"X","ts":1}]')
    assert [text for _, text, _ in scanner.troubles()] == ["the closing brace is missing"]


@pytest.mark.parametrize("text", [b"hello", b"\0\0\0\0", b'{"a": 1}', b"", b'"x"', b"{", b"{]"])
def test_a_file_of_another_type_is_fatal(text: bytes) -> None:
    ((_, _, fatal),) = scan(text).troubles()
    assert fatal


def test_deep_nesting_is_an_error_of_that_event_alone() -> None:
    deep = b'{"ph":"X","ts":1,"name":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    scanner = scan(b'{"traceEvents": [{"ph":"X","ts":1}, ' + deep + b',{"ph":"X","ts":1}]}', 4096)
    assert len(list(rows(scanner))) == 2
    assert scanner.malformed() == (1, 36, "nested too deeply")


def test_an_event_that_never_ends_stops_the_reading_and_keeps_the_rest() -> None:
    scanner = scan(b'[{"ph":"X","ts":1}, {"name":"' + b"x" * (65 << 20), 1 << 20)
    assert len(list(rows(scanner))) == 1
    ((place, text, fatal),) = scanner.troubles()
    assert (place, fatal) == (20, False)
    assert "longer than" in text


def test_names_beyond_the_limit_share_one() -> None:
    text = b"[" + b",".join(b'{"ph":"X","ts":1,"name":"%d"}' % i for i in range(50)) + b"]"
    scanner = scan(text, most_names=10)
    assert len(scanner.names()) == 11
    assert scanner.overflowed()[0] == 40


def test_columns_beyond_the_budget_go_to_a_file_and_stay_right(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: _scan.set_budget((1 << 64) - 1, "/tmp"))
    _scan.set_budget(1 << 20, str(tmp_path))
    count = 400_000
    scanner = scan(b"[" + b",".join(b'{"ph":"X","ts":%d}' % i for i in range(count)) + b"]")
    spans = scanner.spans()
    mapped = Path("/proc/self/maps").read_text()
    assert sum(str(tmp_path) in line for line in mapped.splitlines()) >= 5
    assert (spans[0] == np.arange(count) * 1000).all()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("empty", [b"{}", b"{ \n}"])
def test_an_empty_object_among_the_events_is_nothing(empty: bytes) -> None:
    scanner = scan(b'{"traceEvents": [{"ph":"X","ts":1}, ' + empty + b"]}", 7)
    assert len(list(rows(scanner))) == 1
    assert scanner.malformed()[0] == 0 and scanner.troubles() == []


def test_a_phase_may_be_escaped() -> None:
    scanner = scan(
        b'{"traceEvents": [{"ph":"\\u0058","ts":1}, {"ph":"\\u004f"}, {"ph":"\\u00e9"}]}'
    )
    assert len(list(rows(scanner))) == 1
    assert scanner.malformed()[0] == 1
