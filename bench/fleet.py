"""Fills a store with a simulated fleet, or plays its agents against a running collector.

    python bench/fleet.py --store FOLDER --days 30 --ranks 256     history, then an hour in detail
    python bench/fleet.py --collector http://127.0.0.1:7777 --ranks 64 --seconds 120 \
        --fault straggler:rank=5
"""

from __future__ import annotations

import argparse
import time
import urllib.request
from pathlib import Path

from pilotlight.ship.wire import MEDIA_TYPE, PARTS
from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, SimulatedAgent, agents_of
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place
from pilotlight.store.store import Store
from pilotlight.store.writer import Writer

RANKS_PER_NODE = 8
_SHARES = (0.83, 0.1, 0.01, 0.01, 0.001, 0.0, 0.002, 0.0, 0.03)
STEP_NS = 820_000_000
_HOUR_NS = 3_600_000_000_000
_DAY_NS = 24 * _HOUR_NS
_WINDOW_S = 300
_WINDOWS_A_DAY = 86_400 // _WINDOW_S
_PLACE = "concat('node', leftPad(toString(intDiv(n, 8)), 4, '0')), toInt32(n), "


def fill_history(store: Store, job: str, ranks: int, days: int) -> None:
    """Rolled-up rows of the past, made by the engine itself; nothing newer than an hour ago."""
    end_ns = time.time_ns() // _HOUR_NS * _HOUR_NS
    for day in range(days):
        first_ns = end_ns - (days - day) * 86_400 * 10**9
        _fill_day(store, "steps_5m", job, first_ns, ranks, "node, rank, ", _PLACE, 300)
        _fill_day(store, "job_steps_5m", job, first_ns, 1, "", "", 300 * ranks)
    begin_ns = end_ns - days * _DAY_NS
    _fill_totals(store, job, begin_ns, end_ns)
    _fill_blocks(store, job, begin_ns, ranks, days)
    _fill_hot(store, job, begin_ns, ranks, days)
    store.command(
        "INSERT INTO step_histogram_5m (tenant, job, attempt, time_ns, bucket, count) SELECT "
        f"'default', '{job}', 0, {end_ns - days * 86_400 * 10**9} + intDiv(number, 4) * "
        f"{_WINDOW_S * 10**9}, 220 + number % 4, {75 * ranks} "
        f"FROM numbers({days * _WINDOWS_A_DAY * 4})"
    )


def _fill_day(
    store: Store, table: str, job: str, first_ns: int, rows: int, into: str, place: str, count: int
) -> None:
    parts = ", ".join(f"toInt64(mean * {count} * {share})" for share in _SHARES)
    store.command(
        f"INSERT INTO {table} (tenant, job, attempt, {into}time_ns, count, total_ns, min_ns, "
        f"max_ns, {', '.join(PARTS)}) SELECT 'default', '{job}', 0, {place}"
        f"{first_ns} + w * {_WINDOW_S * 10**9}, {count}, mean * {count}, mean, "
        f"toInt64(mean * 1.2), {parts} FROM (SELECT number AS n, w, toInt64(8.2e8 * "
        "(1 + 2e-5 * (cityHash64(number, w) % 1000) + 0.05 * sin(w / 40.))) AS mean "
        f"FROM numbers({rows}) AS r, "
        f"(SELECT number AS w FROM numbers({_WINDOWS_A_DAY})) AS t)"
    )


def _fill_totals(store: Store, job: str, begin_ns: int, end_ns: int) -> None:
    """What the single steps of the past would have left."""
    sums = ", ".join(f"sum(s.{part})" for part in PARTS)
    store.command(
        "INSERT INTO job_totals (tenant, job, attempt, count, total_ns, min_ns, max_ns, "
        f"{', '.join(PARTS)}, first_step, last_step, first_ns, last_ns) "
        "SELECT tenant, job, attempt, sum(s.count), sum(s.total_ns), min(s.min_ns), "
        f"max(s.max_ns), {sums}, 0, {(end_ns - begin_ns) // STEP_NS}, {begin_ns}, {end_ns} "
        f"FROM job_steps_1d AS s WHERE job = '{job}' GROUP BY tenant, job, attempt"
    )


def _fill_blocks(store: Store, job: str, begin_ns: int, ranks: int, days: int) -> None:
    """Blocks of 1,024 steps, which the engine adds up to 4,096; finer ones of old steps are only
    looked at in parts."""
    blocks = days * _DAY_NS // STEP_NS // 1024
    store.command(
        "INSERT INTO steps_x1024 (tenant, job, attempt, rank, block, time_ns, count, waits, "
        f"wait_ns, max_ns) SELECT 'default', '{job}', 0, n % {ranks}, intDiv(n, {ranks}) AS b, "
        f"intDiv({begin_ns} + b * 1024 * {STEP_NS}, {_DAY_NS}) * {_DAY_NS}, 1024, 1024, "
        "1024 * (30000000 + cityHash64(n) % 30000000), 900000000 + cityHash64(n) % 90000000 "
        f"FROM (SELECT number AS n FROM numbers({ranks * blocks}))"
    )


