"""What is told of batches that no collector took."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from pilotlight.agent.header import loss
from pilotlight.agent.unsaid import NOT_TAKEN, rows_by_job, with_unsaid
from pilotlight.ship.outbox import Outbox, Said


def test_rows_are_counted_by_the_job_of_their_place() -> None:
    places = [{"job": "a"}, {"job": "b"}, {"job": "a"}]
    tables = {"steps": [[0, 1], [2, 1], [1, 1]], "windows": [[2, 7]], "names": [[9, 1, "x"]]}
    assert rows_by_job(places, tables) == {"a": 3, "b": 1}


def test_what_a_lost_batch_said_is_told_once_by_the_next(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, 250)
    for sequence in range(1, 5):
        said = Said({"a": 10}, [loss("a", "dropped", sequence, sequence)])
        outbox.put(5, sequence, 10, bytes(100), said)
    told = with_unsaid([loss("a", "dropped", 100, 9)], outbox.lost.unsaid, 8)
    assert told == [loss("a", "dropped", 100 + 1 + 2, 9), loss("a", NOT_TAKEN, 20, 8)]
    assert with_unsaid([], outbox.lost.unsaid, 8) == []


def test_rows_of_a_batch_that_an_earlier_agent_left_are_of_no_job_that_is_known(
    tmp_path: Path,
) -> None:
    Outbox(tmp_path, 1 << 20).put(5, 1, 10, b"x", Said({"a": 10}))
    outbox = Outbox(tmp_path, 1 << 20)
    waiting = outbox.oldest()
    assert waiting is not None
    outbox.put_aside(waiting)
    assert with_unsaid([], outbox.lost.unsaid, 8) == [loss("", NOT_TAKEN, 10, 8)]


def test_what_was_taken_is_not_told_as_lost(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, 1 << 20)
    outbox.put(5, 1, 10, b"x", Said({"a": 10}))
    waiting = outbox.oldest()
    assert waiting is not None
    outbox.done(waiting)
    assert outbox.lost.unsaid == deque()
