from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import fleet

from pilotlight.collector.collector import Collector
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob
from pilotlight.store.place import parse_place
from pilotlight.store.queries import Reader, Span
from pilotlight.web.facts import facts_in

JOB = FleetJob("again", ranks_per_node=1, torch="2.12.0")
AGO = 12


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Of a job that was started again on a newer torch."""
    collector = Collector(parse_place(str(tmp_path_factory.mktemp("facts"))))
    try:
        fleet.send(collector, JOB, 6, ago=AGO)
        fleet.send(collector, replace(JOB, attempt=1, torch="2.13.0"), 6)
        assert collector.writer.flush(60)
        yield Reader(collector.store)
    finally:
        collector.close()


def _begins_ns(reader: Reader) -> tuple[int, int]:
    """Of the two attempts."""
    rows = reader.select(
        "SELECT attempt, min(started_ns) FROM jobs WHERE tenant = {tenant:String} "
        "AND job = {job:String} GROUP BY attempt ORDER BY attempt",
        job=JOB.name,
    )
    (_, first_ns), (_, second_ns) = rows
    return int(first_ns), int(second_ns)


def test_a_time_within_one_attempt_has_the_facts_of_that(reader: Reader) -> None:
    first_ns, second_ns = _begins_ns(reader)
    before = facts_in(reader, JOB.name, Span(first_ns, second_ns - WINDOW_NS))
    after = facts_in(reader, JOB.name, Span(second_ns + WINDOW_NS, 1 << 62))
    assert (before["torch"], after["torch"]) == ("2.12.0", "2.13.0")


def test_a_time_over_a_restart_tells_what_changed_in_it(reader: Reader) -> None:
    first_ns, second_ns = _begins_ns(reader)
    told = facts_in(reader, JOB.name, Span(first_ns, second_ns + WINDOW_NS))
    assert told["torch"] == "2.12.0, then 2.13.0"
    assert told["world size"] == 1, "what did not change is told once, as it is"