def _fill_hot(store: Store, job: str, begin_ns: int, ranks: int, days: int) -> None:
    """Kernels of the job, collectives of each rank; counters of each GPU of the last three days."""
    windows = days * _WINDOWS_A_DAY
    width_ns = _WINDOW_S * 10**9
    store.command(
        "INSERT INTO windows_5m (tenant, job, attempt, time_ns, kind, state, name, count, "
        f"total_ns, min_ns, max_ns) SELECT 'default', '{job}', 0, "
        f"{begin_ns} + intDiv(number, 64) * {width_ns}, 5, 1, cityHash64(number % 64), 300000, "
        f"30000000000, 1000, 900000 FROM numbers({64 * windows})"
    )
    store.command(
        "INSERT INTO collectives_5m (tenant, job, attempt, rank, time_ns, operation, group, count, "
        f"total_ns, wait_ns, bytes, max_ns) SELECT 'default', '{job}', 0, number % {ranks}, "
        f"{begin_ns} + intDiv(number, {ranks}) * {width_ns}, 'all_reduce', 'dp', 3000, "
        f"30000000000, 9000000000, 1000000000, 90000000 FROM numbers({ranks * windows})"
    )
    recent = min(days, 3) * _WINDOWS_A_DAY
    first_ns = begin_ns + (windows - recent) * width_ns
    store.command(
        "INSERT INTO counters_5m (tenant, job, attempt, node, rank, gpu, time_ns, name, count, "
        f"sum, min, max) SELECT 'default', '{job}', 0, {_PLACE}n % 8, {first_ns} + w * {width_ns}, "
        "name, 30, 30 * (400 + n % 50), 300, 500 FROM "
        f"(SELECT number % {ranks} AS n, intDiv(number, {ranks}) AS w FROM "
        f"numbers({ranks * recent})) AS places, (SELECT arrayJoin(['gpu.power_w', "
        "'gpu.utilization_ratio', 'gpu.temperature_c', 'gpu.sm_clock_mhz']) AS name) AS counters"
    )


def fill_recent(store: Store, jobs: list[FleetJob], minutes: int) -> int:
    """The last minutes in full detail, through the writer as agents would send them."""
    writer = Writer(store)
    last_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    windows = minutes * 6
    count = 0
    for job in jobs:
        for agent in agents_of(job, last_ns):
            for number in range(windows):
                begin_ns = last_ns - (windows - number) * WINDOW_NS
                body = agent.batch(begin_ns, begin_ns + WINDOW_NS)
                writer.submit(body, decode("default", body, Clock(), time.time_ns()))
                count += 1
                while writer.waiting_batches > 2000:
                    time.sleep(0.05)
    writer.close(120)
    return count


def send(url: str, body: bytes, token: str = "") -> int:
    headers = {"content-type": MEDIA_TYPE}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{url}/v1/batches", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.status)


def play(url: str, job: FleetJob, seconds: float, token: str = "") -> int:
    """Sends each window when it has ended, for all nodes of a job."""
    agents: list[SimulatedAgent] = agents_of(job, time.time_ns())
    end = time.monotonic() + seconds
    count = 0
    next_ns = (time.time_ns() // WINDOW_NS + 1) * WINDOW_NS
    while time.monotonic() < end:
        time.sleep(max(0.0, (next_ns - time.time_ns()) / 1e9))
        for agent in agents:
            send(url, agent.batch(next_ns - WINDOW_NS, next_ns), token)
            count += 1
        next_ns += WINDOW_NS
    return count


def parse_fault(text: str, after_s: float) -> FleetFault:
    """`straggler:rank=5,x=1.4`."""
    kind, _, rest = text.partition(":")
    values = dict(pair.split("=") for pair in rest.split(",") if pair)
    begin_ns = time.time_ns() + int(after_s * 1e9)
    return FleetFault(
        kind, int(values.get("rank", 0)), begin_ns, factor=float(values.get("x", 1.5))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--collector", metavar="URL")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--job", default="llama-70b")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--days", type=int, default=0)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--after", type=float, default=0, help="seconds until the faults begin")
    args = parser.parse_args()
    nodes = max(1, args.ranks // RANKS_PER_NODE)
    faults = [parse_fault(text, args.after) for text in args.fault]
    job = FleetJob(args.job, nodes, min(args.ranks, RANKS_PER_NODE), faults=faults)
    if args.collector:
        token = args.token_file.read_text().strip() if args.token_file else ""
        print(f"{play(args.collector, job, args.seconds, token)} batches sent")
        return
    with Store(parse_place(str(args.store) if args.store else None)) as store:
        if args.days:
            fill_history(store, args.job, args.ranks, args.days)
        small = FleetJob("resnet-sweep", 1, 4, step_ns=400_000_000, first_node=nodes, seed=3)
        print(f"{fill_recent(store, [job, small], args.minutes)} batches in {store.place}")


if __name__ == "__main__":
    main()
