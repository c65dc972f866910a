"""Loads and breaks down traces, side by side with HolisticTraceAnalysis.

    python bench/analyze.py [--hta PYTHON] [--data FOLDER] [--big-mb 1000] [--ranks 64] [--json]

Both run in fresh processes, in turn, `--repeat` times; the best time of each counts. `--hta` is a
Python that has HolisticTraceAnalysis 0.5 installed; without it the ratios are null.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ("diff_control_a100", "diff_test_v100", "resnet50_workers0", "resnet50_workers4")

OURS = """
import json, resource, sys, time
begin = time.perf_counter()
from pathlib import Path
from pilotlight.insights.breakdown import breakdown, kernel_times, timeline
from pilotlight.trace.reader import read_traces
ready = time.perf_counter()
rows = {}
traces = read_traces([Path(sys.argv[1])]).traces
for trace in traces:
    line = timeline(trace)
    row = breakdown(trace, line)
    kernel_times(trace)
    rows[trace.rank] = [row.idle_ns / 1e3, row.compute_ns / 1e3, row.window_ns / 1e3,
                        None if row.overlap_ratio is None else 100 * row.overlap_ratio]
print(json.dumps({"seconds": time.perf_counter() - ready, "rows": rows,
                  "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

HTA = """
import json, logging, math, resource, sys, time, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from pathlib import Path
from hta.trace_analysis import TraceAnalysis
folder = Path(sys.argv[1])
files = sorted(folder.iterdir())
chosen = {} if len(files) > 1 else {"trace_files": {0: str(files[0])}}
ready = time.perf_counter()
analysis = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True, **chosen)
table = analysis.get_temporal_breakdown(visualize=False)
overlap = analysis.get_comm_comp_overlap(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
seconds = time.perf_counter() - ready
rows = {int(r["rank"]): [r["idle_time(us)"], r["compute_time(us)"], r["kernel_time(us)"]]
        for r in table.to_dict("records")}
for r in overlap.to_dict("records"):
    value = r["comp_comm_overlap_pctg"]
    rows[int(r["rank"])].append(None if math.isnan(value) else value)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"seconds": seconds, "rows": rows, "rss_mb": max(peak, children) / 1024}))
"""


def run(python: str, program: str, path: Path) -> dict[str, object]:
    result = subprocess.run(
        [python, "-c", program, str(path)],
        capture_output=True,
        text=True,
    )
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(f"{path.name}: {last}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def best(python: str, program: str, path: Path, repeat: int) -> dict[str, object]:
    return min((run(python, program, path) for _ in range(repeat)), key=lambda r: r["seconds"])


def folders(data: Path, scratch: Path) -> dict[str, Path]:
    """A folder a trace set: HTA reads folders only."""
    found = {}
    for name in NAMES:
        folder = scratch / name
        folder.mkdir()
        (folder / f"{name}.json.gz").symlink_to(data / "kineto" / f"{name}.json.gz")
        found[name] = folder
    folder = scratch / "dlrm"
    folder.mkdir()
    with tarfile.open(data / "kineto" / "dlrm_v100_8ranks.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                (folder / Path(member.name).name).write_bytes(content.read())
    found["dlrm (8 ranks)"] = folder
    return found


SIMULATION = """
import sys
from pathlib import Path
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.trace.kineto_writer import write_kineto
folder = Path(sys.argv[1])
folder.mkdir()
for trace in simulate(JobShape(ranks=int(sys.argv[2]), steps=10, layers=24)):
    write_kineto(trace, folder / f"rank{trace.rank}.json.gz")
"""


def simulated_ranks(folder: Path, ranks: int) -> None:
    """In a process of its own: the peak memory of this one is inherited by those measured."""
    subprocess.run([sys.executable, "-c", SIMULATION, str(folder), str(ranks)], check=True)


def big_trace(data: Path, path: Path, megabytes: int) -> None:
    """A real trace's events over and over, later each time."""
    with gzip.open(data / "kineto" / "diff_control_a100.json.gz") as file:
        text = file.read()
    start, end = text.index(b'"traceEvents": [') + 16, text.rindex(b"]")
    events = text[start:end]
    with path.open("wb") as out:
        out.write(text[:start])
        for count in range(max(1, megabytes * 10**6 // len(events))):
            out.write(b"," * bool(count) + events)
        out.write(text[end:])


def worst_difference(ours: dict[str, object], theirs: dict[str, object]) -> float:
    worst = 0.0
    for own, other in zip(ours["rows"].values(), theirs["rows"].values(), strict=True):
        for a, b in zip(own[:3], other[:3], strict=True):
            worst = max(worst, abs(a - b) / max(abs(b), 1.0))
        if own[3] is not None and other[3] is not None:
            worst = max(worst, abs(own[3] - other[3]) / 100)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hta", metavar="PYTHON", help="a Python with HolisticTraceAnalysis")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--big-mb", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=64, help="of the simulated set; 0: none")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    bars = []

    def bar(what: str, value: float | None, limit: float, holds: bool | None) -> None:
        bars.append({"what": what, "value": value, "bar": limit, "holds": holds})
        shown = "-" if value is None else f"{value:.4g}"
        print(f"{what:<62} {shown:>10}   bar {limit:g}   {holds}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        sets = folders(args.data, scratch) if args.data.is_dir() else {}
        if args.ranks:
            title = f"simulated ({args.ranks} ranks)"
            sets[title] = scratch / "simulated"
            simulated_ranks(sets[title], args.ranks)
        for title, folder in sets.items():
            ours = best(sys.executable, OURS, folder, args.repeat)
            theirs = best(args.hta, HTA, folder, args.repeat) if args.hta else None
            speed = theirs and theirs["seconds"] / ours["seconds"]
            memory = theirs and ours["rss_mb"] / theirs["rss_mb"]
            print(f"{title}: {ours['seconds']:.3f} s, {ours['rss_mb']:.0f} MB", end="")
            print(f"; HTA {theirs['seconds']:.2f} s, {theirs['rss_mb']:.0f} MB" if theirs else "")
            bar(f"{title}: times faster than HTA", speed, 20, speed and speed >= 20)
            bar(f"{title}: memory / HTA's", memory, 0.25, memory and memory <= 0.25)
            # HTA leaves out spans of the one and rounds the times of the other: docs/formats-in.md.
            if theirs and title != "diff_test_v100" and "simulated" not in title:
                difference = worst_difference(ours, theirs)
                bar(f"{title}: greatest difference", difference, 0.001, difference <= 0.001)
        if args.big_mb and args.data.is_dir():
            path = scratch / "big.json"
            big_trace(args.data, path, args.big_mb)
            found = run(sys.executable, OURS, path)
            rate = path.stat().st_size / 1e6 / found["seconds"]
            bar(f"{args.big_mb} MB of JSON: MB/s", rate, 200, rate >= 200)
            bar("the same: MB of memory", found["rss_mb"], 1000, found["rss_mb"] <= 1000)
    if args.json:
        print(json.dumps({"benchmark": "analyze", "bars": bars}))


if __name__ == "__main__":
    main()
