"""A collector with a small simulated fleet in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Config, Watch
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, SimulatedAgent, agents_of
from pilotlight.store import queries
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place
from pilotlight.store.queries import Reader

LLAMA, EVIL_JOB = "llama-8b-sft", "<img src=x onerror=globalThis.broken=1>"
WINDOWS = 24
STEP_NS = 500_000_000
LATE_RANK = 5


class SafeAgent(SimulatedAgent):
    """An agent whose own name is plain, whatever its job is called."""

    @property
    def name(self) -> str:
        return f"sim-{self.host}"


@contextmanager
def filled_collector(folder: Path) -> Iterator[Collector]:
    collector = Collector(parse_place(str(folder)), Config(watch=Watch(every_s=2)))
    try:
        fill(collector)
        yield collector
    finally:
        collector.close()


def fill(collector: Collector) -> None:
    now_ns = time.time_ns()
    half_ns = now_ns - WINDOWS * WINDOW_NS // 2
    slow = FleetFault("loader", LATE_RANK, half_ns, factor=1.5)
    llama = FleetJob(LLAMA, nodes=2, ranks_per_node=4, step_ns=STEP_NS, faults=(slow,))
    send(collector, llama, WINDOWS)
    send(collector, FleetJob("vit-pretrain", ranks_per_node=2, first_node=2), 6)
    assert collector.writer.flush(60)
    # The collector looks for itself; what it opens is what the page shows.
    deadline = time.monotonic() + 60
    while not any("Rank 5" in found.title for found in _found(collector)):
        assert time.monotonic() < deadline, f"the collector found {_found(collector)}"
        time.sleep(0.2)


def _found(collector: Collector) -> list[queries.FindingRow]:
    return queries.findings(Reader(collector.store), LLAMA)


def send_evil(collector: Collector) -> None:
    """A job whose name would do harm if anything took it for markup."""
    evil = FleetJob(EVIL_JOB, ranks_per_node=1, first_node=3, command=f"python {EVIL_JOB}")
    send(collector, evil, 3)
    assert collector.writer.flush(60)


def send(collector: Collector, job: FleetJob, windows: int, ago: int = 0) -> None:
    """The last windows, or those that ended so many windows ago."""
    last_ns = (time.time_ns() // WINDOW_NS - ago) * WINDOW_NS
    first_ns = last_ns - windows * WINDOW_NS
    for agent in agents_of(job, first_ns):
        safe = SafeAgent(agent.job, agent.node, agent.epoch)
        for begin_ns in range(first_ns, last_ns, WINDOW_NS):
            body = safe.batch(begin_ns, begin_ns + WINDOW_NS)
            batch = decode("default", body, Clock(), time.time_ns())
            collector.writer.submit(body, batch).result(30)


def one_more_window(collector: Collector, job: str) -> None:
    """News, as an agent that has just begun would send them."""
    epoch_ns = time.time_ns()
    now_ns = epoch_ns // WINDOW_NS * WINDOW_NS
    shape = replace(FleetJob(job, ranks_per_node=1, first_node=9), step_ns=STEP_NS)
    # By the end of its window alone, a second batch within the same ten seconds would be the first.
    agent = SafeAgent(shape, 0, epoch_ns)
    body = agent.batch(now_ns - WINDOW_NS, now_ns)
    collector.writer.submit(body, decode("default", body, Clock(), now_ns)).result(30)
