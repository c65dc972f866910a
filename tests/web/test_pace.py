from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec import structs

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import fleet as simulated

from pilotlight.collector.collector import Collector
from pilotlight.store import queries
from pilotlight.store.queries import Reader, Span
from pilotlight.web.fleet import course_of, fleet
from pilotlight.web.jobs import job_page, worst_of
from pilotlight.web.pace import DAY_NS, MINUTE_NS, Pace, pace_of, paces


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with simulated.filled_collector(tmp_path_factory.mktemp("pace")) as made:
        yield made


def told(collector: Collector, tenant: str, *windows: tuple[float, int, int]) -> Reader:
    """A reader of a job of which there are (minutes ago, steps, time of a step)."""
    now_ns = time.time_ns()
    row = {"tenant": tenant, "job": "j", "attempt": 0}
    collector.store.insert_rows(
        "job_steps_5m",
        [
            {
                **row,
                "time_ns": (now_ns - round(ago * MINUTE_NS)) // (5 * MINUTE_NS) * 5 * MINUTE_NS,
                "count": count,
                "total_ns": count * step_ns,
            }
            for ago, count, step_ns in windows
        ],
    )
    return Reader(collector.store, tenant, now_ns)


def test_the_last_minutes_are_told_against_all_steps_before(collector: Collector) -> None:
    """Each step counts as much: a few that compile at the start are no window of their own."""
    reader = told(collector, "young", (25, 2, 9_000), (20, 99, 100), (15, 99, 100), (0, 10, 120))
    pace = pace_of(reader, "j")
    assert pace.recent_ns == 120
    assert pace.change_ratio == pytest.approx(120 * 200 / (18_000 + 19_800) - 1)
    assert pace.earlier == "the 20 min before"
    assert pace.words == ", 37 % faster than in the 20 min before"


def test_yesterday_comes_first_and_is_named(collector: Collector) -> None:
    day = DAY_NS / MINUTE_NS
    # The day before begins at a whole hour, up to two hours before these 24.
    reader = told(collector, "old", (day + 180, 50, 100), (120, 50, 500), (0, 10, 118))
    pace = pace_of(reader, "j")
    assert (pace.earlier, pace.earlier_ns) == ("yesterday", 100)
    assert pace.words == ", 18 % slower than yesterday"
    assert paces(reader) == {"j": pace}


def test_a_job_of_a_few_minutes_is_compared_with_nothing(collector: Collector) -> None:
    pace = pace_of(told(collector, "new", (0, 10, 118)), "j")
    assert (pace.recent_ns, pace.change_ratio, pace.words) == (118, None, "")
    assert pace_of(told(collector, "none"), "j") == Pace()


def test_fleet_and_job_say_the_same(collector: Collector) -> None:
    """Whatever time the fleet is asked for."""
    reader = Reader(collector.store)
    job = job_page(reader, simulated.LLAMA)
    for hours in (1, 24):
        span = Span(reader.now_ns - hours * DAY_NS // 24, reader.now_ns + MINUTE_NS)
        (row,) = (row for row in fleet(reader, span).jobs if row.job == simulated.LLAMA)
        assert row.step_ns == job.step_ns
        assert row.earlier == job.earlier
        change = (
            job.step_ns / job.earlier_step_ns - 1 if job.step_ns and job.earlier_step_ns else None
        )
        assert row.change_ratio == change


def test_what_a_job_ended_with_is_still_its_answer(collector: Collector) -> None:
    """Its end closes its findings and mends nothing; one that was closed before is over."""
    reader = Reader(collector.store)
    (finding, *_) = queries.findings(reader, simulated.LLAMA)
    running = queries.job(reader, simulated.LLAMA).row
    ended = structs.replace(running, state="finished", ended_ns=running.updated_ns)
    last = replace(finding, state="closed", closed_ns=ended.ended_ns + 1)
    over = replace(finding, state="closed", closed_ns=ended.ended_ns - 1)
    assert worst_of(ended, [over, last]) == last
    assert worst_of(ended, [over]) is None
    assert worst_of(running, [last]) is None


def test_a_young_job_has_its_whole_course(collector: Collector) -> None:
    """By windows of five minutes, however long the time is that the fleet is asked for."""
    reader = told(collector, "course", (25, 10, 100), (20, 10, 110), (10, 10, 130))
    row = queries.jobs(Reader(collector.store), Span(0, 1 << 62))[0]
    young = structs.replace(row, job="j", started_ns=reader.now_ns - 25 * MINUTE_NS)
    assert course_of(reader, [young]) == {"j": [100, 110, None, 130]}
    assert course_of(reader, [structs.replace(young, started_ns=0)]) == {}
