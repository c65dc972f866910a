"""The page in headless Chromium: weight, first paint, frames under a moving hand, answers.

The trace has 2 M spans (a simulated step, repeated), the flame graph 200 k nodes, the map 1,024
ranks and 10,000 steps, the fleet 1,000 jobs; from an opened trace or the embedded store.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from bars import Bar, at_most, report

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "src" / "pilotlight" / "web" / "page"
SPANS, NODES = 2_000_000, 200_000
RANKS, STEPS, JOBS = 1024, 10_000, 1000
LIVE_NODES, LIVE_MINUTES = 125, 3
TURNS = 8
STEP_NS = 500_000_000
KB = 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parts = {"timeline": _timeline, "flame": _flame, "fleet": _fleet}
    parser.add_argument("part", nargs="*", help=f"some of {', '.join(parts)}; all if none is named")
    parser.add_argument("--small", action="store_true", help="a tenth of everything, to try it")
    args = parser.parse_args()
    unknown = sorted(set(args.part) - parts.keys())
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {', '.join(parts)}")
    fraction = 10 if args.small else 1
    weight = sum(len(gzip.compress(f.read_bytes(), 9)) for f in PAGE.rglob("*.*"))
    bars = [at_most("first load, all script and style, gzipped (kB)", weight / KB, 150)]
    browser = _browser()
    for name, part in parts.items():
        if name in (args.part or parts):
            bars += part(browser, fraction)
    return report("web", bars, as_json=args.json)


def _browser() -> bool:
    needed = shutil.which("node"), shutil.which("chromium")
    return all(needed) and (ROOT / "ui" / "node_modules" / "playwright-core").is_dir()


def _timeline(browser: bool, fraction: int) -> list[Bar]:
    from pilotlight.simulate.job import JobShape
    from pilotlight.simulate.run import simulate

    (trace,) = simulate(JobShape(ranks=1, steps=40, layers=24))
    found = _measured(browser, repeated(trace, SPANS // fraction), "timeline")
    return [
        at_most("timeline of 2 M events: first paint (s)", _of(found, "paint_s"), 1.5),
        at_most("timeline of 2 M events: frame, p95 (ms)", _of(found, "frame_ms"), 50),
    ]


def repeated(trace, spans):  # type: ignore[no-untyped-def]
    """The trace one after the other until it has so many spans."""
    from pilotlight.trace.trace import Spans, no_steps

    old = trace.spans
    times = -(-spans // len(old))
    length = int(old.end_ns.max() - old.start_ns.min()) + 1000
    shift = np.repeat(np.arange(times, dtype=np.int64) * length, len(old))[:spans]
    numbered = np.repeat(np.arange(times, dtype=np.int64) * (1 << 32), len(old))[:spans]

    def tiled(column):  # type: ignore[no-untyped-def]
        return np.tile(column, times)[:spans]

    correlation = tiled(old.correlation)
    made = Spans(
        tiled(old.start_ns) + shift,
        tiled(old.duration_ns),
        tiled(old.kind),
        tiled(old.name),
        tiled(old.lane),
        np.where(correlation > 0, correlation + numbered, correlation),
        tiled(old.bytes),
    )
    return replace(trace, spans=made, steps=no_steps())


def _flame(browser: bool, fraction: int) -> list[Bar]:
    from pilotlight.trace.trace import NONE, Kind, Lane, Spans, Trace, no_counters, no_steps

    nodes = NODES // fraction
    # A tree of calls: each span holds eight shorter ones, all of different names.
    levels, wide = [1], 1
    while sum(levels) < nodes:
        wide = min(wide * 8, nodes - sum(levels))
        levels.append(wide)
    whole = 1 << 40
    start = np.concatenate([np.arange(n) * (whole // n) for n in levels])
    length = np.concatenate([np.full(n, whole // n - 2 * d) for d, n in enumerate(levels)])
    count = start.size
    none = np.full(count, NONE, np.int64)
    spans = Spans(
        start.astype(np.int64),
        length.astype(np.int64),
        np.full(count, Kind.OPERATOR, np.uint8),
        np.arange(count, dtype=np.uint32),
        np.zeros(count, np.uint32),
        none,
        none,
    )
    names = tuple(f"module_{n % 977}.function_{n}" for n in range(count))
    lanes = (Lane("1", "1", "main"),)
    trace = Trace("made", "kineto", 0, 1, (), names, lanes, spans, no_counters(), no_steps())
    found = _measured(browser, trace, "flame")
    return [at_most("flame graph of 200 k nodes: frame, p95 (ms)", _of(found, "frame_ms"), 50)]


def _measured(browser: bool, trace: object, view: str) -> dict[str, float] | None:
    from pilotlight.analysis import Analysis
    from pilotlight.insights.job import job_of
    from pilotlight.insights.verdicts import Diagnosis
    from pilotlight.web.library import Library
    from pilotlight.web.opened import OpenTrace
    from pilotlight.web.viewer import viewer_app

    if not browser:
        return None
    opened = OpenTrace("0", view, Analysis(job_of([trace]), Diagnosis((), ()), ()))  # type: ignore[list-item]
    assert opened.answer.ranks
    library = Library()
    library.keep(opened)
    with served(viewer_app(library)) as address:
        return in_browser(view, address)


def _fleet(browser: bool, fraction: int) -> list[Bar]:
    what = {
        "heat": "map of 1,024 ranks x 10,000 steps: frame, p95 (ms)",
        "fleet": "fleet of 1,000 jobs: interactive (s)",
        "api": "API for a page on the embedded store, p95 (ms)",
        "cold": "the same with every answer computed anew, p95 (ms)",
    }
    try:
        import chdb  # noqa: F401
    except ImportError:
        return [at_most(text, None, 50) for text in what.values()]
    from pilotlight.collector.app import make_app
    from pilotlight.collector.collector import Collector
    from pilotlight.store.place import parse_place

    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder:
        collector = Collector(parse_place(f"{folder}/store"))
        try:
            ranks, steps, jobs = RANKS // fraction, STEPS // fraction, JOBS // fraction
            fill(collector.store, ranks, steps, jobs)
            with served(make_app(collector)) as address:
                cold, kept = api_times(address, steps)
                heat = in_browser("heat", address) if browser else None
                fleet = in_browser("fleet", address) if browser else None
        finally:
            collector.close()
    return [
        at_most(what["heat"], _of(heat, "frame_ms"), 50),
        at_most(what["fleet"], _of(fleet, "paint_s"), 1),
        at_most(what["api"], float(np.percentile(kept, 95)) * 1000, 100),
        at_most(what["cold"], float(np.percentile(cold, 95)) * 1000, 100),
    ]


def fill(store, ranks: int, steps: int, jobs: int) -> None:  # type: ignore[no-untyped-def]
    """Straight into the tables: the way there is measured by bench/cluster.py."""
    import pyarrow as pa
    from fleet import fill_recent

    from pilotlight.simulate.fleet import FleetJob

    now_ns = time.time_ns()
    begin_ns = now_ns - steps * STEP_NS
    print(f"filling a store: {ranks} ranks x {steps} steps, {jobs} jobs", file=sys.stderr)
    for first in range(0, ranks, 64):
        numbers = np.arange(first, min(first + 64, ranks))
        store.insert("steps", steps_table("big", numbers, steps, begin_ns, STEP_NS), f"b{first}")
    store.insert_rows("jobs", [_job("big", begin_ns, now_ns)])
    store.insert_rows("ranks", [_rank("big", r, begin_ns, now_ns, steps) for r in range(ranks)])
    day_ns = 86_400_000_000_000
    names = [f"job-{number:04d}" for number in range(jobs)]
    tables = [
        steps_table(name, np.arange(1), 288, now_ns - day_ns, 300_000_000_000) for name in names
    ]
    store.insert("steps", pa.concat_tables(tables), "jobs")
    store.insert_rows("jobs", [_job(name, now_ns - day_ns, now_ns) for name in names])
    store.insert_rows("ranks", [_rank(name, 0, now_ns - day_ns, now_ns, 288) for name in names])
    # One as agents send it: windows, stacks, counters of its GPUs, what collecting costs.
    fill_recent(store, [FleetJob("live", max(1, LIVE_NODES * ranks // RANKS), 8)], LIVE_MINUTES)


def steps_table(job: str, numbers, steps: int, begin_ns: int, every_ns: int):  # type: ignore[no-untyped-def]
    import pyarrow as pa

    from pilotlight.store.schema import PARTS, TABLES

    random = np.random.default_rng(len(job))
    rows = numbers.size * steps
    rank = np.repeat(numbers, steps)
    step = np.tile(np.arange(steps), numbers.size)
    late = (rank == 37) & (step > steps // 2)
    compute = (0.8 * every_ns * (1 + 0.02 * random.random(rows)) * (1 + 0.2 * late)).astype(
        np.int64
    )
    wait = np.where(late, 0, 0.15 * every_ns).astype(np.int64)
    zero = np.zeros(rows, np.int64)
    values = dict.fromkeys(TABLES["steps"].column_names, zero)
    values |= {"rank": rank, "step": step, "start_ns": begin_ns + step * every_ns}
    values |= {"duration_ns": compute + wait, "compute_ns": compute, "wait_ns": wait}
    values |= {"communication_ns": wait, "known": np.full(rows, (1 << len(PARTS)) - 1 | 1 << 15)}
    kinds = {"rank": pa.int32(), "attempt": pa.int32(), "known": pa.uint16()}
    columns = {
        name: pa.array(values[name], kinds.get(name, pa.int64()))
        for name in TABLES["steps"].column_names
        if name not in ("tenant", "job", "node")
    }
    for name, text in (("tenant", "default"), ("job", job), ("node", "node0")):
        columns[name] = pa.array([text] * rows)
    return pa.table({name: columns[name] for name in TABLES["steps"].column_names})


def _job(name: str, begin_ns: int, now_ns: int) -> dict[str, object]:
    return {
        "tenant": "default", "job": name, "attempt": 0, "cluster": "bench", "node": "node0",
        "started_ns": begin_ns, "updated_ns": now_ns, "ended_ns": 0, "state": "running",
        "exit_code": 0, "signal": 0, "launcher": "torchrun", "world_size": 1,
        "command": "python train.py", "facts": "{}",
    }  # fmt: skip


def _rank(job: str, rank: int, begin_ns: int, now_ns: int, step: int) -> dict[str, object]:
    return {
        "tenant": "default", "job": job, "attempt": 0, "node": f"node{rank // 8}", "rank": rank,
        "process": 0, "role": "rank", "pid": 1, "gpu": rank % 8, "gpu_name": "H100",
        "python": "3.11", "started_ns": begin_ns, "updated_ns": now_ns, "ended_ns": 0, "how": "",
        "step": step, "records_read": 0, "records_dropped": 0, "cpu_ns": 0,
    }  # fmt: skip


def api_times(address: str, steps: int) -> tuple[list[float], list[float]]:  # type: ignore[no-untyped-def]
    """Seconds of each answer that a page waits for: all computed anew, and as pages ask."""
    import httpx2 as httpx

    part = f"first={steps // 2}&last={steps // 2 + 300}&columns=300"
    paths = [
        "api/fleet?since=24h", "api/job?job=big", "v1/series?job=big&points=800&since=2h",
        "v1/breakdown?job=big&points=400&since=2h", "v1/findings?job=big", "v1/captures",
        "v1/agents", "v1/costs", "v1/doctor", "api/job?job=job-0007", "api/job?job=live",
        "v1/kernels?job=live", "v1/collectives?job=live", "v1/phases?job=live&points=400",
        "v1/stacks?job=live&limit=5000", "v1/device-stacks?job=live&limit=5000",
        "v1/stacks?job=live&limit=5000&rank=17", "api/roofline?job=live",
        "v1/counter-names?job=live", "v1/counters?name=gpu.power_w&job=live&limit=64",
        "api/compare?before=big&after=live",
        f"api/heat?job=big&value=lateness&{part}",
        f"api/heat?job=big&value=lateness&first=0&last={steps}&columns=480",
    ]  # fmt: skip
    times: tuple[list[float], list[float]] = ([], [])
    slowest: dict[str, list[float]] = {}
    with httpx.Client(base_url=address, timeout=60) as client:
        for path in paths:
            print(
                f"{path}: {len(client.get(path).raise_for_status().content)} bytes", file=sys.stderr
            )
        for turn in range(TURNS):
            for path in paths:
                anew = f"{path}{'&' if '?' in path else '?'}turn={turn}"
                for seconds, asked in zip(times, (anew, path), strict=True):
                    begin = time.perf_counter()
                    client.get(asked).raise_for_status()
                    seconds.append(time.perf_counter() - begin)
                slowest.setdefault(path, []).append(times[0][-1])
    for path, taken in slowest.items():
        middle, most = 1e3 * float(np.median(taken)), 1e3 * max(taken)
        print(f"{path}: {middle:.0f} ms, at most {most:.0f}", file=sys.stderr)
    return times


@contextmanager
def served(app: object) -> Iterator[str]:
    import uvicorn

    from pilotlight.web.viewer import bound_socket

    bound = bound_socket(0)
    config = uvicorn.Config(app, log_level="error", access_log=False)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)


def in_browser(view: str, address: str) -> dict[str, float]:
    done = subprocess.run(
        ["node", str(ROOT / "ui" / "test" / "measure.mjs"), view, address],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PILOTLIGHT_CHROMIUM": str(shutil.which("chromium"))},
    )
    if done.returncode:
        raise SystemExit(f"{view}: {done.stderr}")
    print(f"{view}: {done.stdout.strip()}", file=sys.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _of(found: dict[str, float] | None, name: str) -> float | None:
    return None if found is None else found[name]


if __name__ == "__main__":
    sys.exit(main())
