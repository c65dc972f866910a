"""A simulated fleet with an hour of history, for pictures: faults, a restart, checkpoints. It goes
on sending while it is looked at."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pilotlight.agent.bringing import pack
from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Config, Watch
from pilotlight.simulate.fault import parse_fault
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, SimulatedAgent, agents_of
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.store import queries
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place
from pilotlight.store.queries import Reader
from pilotlight.trace.kineto_writer import write_kineto

MAIN = "llama-8b-sft"
MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS


@contextmanager
def filled_collector(folder: Path) -> Iterator[Collector]:
    collector = Collector(parse_place(str(folder)), Config(watch=Watch(every_s=2)))
    over = threading.Event()
    threads: list[threading.Thread] = []
    try:
        begun_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
        agents = fill(collector, begun_ns)
        for target, more in ((_go_on, (begun_ns,)), (_bring, ())):
            args = (collector, agents, over, *more)
            threads.append(threading.Thread(target=target, args=args))
            threads[-1].start()
        # The last windows grew old meanwhile; the rule about silent nodes has to see new ones.
        _wait_until(lambda: not any("Nothing comes" in row.title for row in _open(collector)))
        yield collector
    finally:
        over.set()
        for thread in threads:
            thread.join(30)
        collector.close()


def fill(collector: Collector, now_ns: int) -> list[SimulatedAgent]:
    """Returns the agents that are still up."""
    up: list[SimulatedAgent] = []
    for number, (name, ranks, step_ms, mfu_ratio) in enumerate(OTHERS):
        started_ns = now_ns - HOUR_NS + number * 5 * MINUTE_NS
        job = FleetJob(
            name, ranks_per_node=ranks, step_ns=step_ms * 1_000_000, first_node=8 + number,
            seed=number, mfu_ratio=mfu_ratio, first_step_ns=started_ns, command=f"python {name}.py",
            faults=_faults(number, now_ns),
        )  # fmt: skip
        state = "finished" if name.startswith("eval") else "running"
        end_ns = now_ns - 9 * MINUTE_NS if state == "finished" else now_ns
        up += _send(collector, job, started_ns, end_ns, state)
    up += _send_main(collector, now_ns)
    assert collector.writer.flush(120)
    _wait_until(lambda: any("lower clock" in row.title for row in _open(collector)))
    return up


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "the collector does not find what it should"
        time.sleep(0.2)


OTHERS = (
    ("vit-pretrain", 4, 288, 0.38),
    ("t5-summarize", 4, 240, 0.0),
    ("dit-xl-2", 4, 610, 0.44),
    ("mixtral-8x7b", 8, 1350, 0.31),
    ("clip-b32", 2, 340, 0.0),
    ("whisper-ft", 4, 320, 0.0),
    ("eval-mmlu", 1, 450, 0.0),
    ("rlhf-actor", 8, 2100, 0.22),
)


def _faults(number: int, now_ns: int) -> tuple[FleetFault, ...]:
    long_ago = now_ns - 2 * HOUR_NS
    return {
        1: (FleetFault("loader", 2, long_ago, factor=1.35),),
        3: (FleetFault("slow_link", 5, now_ns - 25 * MINUTE_NS, factor=1.25),),
        7: (FleetFault("gc", 1, long_ago, factor=1.2),),
    }.get(number, ())


def _send_main(collector: Collector, now_ns: int) -> list[SimulatedAgent]:
    """A node is lost, the job starts again on a newer torch; later a GPU becomes too hot."""
    begin_ns = now_ns - 24 * MINUTE_NS
    again_ns = begin_ns + 8 * MINUTE_NS
    hot = FleetFault("throttle", 13, now_ns - 9 * MINUTE_NS, factor=1.3)
    saved = tuple(
        FleetFault("checkpoint", 0, at_ns, at_ns + 412_000_000, factor=6.0)
        for at_ns in range(begin_ns + 5 * MINUTE_NS, now_ns, 6 * MINUTE_NS)
    )
    compiled = FleetFault("compile", 0, begin_ns, begin_ns + 4 * 412_000_000, factor=12.0)
    anew = FleetFault("compile", 0, again_ns, again_ns + 4 * 412_000_000, factor=9.0)
    first = FleetJob(
        MAIN, nodes=4, ranks_per_node=8, step_ns=412_000_000, first_step_ns=begin_ns,
        faults=(*saved, compiled), mfu_ratio=0.47, command="torchrun train.py --model llama-8b",
    )  # fmt: skip
    _send(collector, first, begin_ns, again_ns - 20_000_000_000, "failed")
    second = replace(
        first, attempt=1, torch="2.13.1", faults=(*saved, anew, hot),
        command="torchrun train.py --model llama-8b --resume",
    )  # fmt: skip
    return _send(collector, second, again_ns, now_ns, "running")


def _send(
    collector: Collector, job: FleetJob, from_ns: int, to_ns: int, last: str
) -> list[SimulatedAgent]:
    """Window by window, all nodes of each: told one after the other, those that have not begun yet
    would be silent. The last window says how the job is then. Returns those that go on."""
    agents = agents_of(job, from_ns)
    for begin_ns in range(from_ns, to_ns, WINDOW_NS):
        state = last if begin_ns + WINDOW_NS >= to_ns else "running"
        for agent in agents:
            _submit(collector, agent, begin_ns, state)
    return agents if last == "running" else []


def _submit(collector: Collector, agent: SimulatedAgent, begin_ns: int, state: str) -> None:
    end_ns = begin_ns + WINDOW_NS
    body = agent.batch(begin_ns, end_ns, state)
    collector.writer.submit(body, decode("default", body, Clock(), end_ns)).result(30)


def _go_on(
    collector: Collector, agents: list[SimulatedAgent], over: threading.Event, next_ns: int
) -> None:
    """From where the history ends: what came due while it was written is made up for."""
    while not over.wait(max(0.0, (next_ns + WINDOW_NS - time.time_ns()) / 1e9)):
        for agent in agents:
            _submit(collector, agent, next_ns, "running")
        next_ns += WINDOW_NS


def _bring(collector: Collector, agents: list[SimulatedAgent], over: threading.Event) -> None:
    """Answers what captures ask for, with traces of a simulated job that has the same fault."""
    shape = JobShape(ranks=8, steps=4, layers=4)
    hot, waiting = (
        simulate(shape, [parse_fault(fault, shape)])
        for fault in ("throttle:rank=5,x=1.3", "storage:rank=2,x=1.4")
    )
    while not over.wait(1.0):
        for agent in agents:
            for request in collector.desk.pending("default", agent.name):
                capture = str(request["capture"])
                place, _ = collector.desk.place_for("default", capture, agent.name)
                traces = hot if agent.job.name == MAIN else waiting
                with tempfile.TemporaryDirectory() as folder:
                    for rank in request["ranks"]:  # type: ignore[attr-defined]
                        trace = replace(traces[rank % len(traces)], rank=rank)
                        write_kineto(trace, Path(folder) / f"rank{rank}.json.gz")
                    size = pack(Path(folder), place)
                facts = {"file": place.name, "steps": [], "offset_ns": 0, "uncertainty_ns": 0}
                collector.desk.delivered(capture, agent.name, size, facts)


def _open(collector: Collector) -> list[queries.FindingRow]:
    return queries.findings(Reader(collector.store), MAIN, "open")
