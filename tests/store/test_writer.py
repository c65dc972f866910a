"""The way into the store: safe before it is acknowledged, in the tables exactly once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pytest

from pilotlight.errors import StoreError
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store import writer as writer_module
from pilotlight.store.batch import Batch, Clock, decode
from pilotlight.store.place import parse_place
from pilotlight.store.seen import Seen
from pilotlight.store.spool import Entry, Segment, read_segment, segments
from pilotlight.store.store import Store
from pilotlight.store.writer import Full, Limits, Writer

JOB = FleetJob("job", nodes=1, ranks_per_node=2)


def bodies(count: int, epoch: int = 1) -> list[bytes]:
    agent = SimulatedAgent(JOB, 0, epoch)
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - count * WINDOW_NS
    return [
        agent.batch(first_ns + n * WINDOW_NS, first_ns + (n + 1) * WINDOW_NS) for n in range(count)
    ]


def submit(writer: Writer, body: bytes, clock: Clock | None = None) -> bool:
    batch = decode("default", body, clock or Clock(), time.time_ns())
    return writer.submit(body, batch).result(20)


def steps(store: Store) -> tuple[int, int]:
    raw = store.select("SELECT count() FROM steps")[0][0]
    rolled = store.select("SELECT sum(s.count) FROM steps_1h AS s")[0][0]
    return raw, rolled


def test_batches_in_any_order_and_any_number_of_times_count_once(store: Store) -> None:
    writer = Writer(store)
    sent = bodies(6)
    news = [submit(writer, sent[n]) for n in (2, 0, 5, 2, 1, 0, 4, 3, 5)]
    writer.close()
    assert news.count(True) == 6 and writer.taken.duplicates == 3
    assert steps(store) == (6 * 20, 6 * 20)


def test_a_restarted_collector_knows_which_batches_of_an_agent_are_missing(store: Store) -> None:
    sent = bodies(6)
    writer = Writer(store)
    for n in (1, 2, 4, 5):
        submit(writer, sent[n])
    writer.close()
    again = Writer(store)
    news = [submit(again, body) for body in sent]
    again.close()
    assert news == [True, False, False, True, False, False]


def test_an_agent_of_whom_a_week_is_remembered_may_go_on() -> None:
    """Older batches have left the list, so that it does not begin with the first."""
    seen, key = Seen(), ("default", "agent", 1)
    seen.recall(key, 50_000, 170_000)
    assert not seen.fits(key, 170_001, 1)
    assert seen.fits(key, 170_001, 170_001)
    assert seen.add(key, 170_001, 170_001) and (key, 170_000) in seen


def test_a_batch_that_no_table_takes_is_put_aside_and_the_next_ones_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = bodies(2)
    writing = writer_module.arrow_tables

    def refuses_the_first(batches: Sequence[Batch]) -> dict[str, object]:
        if any(batch.header.sequence == 1 for batch in batches):
            raise UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")
        return writing(batches)

    monkeypatch.setattr(writer_module, "arrow_tables", refuses_the_first)
    monkeypatch.setattr(writer_module, "_RETRY_S", (0.01,))
    writer = Writer(store)
    submit(writer, sent[0])
    assert writer.flush(20)
    submit(writer, sent[1])
    assert writer.flush(20)
    writer.close()
    assert writer.taken.aside == 1 and steps(store) == (20, 20)


def test_what_was_acknowledged_before_a_kill_is_in_the_tables_after_it(tmp_path: Path) -> None:
    """The spool as a killed collector leaves it: synced, not inserted."""
    place = parse_place(str(tmp_path / "store"))
    place.spool.mkdir(parents=True)
    segment = Segment(place.spool)
    sent = bodies(3)
    segment.append([Entry("default", time.time_ns(), 0, 0, body) for body in sent])
    segment.close()
    with Store(place) as store:
        writer = Writer(store)
        assert submit(writer, sent[1]) is False
        writer.close()
        assert writer.taken.replayed_batches == 3
        assert steps(store) == (60, 60)
    assert segments(place.spool) == []


def test_a_torn_end_of_the_spool_is_left_out(tmp_path: Path) -> None:
    segment = Segment(tmp_path)
    entries = [Entry("default", 1, 0, 0, bytes([n]) * 50) for n in range(3)]
    segment.append(entries)
    segment.close()
    whole = segment.path.read_bytes()
    for cut in range(len(whole)):
        segment.path.write_bytes(whole[:cut])
        found = list(read_segment(segment.path))
        assert found == entries[: len(found)] and all(isinstance(one, Entry) for one in found)


def test_damage_in_the_spool_costs_only_what_is_damaged(tmp_path: Path) -> None:
    segment = Segment(tmp_path)
    entries = [Entry("default", 1, 0, 0, bytes([n]) * 50) for n in range(3)]
    segment.append(entries)
    segment.close()
    data = bytearray(segment.path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.path.write_bytes(data)
    found = list(read_segment(segment.path))
    assert [one for one in found if isinstance(one, Entry)] == [entries[0], entries[2]]
    assert sum(isinstance(one, str) for one in found) == 1


def test_once_all_that_a_collector_left_is_in_nothing_waits_also_where_it_was_damaged(
    tmp_path: Path,
) -> None:
    """Else so much less may wait from then on, and agents are asked to for no reason."""
    place = parse_place(str(tmp_path / "store"))
    place.spool.mkdir(parents=True)
    segment = Segment(place.spool)
    segment.append([Entry("default", time.time_ns(), 0, 0, body) for body in bodies(2)])
    segment.close()
    with segment.path.open("ab") as stream:
        stream.write(bytes(1 << 16))
    with Store(place) as store:
        writer = Writer(store)
        assert writer.waiting_bytes > 1 << 16
        writer.flush(20)
        writer.close()
        assert (writer.waiting_batches, writer.waiting_bytes) == (0, 0)
        assert steps(store) == (40, 40)


def test_a_store_that_is_behind_asks_agents_to_wait(store: Store) -> None:
    writer = Writer(store, Limits(waiting_batches=0))
    first, second = bodies(2)
    submit(writer, first)
    with pytest.raises(Full, match="behind"):
        submit(writer, second)
    assert writer.flush(30)
    assert submit(writer, second) is True
    writer.close()


def test_what_comes_while_an_insert_takes_long_is_one_block(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_SEGMENT_NS", 100_000_000)
    insert, may_go_on, names = store.insert, threading.Event(), []

    def slow(table: str, rows: pyarrow.Table, token: str) -> None:
        if table == "steps":
            names.append(token)
            may_go_on.wait(30)
        insert(table, rows, token)

    monkeypatch.setattr(store, "insert", slow)
    writer = Writer(store)
    for body in bodies(6):
        submit(writer, body)
        time.sleep(0.3)
    may_go_on.set()
    assert writer.flush(30) and steps(store) == (120, 120)
    assert len(names) == 2
    writer.close()


def test_a_full_disk_is_said_and_nothing_is_acknowledged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(store)
    (body,) = bodies(1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pilotlight.store.writer.Segment.append", full)
        with pytest.raises(Full, match="No space left"):
            submit(writer, body)
    assert writer.disk_problem == "the collector's disk: No space left on device"
    assert submit(writer, body) is True
    assert not writer.disk_problem
    writer.close()
    assert steps(store) == (20, 20)


def test_a_disk_that_has_room_again_is_noticed_without_a_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotlight.store.writer._LOOK_S", 0.1)
    writer = Writer(store)
    (body,) = bodies(1)
    is_full = [True]
    whole = os.fsync

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pilotlight.store.writer.Segment.append", full)
        patched.setattr(os, "fsync", lambda handle: full() if is_full[0] else whole(handle))
        with pytest.raises(Full, match="No space left"):
            submit(writer, body)
        time.sleep(1)
        assert writer.disk_problem
        is_full[0] = False
        deadline = time.monotonic() + 20
        while writer.disk_problem and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not writer.disk_problem
    writer.close()
    assert list(store.place.spool.iterdir()) == []


def test_a_clock_that_is_an_hour_off_is_put_right(store: Store) -> None:
    hour_ns = 3_600 * 10**9
    agent = SimulatedAgent(JOB, 0, 1)
    now_ns = time.time_ns()
    wrong_ns = now_ns - hour_ns
    body = agent.batch(wrong_ns - WINDOW_NS, wrong_ns)
    writer = Writer(store)
    submit(writer, body, Clock(hour_ns, 1000))
    writer.close()
    ((first, last),) = store.select("SELECT min(start_ns), max(start_ns) FROM steps")
    assert now_ns - 2 * WINDOW_NS < first <= last < now_ns
    assert store.select("SELECT offset_ns, uncertainty_ns FROM batches") == [(hour_ns, 1000)]


def test_rows_with_impossible_times_are_left_out_and_counted(store: Store) -> None:
    body = SimulatedAgent(JOB, 0, 1).batch(10**15, 10**15 + WINDOW_NS)
    writer = Writer(store)
    submit(writer, body)
    writer.close()
    assert steps(store)[0] == 0
    found = dict(store.select("SELECT what, sum(count) FROM losses GROUP BY what"))
    assert found["steps with impossible times"] == 20


def test_a_second_collector_on_the_same_folder_is_told_who_has_it(store: Store) -> None:
    import os

    with pytest.raises(StoreError, match=f"process {os.getpid()} has this store open"):
        Store(store.place)


def test_a_store_of_a_newer_pilotlight_is_refused(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path / "store"))
    with Store(place) as store:
        store.command("INSERT INTO schema_version VALUES (1, 99)")
    with pytest.raises(StoreError, match=r"version 99.*install a newer pilotlight"):
        Store(place)
