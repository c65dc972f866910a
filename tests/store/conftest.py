"""Stores on the real engine, filled by a simulated fleet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, agents_of
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place
from pilotlight.store.store import Store
from pilotlight.store.writer import Writer

pytest.importorskip("chdb", reason="the store needs pilotlight[server]")

WINDOWS = 12
JOB = FleetJob("train-7b", nodes=2, ranks_per_node=4)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(parse_place(str(tmp_path / "store"))) as opened:
        yield opened


def fill(store: Store, job: FleetJob, windows: int, tenant: str = "default") -> int:
    """The last windows of a job go through the writer; returns when the last one begins."""
    writer = Writer(store)
    last_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    first_ns = last_ns - windows * WINDOW_NS
    for agent in agents_of(job, first_ns):
        for number in range(windows):
            begin_ns = first_ns + number * WINDOW_NS
            body = agent.batch(begin_ns, begin_ns + WINDOW_NS)
            writer.submit(body, decode(tenant, body, Clock(), time.time_ns())).result(10)
    writer.close()
    assert writer.taken.insert_failures == 0
    return last_ns


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(parse_place(str(tmp_path_factory.mktemp("filled")))) as opened:
        fill(opened, JOB, WINDOWS)
        fill(opened, FleetJob("train-7b", nodes=1, ranks_per_node=1), 2, tenant="other")
        yield opened
