"""Segments that wait are joined, and nothing in them is lost or doubled by it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.joining import join_segments
from pilotlight.store.spool import Entry, Segment, read_segment, segments
from pilotlight.store.store import Store
from pilotlight.store.writer import Writer

MOST_BYTES = 10_000


def left(folder: Path, *bodies: bytes) -> Path:
    """A segment with these entries."""
    segment = Segment(folder)
    segment.append([Entry("default", time.time_ns(), 0, 0, body) for body in bodies])
    segment.close()
    return segment.path


def contents(folder: Path) -> list[list[bytes]]:
    return [
        [one.body for one in read_segment(path) if isinstance(one, Entry)]
        for path in segments(folder)
    ]


def test_all_but_the_oldest_become_one_in_their_order(tmp_path: Path) -> None:
    paths = [left(tmp_path, b"%d" % n, b"%d" % (n + 1)) for n in range(0, 8, 2)]
    join_segments(tmp_path, MOST_BYTES)
    assert segments(tmp_path) == paths[:2]
    assert contents(tmp_path) == [[b"0", b"1"], [b"2", b"3", b"4", b"5", b"6", b"7"]]


def test_none_becomes_bigger_than_the_bound(tmp_path: Path) -> None:
    for n in range(9):
        left(tmp_path, bytes([n]) * 3000)
    join_segments(tmp_path, MOST_BYTES)
    assert [len(found) for found in contents(tmp_path)] == [1, 3, 3, 2]
    found = [body for segment in contents(tmp_path) for body in segment]
    assert found == [bytes([n]) * 3000 for n in range(9)]


def test_a_damaged_segment_stays_as_it_is(tmp_path: Path) -> None:
    paths = [left(tmp_path, bytes([n]) * 50, bytes([n + 10]) * 50) for n in range(6)]
    data = bytearray(paths[3].read_bytes())
    data[-1] ^= 0xFF
    paths[3].write_bytes(data)
    join_segments(tmp_path, MOST_BYTES)
    assert segments(tmp_path) == [paths[0], paths[1], paths[3], paths[4]]
    assert paths[3].read_bytes() == data


def test_a_torn_end_that_nobody_was_promised_does_not_look_like_damage(tmp_path: Path) -> None:
    paths = [left(tmp_path, bytes([n]) * 50, bytes([n + 10]) * 50) for n in range(3)]
    paths[1].write_bytes(paths[1].read_bytes()[:-7])
    join_segments(tmp_path, MOST_BYTES)
    assert all(isinstance(one, Entry) for one in read_segment(paths[1]))
    assert contents(tmp_path)[1] == [b"\x01" * 50, b"\x02" * 50, b"\x0c" * 50]


def test_a_kill_before_the_joined_ones_are_gone_leaves_nothing_twice(tmp_path: Path) -> None:
    paths = [left(tmp_path, b"body %d" % n) for n in range(4)]
    kept = paths[3].read_bytes()
    join_segments(tmp_path, MOST_BYTES)
    paths[3].write_bytes(kept)
    (tmp_path / "unfinished.joining").write_bytes(b"half")
    join_segments(tmp_path, MOST_BYTES)
    assert contents(tmp_path) == [[b"body 0"], [b"body 1", b"body 2", b"body 3"]]
    assert sorted(tmp_path.iterdir()) == paths[:2]


def test_a_disk_that_does_not_take_it_leaves_them_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [left(tmp_path, b"body %d" % n) for n in range(4)]

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    join_segments(tmp_path, MOST_BYTES)
    assert sorted(tmp_path.iterdir()) == paths


def test_a_clock_that_is_set_back_does_not_change_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = left(tmp_path, b"first")
    monkeypatch.setattr(time, "time_ns", lambda: 1_000)
    second = left(tmp_path, b"second")
    assert segments(tmp_path) == [first, second]


def test_what_was_joined_and_half_inserted_is_in_the_tables_once(store: Store) -> None:
    store.place.spool.mkdir(parents=True, exist_ok=True)
    agent = SimulatedAgent(FleetJob("job", nodes=1, ranks_per_node=2), 0, 1)
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - 4 * WINDOW_NS
    for n in range(4):
        begin_ns = first_ns + n * WINDOW_NS
        left(store.place.spool, agent.batch(begin_ns, begin_ns + WINDOW_NS))
    join_segments(store.place.spool, 1 << 20)
    joined = segments(store.place.spool)[1]
    kept = joined.read_bytes()
    Writer(store).close()
    # As if it had been killed before it could remove the segment.
    joined.write_bytes(kept)
    Writer(store).close()
    assert store.select("SELECT count() FROM steps") == [(4 * 20,)]
    assert store.select("SELECT sum(s.count) FROM steps_1h AS s") == [(4 * 20,)]
    assert store.select("SELECT count() FROM batches") == [(4,)]
