"""The batches of a simulated fleet."""

from __future__ import annotations

import pytest

pytest.importorskip("msgspec", reason="the collector needs pilotlight[server]")

from pilotlight.simulate.fleet import BATCH_NS, SETTLE_NS, WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.batch import Batch, Clock, corrected, decode

EPOCH_NS = 1_700_000_000 * 10**9
HOUR_NS = 3_600 * 10**9
JOB = FleetJob("job", 1, 2, step_ns=700_000_000)


def times(batches: list[Batch], table: str, column: str) -> list[int]:
    found = []
    for batch in (one for one in batches if table in one.tables):
        shifted, possible = corrected(batch, batch.tables[table][column])
        assert possible.all()
        found += shifted.tolist()
    return sorted(found)


def told(agent: SimulatedAgent, every_ns: int) -> list[Batch]:
    """What it tells of a minute."""
    clock = Clock(-agent.clock_ns)
    first_ns = EPOCH_NS + agent.settle_ns
    return [
        decode("t", agent.batch(begin_ns, begin_ns + every_ns), clock, begin_ns + every_ns)
        for begin_ns in range(first_ns, first_ns + 6 * WINDOW_NS, every_ns)
    ]


@pytest.mark.parametrize(("table", "column"), [("steps", "start_ns"), ("windows", "time_ns")])
def test_what_is_told_does_not_depend_on_how_often_and_by_which_clock(
    table: str, column: str
) -> None:
    rarely = told(SimulatedAgent(JOB, 0, 1), WINDOW_NS)
    late = SimulatedAgent(JOB, 0, 1, settle_ns=SETTLE_NS, clock_ns=HOUR_NS + 12_345)
    often = told(late, BATCH_NS)
    assert times(rarely, table, column) == times(often, table, column) != []
