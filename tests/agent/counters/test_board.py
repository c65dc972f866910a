from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.agent.counters import board as board_module
from pilotlight.agent.counters.board import Board
from pilotlight.agent.counters.rows import DeviceRows, counter_id
from pilotlight.agent.counters.source import Counter, Event, Reading
from pilotlight.agent.counters.worker import Condition, Stamped
from pilotlight.agent.tables import lists

POWER = Counter("gpu0", "power", "W")
S = 1_000_000_000


class Told:
    """A worker that hands out what a test puts in."""

    name = "told"
    period_ns = S

    def __init__(self) -> None:
        self.stamped: list[Stamped] = []
        self.state = "ok"

    def want(self, is_wanted: bool) -> None: ...

    def condition(self, now_ns: int) -> Condition:
        return Condition(self.name, self.state, "a call has not returned for 6 s", "", {}, 0, 0)

    def stop(self) -> None: ...

    def take(self) -> list[Stamped]:
        taken, self.stamped = self.stamped, []
        return taken


def told_board() -> tuple[Board, Told]:
    board = Board({}, S, 0)
    told = Told()
    board._workers = [told]  # type: ignore[list-item]
    return board, told


def read(*values: tuple[Counter, float]) -> Reading:
    return Reading(values)


def test_a_window_has_the_mean_and_the_extremes_of_its_values() -> None:
    board, told = told_board()
    told.stamped = [Stamped(t * S, read((POWER, v))) for t, v in ((1, 100), (9, 300), (11, 50))]
    assert board.look(11 * S, True, 1).windows == []
    assert board.look(13 * S, True, 1).windows == [(POWER, 0, 2, 200.0, 100.0, 300.0)]


def test_a_source_that_falls_silent_is_an_event_of_the_recording_once_and_when_it_is_back() -> None:
    board, told = told_board()
    seen = []
    for second, state in enumerate(("ok", "blocked", "blocked", "failing", "ok", "ok", "blocked")):
        told.state = state
        seen += [event.name for _, event in board.look(second * S, True, 1).events]
    assert seen == ["blocked", "back", "blocked"]
    board.look(7 * S, False, 1)
    assert [event.name for _, event in board.look(8 * S, True, 1).events] == ["blocked"]


def test_what_can_no_longer_be_read_is_one_event_for_each_device_and_reason() -> None:
    board, told = told_board()
    absent = {"gpu0 gpm": "not supported", "gpu0 nvlink": "unknown error"}
    more = {"gpu0 power": "unknown error", "gpu0 fan": "unknown error", "gpu1 gpu": "gpu is lost"}
    later = {"gpu0 links": "not supported"}
    told.stamped = [
        Stamped(S, Reading((), (), absent)),
        Stamped(2 * S, Reading((), (), absent | more)),
    ]
    told.stamped += [Stamped(3 * S, Reading((), (), absent | more | later))]
    (happened,) = board.look(3 * S, True, 1).events
    assert happened == (2 * S, Event("gpu0", "unread", 0, "power, fan: unknown error"))


def test_what_a_lost_gpu_said_last_is_not_shown_as_what_it_does_now() -> None:
    board, told = told_board()
    others = (Counter("gpu1", "power", "W"), Counter("gpu10", "power", "W"))
    instance = Counter("gpu1/gi0", "sm_active", "%")
    told.stamped = [Stamped(S, read(*((one, 1.0) for one in (POWER, instance, *others))))]
    board.look(S, True, 1)
    told.stamped = [Stamped(2 * S, Reading(((POWER, 2.0),), (Event("gpu1", "lost", 0, ""),)))]
    board.look(2 * S, True, 1)
    assert set(board.latest()) == {"gpu0", "gpu10"}


def test_values_that_are_no_numbers_are_left_out_and_counted() -> None:
    board, told = told_board()
    told.stamped = [Stamped(S, read((POWER, float("nan")), (POWER, float("inf"))))]
    assert board.look(S, True, 1).values == []
    assert board.problems == {"values that are no numbers": 2}


def test_there_are_only_so_many_counters() -> None:
    board, told = told_board()
    limit = board_module._MOST_COUNTERS
    many = [(Counter("gpu0", f"memory_of_pid_{n}", "B"), 1.0) for n in range(limit + 5)]
    told.stamped = [Stamped(S, Reading(tuple(many)))]
    assert len(board.look(S, True, 1).values) == limit
    assert sum(board.problems.values()) == 5
    # What was not said for a minute makes room.
    board.look(100 * S, True, 1)
    told.stamped = [Stamped(100 * S, read((POWER, 1.0)))]
    assert len(board.look(100 * S, True, 1).values) == 1


def test_a_board_without_a_period_reads_nothing() -> None:
    opened: list[int] = []

    def never() -> object:
        opened.append(1)
        raise AssertionError

    board = Board({"x": never}, 0, 0)  # type: ignore[dict-item]
    board.look(time.monotonic_ns(), True, 1)
    assert board.conditions(0) == [] and not opened


def test_each_chunk_gets_the_counters_that_it_uses_once() -> None:
    rows = DeviceRows()
    rows.add([(S, POWER, 1.0)], [], [])
    detail, _ = rows.take()
    assert lists("device_counters", detail["device_counters"][1]) == {
        "id": [counter_id(POWER)],
        "device": ["gpu0"],
        "name": ["power"],
        "unit": ["W"],
    }
    rows.add([(2 * S, POWER, 2.0)], [], [])
    assert "device_counters" not in rows.take()[0]
    rows.new_chunk()
    rows.add([(3 * S, POWER, 2.0)], [], [])
    assert "device_counters" in rows.take()[0]


def test_events_are_kept_for_the_whole_job_too() -> None:
    rows = DeviceRows()
    rows.add([], [(S, Event("gpu0", "xid", 79, "gone"))], [])
    detail, windows = rows.take()
    assert lists("device_events", windows["device_events"][1])["value"] == [79]
    assert detail["device_events"] == windows["device_events"]
    assert not rows.is_waiting


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), unique=True, max_size=50))
def test_different_counters_have_different_ids(counters: list[tuple[str, str, str]]) -> None:
    made: Callable[..., Counter] = Counter
    clean = {tuple(part.replace("\0", "") for part in one) for one in counters}
    assert len({counter_id(made(*one)) for one in clean}) == len(clean)
