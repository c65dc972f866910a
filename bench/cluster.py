"""The collector: what a thousand ranks cost, how fast pages are, how soon a fault is found."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from bars import Bar, at_least, at_most, report
from fleet import STEP_NS, fill_history, fill_recent

from pilotlight.ship.wire import CLOCK_HEADER, MEDIA_TYPE
from pilotlight.simulate.fleet import (
    BATCH_NS,
    SETTLE_NS,
    WINDOW_NS,
    FleetFault,
    FleetJob,
    SimulatedAgent,
    agents_of,
)
from pilotlight.store import queries
from pilotlight.store.place import parse_place
from pilotlight.store.queries import Reader, Span
from pilotlight.store.spool import Entry, Segment
from pilotlight.store.store import Store
from pilotlight.store.writer import Writer

SECONDS = 60
RANKS_A_NODE = 8
LIVE_RANKS = 1000
STEPS_A_WINDOW = 10
DAY_NS = 86_400 * 10**9
SENDERS = 8
MERGES_S = 60
LAST_STEP = 30 * DAY_NS // STEP_NS


class Serving:
    """A collector as its users start it."""

    def __init__(self, store: Path, *arguments: str) -> None:
        words = [sys.executable, "-m", "pilotlight", "serve", "--json", "--port", "0"]
        self.process = subprocess.Popen(
            [*words, "--store", str(store), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PILOTLIGHT": "0"},
        )
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["url"].rsplit(":", 1)[1])

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
        return float(line.split()[1])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[Serving, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        running = Serving(store, *arguments)
        try:
            yield running, store
        finally:
            running.stop()


def post_all(port: int, bodies: Sequence[bytes], over_s: float) -> tuple[int, int]:
    """Sends bodies evenly over some seconds; how many were taken and how many turned away."""
    taken, refused = [0] * SENDERS, [0] * SENDERS
    begin = time.monotonic()

    def send(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        mine = range(number, len(bodies), SENDERS)
        for index in mine:
            due = begin + over_s * index / len(bodies)
            time.sleep(max(0.0, due - time.monotonic()))
            while True:
                connection.request(
                    "POST", "/v1/batches", bodies[index], {"content-type": MEDIA_TYPE}
                )
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    taken[number] += 1
                    break
                refused[number] += 1
                time.sleep(1)
        connection.close()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(taken), sum(refused)


def batches_of(
    agents: Sequence[SimulatedAgent], first_ns: int, count: int, every_ns: int = WINDOW_NS
) -> list[list[bytes]]:
    return [
        [agent.batch(first_ns + n * every_ns, first_ns + (n + 1) * every_ns) for agent in agents]
        for n in range(count)
    ]


def live() -> list[Bar]:
    """A thousand ranks for a minute, then ten thousand for one window."""
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - SECONDS * 10**9
    job = FleetJob("live", LIVE_RANKS // RANKS_A_NODE, RANKS_A_NODE)
    count = SECONDS * 10**9 // BATCH_NS
    sent = batches_of(agents_of(job, first_ns), first_ns, count, BATCH_NS)
    big = FleetJob("big", 10 * LIVE_RANKS // RANKS_A_NODE, RANKS_A_NODE, first_node=2000)
    burst = batches_of(agents_of(big, first_ns), first_ns, 1)[0]
    with serving() as (collector, store):
        post_all(collector.port, [sent[0][0]], 0)
        before_s = collector.cpu_s()
        for bodies in sent:
            post_all(collector.port, bodies, BATCH_NS / 1e9)
        cpu_ratio = (collector.cpu_s() - before_s) / SECONDS
        resident_mb = collector.resident_bytes() / (1 << 20)
        taken, refused = post_all(collector.port, burst, WINDOW_NS / 1e9)
        begin = time.monotonic()
        while collector.metric("pilotlight_collector_spool_waiting_batches") and (
            time.monotonic() - begin < 120
        ):
            time.sleep(0.2)
        found = collector.get("/v1/job?job=big")["data"]["row"]
        lost = 10 * LIVE_RANKS * STEPS_A_WINDOW - found["ranks"] * found["steps"]
        print(
            f"10,000 ranks: {taken} batches, {refused} asked to wait, memory {resident_mb:.0f} MB"
        )
        collector.stop()
        with Store(parse_place(str(store))) as opened:
            ((disk,),) = opened.select(
                "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'default'"
            )
            ((rows,),) = opened.select("SELECT count() FROM steps")
    wire = sum(len(body) for bodies in sent for body in bodies) / (LIVE_RANKS * SECONDS)
    return [
        at_most("1,000 ranks: part of a core", cpu_ratio, 0.5),
        at_most("10,000 ranks in one window: rank steps lost", lost, 0),
        at_most("bytes on the wire a rank and step", wire, 2048),
        at_most("bytes on disk a rank and step", int(disk) / int(rows), 1024),
    ]


def pages() -> list[Bar]:
    """The questions of the pages over 30 days of a thousand ranks."""
    with tempfile.TemporaryDirectory() as folder, Store(parse_place(folder)) as store:
        fill_history(store, "llama", LIVE_RANKS, 30)
        fill_recent(store, [FleetJob("llama", LIVE_RANKS // RANKS_A_NODE, RANKS_A_NODE)], 2)
        _settle(store)
        times = sorted(_page_times(store))
    p95 = quantiles(times, n=20)[-1]
    print(f"page queries: median {1e3 * times[len(times) // 2]:.1f} ms of {len(times)}")
    return [at_most("page queries over 30 days: p95 in ms of CPU", 1e3 * p95, 100)]


def _settle(store: Store) -> None:
    """A month that came in a minute is merged for a while, in the CPU time of this process."""
    until = time.monotonic() + MERGES_S
    while time.monotonic() < until and store.select("SELECT 1 FROM system.merges LIMIT 1"):
        time.sleep(1)


def _page_times(store: Store) -> Iterator[float]:
    now_ns = time.time_ns()
    month, day = Span(now_ns - 30 * DAY_NS, now_ns), Span(now_ns - DAY_NS, now_ns)
    asked: list[Callable[[Reader], object]] = [
        lambda reader: queries.jobs(reader, month),
        lambda reader: queries.job(reader, "llama"),
        lambda reader: queries.step_series(reader, "llama", month),
        lambda reader: queries.step_series(reader, "llama", day),
        lambda reader: queries.step_series(reader, "llama", month, rank=17),
        lambda reader: queries.breakdown(reader, "llama", month),
        lambda reader: queries.breakdown(reader, "llama", day),
        lambda reader: queries.ranks(reader, "llama", month),
        lambda reader: queries.step_heatmap(reader, "llama", day, points=60, ranks=range(256)),
        lambda reader: queries.kernels(reader, "llama", day),
        lambda reader: queries.collectives(reader, "llama", day),
        lambda reader: queries.findings(reader, "llama"),
        lambda reader: queries.nodes(reader, day),
        lambda reader: queries.trends(reader, month, 24),
        lambda reader: queries.step_map(reader, "llama", 0, "wait", 0, LAST_STEP, 480),
        lambda reader: queries.gpus_now(reader, now_ns),
        lambda reader: queries.counters(reader, "gpu.power_w", day, job="llama", limit=64),
    ]
    for round_number in range(6):
        for ask in asked:
            reader = Reader(store)
            begin = time.process_time()
            ask(reader)
            if round_number:
                yield time.process_time() - begin


KINDS = ("straggler", "throttle", "hang")
# The rule calls it a hang after 30 s without a step; before that there is nothing to find.
PATIENCE_S = {"straggler": 0.0, "throttle": 0.0, "hang": 30.0}
FOUND_AS = {
    "straggler": ("straggler", "slow_gpu"),
    "throttle": ("throttle",),
    "hang": ("hang",),
}
REPEATS = 5
SLOW_RANK = 5
STEP_NS_OF_FAULTS = 500_000_000
HISTORY_NS = 100 * 10**9
APART_S = 12.0
TICK_S = 1.0
CLOCKS_OFF_S = 3600.0


def faults(seed: int) -> list[Bar]:
    """Jobs of 16 ranks on two nodes with steps of half a second, by a collector as it comes; a rank
    of each goes wrong at some moment. Their agents send at moments of their own and have clocks of
    their own."""
    chance = random.Random(seed)
    with serving() as (collector, _):
        now_ns = time.time_ns()
        sick = [
            _Sick(collector, chance, kind, number, now_ns + int((12 + APART_S * number) * 1e9))
            for number in range(REPEATS)
            for kind in KINDS
        ]
        threads = [threading.Thread(target=agent.run) for one in sick for agent in one.agents]
        for thread in threads:
            thread.start()
        last_ns = max(one.begin_ns for one in sick)
        while time.time_ns() < last_ns + 75 * 10**9 and not all(one.stored_s for one in sick):
            found = collector.get("/v1/findings?state=open")["data"]
            for one in sick:
                one.look(found)
            time.sleep(0.25)
        for one in sick:
            one.over.set()
        for thread in threads:
            thread.join()
    bars = []
    for kind in KINDS:
        mine = [one for one in sick if one.kind == kind]
        found_s = [(one.found_s or 999.0) - PATIENCE_S[kind] for one in mine]
        stored_s = [(one.stored_s or 999.0) - PATIENCE_S[kind] for one in mine]
        print(f"{kind}: found after {_listed(found_s)} s, stored after {_listed(stored_s)} s")
        worst = f"worst of {len(mine)}"
        bars.append(at_most(f"{kind}: s until it is found, {worst}", max(found_s), 20))
        bars.append(at_most(f"{kind}: s until its capture is stored, {worst}", max(stored_s), 30))
    return bars


def _listed(times_s: Sequence[float]) -> str:
    return ", ".join(f"{time_s:.1f}" for time_s in sorted(times_s))


class _Sick:
    """One job, and when what is wrong with it was found and captured."""

    def __init__(
        self, collector: Serving, chance: random.Random, kind: str, number: int, due_ns: int
    ) -> None:
        self.kind = kind
        self.name = f"{kind}-{number}"
        self.begin_ns = due_ns + int(APART_S * 1e9 * chance.random())
        self.over = threading.Event()
        self.found_s = self.stored_s = 0.0
        fault = FleetFault(kind, SLOW_RANK, self.begin_ns, factor=1.3)
        first_node = 100 * (KINDS.index(kind) + 1) + 10 * number
        job = FleetJob(self.name, 2, 8, STEP_NS_OF_FAULTS, first_node, faults=[fault])
        self.agents = [
            _Agent(collector, agent, chance, self.over) for agent in agents_of(job, due_ns)
        ]

    def look(self, findings: Sequence[dict[str, Any]]) -> None:
        now_s = (time.time_ns() - self.begin_ns) / 1e9
        for one in findings:
            is_it = one["job"] == self.name and one["cause"] in FOUND_AS[self.kind]
            if is_it and one["ranks"] == [SLOW_RANK]:
                self.found_s = self.found_s or now_s
                if one["capture"]:
                    self.stored_s = self.stored_s or now_s


class _Agent:
    """Sends as a real one does: by its own clock, at moments that no other has; looks once a second
    what is due and what is wanted of it."""

    def __init__(
        self,
        collector: Serving,
        agent: SimulatedAgent,
        chance: random.Random,
        over: threading.Event,
    ) -> None:
        self._collector = collector
        self._over = over
        self._agent = agent
        self._phase_s = TICK_S * chance.random()
        self._due_ns = time.time_ns() + int(BATCH_NS * chance.random())
        agent.settle_ns = SETTLE_NS
        agent.clock_ns = int(1e9 * chance.uniform(-CLOCKS_OFF_S, CLOCKS_OFF_S))

    def run(self) -> None:
        told_ns = time.time_ns() - HISTORY_NS
        self._over.wait(self._phase_s)
        while not self._over.wait(TICK_S):
            now_ns = time.time_ns()
            if now_ns >= self._due_ns:
                self._send(told_ns, now_ns)
                told_ns = now_ns
                self._due_ns += BATCH_NS
            self._answer()

    def _send(self, from_ns: int, to_ns: int) -> None:
        headers = {"content-type": MEDIA_TYPE, CLOCK_HEADER: f"{-self._agent.clock_ns};1000000"}
        self._ask("POST", "/v1/batches", self._agent.batch(from_ns, to_ns), headers)

    def _answer(self) -> None:
        """A slice of a few hundred kilobytes."""
        name = self._agent.name
        wanted = json.loads(self._ask("GET", f"/v1/requests?agent={name}&wait=0"))
        for request in wanted["requests"]:
            path = f"/v1/detail?capture={request['capture']}&agent={name}"
            self._ask("PUT", path, os.urandom(300_000))

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._collector.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            return connection.getresponse().read()
        finally:
            connection.close()


def replay() -> list[Bar]:
    """What a killed collector left in its spool, in ranks and windows a second of CPU time."""
    windows = 6
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - windows * WINDOW_NS
    job = FleetJob("replay", LIVE_RANKS // RANKS_A_NODE, RANKS_A_NODE)
    with tempfile.TemporaryDirectory() as folder:
        place = parse_place(folder)
        place.spool.mkdir(parents=True)
        for bodies in batches_of(agents_of(job, first_ns), first_ns, windows):
            segment = Segment(place.spool)
            segment.append([Entry("default", time.time_ns(), 0, 0, body) for body in bodies])
            segment.close()
        with Store(place) as store:
            begin = time.process_time()
            writer = Writer(store)
            writer.flush(300)
            elapsed_s = time.process_time() - begin
            writer.close()
    live_rate = LIVE_RANKS / (WINDOW_NS / 1e9)
    return [
        at_least(
            "spool replay, times the live rate", windows * LIVE_RANKS / elapsed_s / live_rate, 10
        )
    ]


def main() -> int:
    parts: dict[str, Callable[[], list[Bar]]] = {
        "live": live,
        "pages": pages,
        "faults": lambda: faults(args.seed),
        "replay": replay,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", help=f"some of {', '.join(parts)}; all if none is named")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9, help="of the faults")
    args = parser.parse_args()
    unknown = sorted(set(args.part) - parts.keys())
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {', '.join(parts)}")
    bars = [bar for name, part in parts.items() if name in (args.part or parts) for bar in part()]
    return report("cluster", bars, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
