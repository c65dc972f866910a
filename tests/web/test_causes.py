"""A journey for each cause, from the fleet over the finding to its evidence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import fleet
from starlette.types import ASGIApp

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Config, Watch
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob
from pilotlight.store import queries
from pilotlight.store.place import parse_place
from pilotlight.store.queries import Reader

STEP_NS = 500_000_000
CAUSES = {
    "hot": "throttle",
    "late": "slow_gpu",
    "starved": "loader",
    "stuck": "hang",
    "nightly-2": "regression",
}


def job(name: str, kind: str, first_node: int, since: float = 4) -> FleetJob:
    fault = FleetFault(kind, 5, time.time_ns() - int(since * WINDOW_NS), factor=1.4)
    return FleetJob(
        name, 2, 4, step_ns=STEP_NS, first_node=first_node, faults=[fault], command=f"python {name}"
    )


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    place = parse_place(str(tmp_path_factory.mktemp("causes") / "store"))
    before = Collector(place, Config(watch=Watch(on=False)))
    fleet.send(before, FleetJob("nightly-1", 1, 4, step_ns=STEP_NS, first_node=20), 8, ago=30)
    slower = FleetJob("nightly-2", 1, 4, step_ns=2 * STEP_NS, first_node=21)
    fleet.send(before, slower, 12)
    assert before.writer.flush(60)
    before.close()
    made = Collector(place, Config(watch=Watch(every_s=1)))
    for number, (name, kind) in enumerate(
        (("hot", "throttle"), ("late", "straggler"), ("starved", "loader"), ("stuck", "hang"))
    ):
        fleet.send(made, job(name, kind, 2 * number, 5 if kind == "hang" else 4), 14)
    deadline = time.monotonic() + 120
    while missing := [name for name in CAUSES if not found(made, name)]:
        assert time.monotonic() < deadline, f"nothing was found in {missing}"
        fleet.send(made, slower, 1)
        time.sleep(2)
    yield made
    made.close()


def found(collector: Collector, name: str) -> bool:
    rows = queries.findings(Reader(collector.store), name)
    return any(row.cause.startswith(CAUSES[name]) for row in rows)


def test_each_cause_leads_to_its_evidence(
    collector: Collector,
    journey: Callable[..., None],
    serve: Callable[[ASGIApp], AbstractContextManager[str]],
) -> None:
    with serve(make_app(collector)) as address:
        journey("causes", address)
