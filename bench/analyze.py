"""Loads and breaks down traces, side by side with HolisticTraceAnalysis.

    python bench/analyze.py [--hta PYTHON] [--data FOLDER] [--big-mb 1000] [--ranks 64] [--json]

Both run in fresh processes, in turn, `--repeat` times; the median of the ratios counts. `--hta` is
a Python that has HolisticTraceAnalysis 0.5 installed; without it the bench makes one in build/, and
where that cannot be done the ratios are null. Neither pays for its imports: both begin 0.2 s
after them, for the threads of numpy's BLAS spin for 30 ms when it is loaded, which would count as
CPU time of what comes next. Memory is the peak of a process with all its children: HTA reads ranks
in processes of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from bars import Bar, at_least, at_most, report

ROOT = Path(__file__).parents[1]
NAMES = ("diff_control_a100", "diff_test_v100", "resnet50_workers0", "resnet50_workers4")
HTA_VERSION = "0.5.0"

OURS = """
import json, resource, sys, time
from pathlib import Path
from pilotlight.insights.breakdown import breakdown, kernel_times, timeline
from pilotlight.trace.reader import read_traces
time.sleep(0.2)
ready, cpu = time.perf_counter(), time.process_time()
rows = {}
traces = read_traces([Path(sys.argv[1])]).traces
for trace in traces:
    line = timeline(trace)
    row = breakdown(trace, line)
    kernel_times(trace)
    rows[trace.rank] = [row.idle_ns / 1e3, row.compute_ns / 1e3, row.window_ns / 1e3,
                        None if row.overlap_ratio is None else 100 * row.overlap_ratio]
print(json.dumps({"seconds": time.perf_counter() - ready, "rows": rows,
                  "cpu_seconds": time.process_time() - cpu,
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
def cpu():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)
time.sleep(0.2)
ready, cpu_before = time.perf_counter(), cpu()
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
print(json.dumps({"seconds": seconds, "rows": rows, "rss_mb": peak / 1024,
                  "cpu_seconds": cpu() - cpu_before}))
"""


@dataclass(frozen=True)
class Measured:
    """`rows` by rank: idle, compute and window in microseconds, overlap in per cent."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    rows: dict[str, list[float | None]]


def run(python: str, program: str, path: Path) -> Measured:
    process = subprocess.Popen(
        [python, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    peak = PeakMemory(process.pid)
    out, err = process.communicate()
    tree_mb = peak.stop()
    if process.returncode:
        raise SystemExit(f"{path.name}: {(err.strip().splitlines() or ['no message'])[-1]}")
    found = json.loads(out.strip().splitlines()[-1])
    peak_mb = max(found["rss_mb"], tree_mb)
    return Measured(found["seconds"], found["cpu_seconds"], peak_mb, found["rows"])


class PeakMemory:
    """The greatest sum of proportional set sizes of a process and its descendants, as sampled."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak_mb = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> float:
        self._done.set()
        self._thread.join()
        return self._peak_mb

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self._peak_mb = max(self._peak_mb, sum(map(proportional_mb, family(self._pid))))


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found


def proportional_mb(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def hta_python() -> str | None:
    """A Python with HTA, made if it is not there yet; None where that cannot be done."""
    python = ROOT / "build" / "hta" / "bin" / "python"
    if python.exists():
        return str(python)
    print("making an environment with HolisticTraceAnalysis", flush=True)
    steps = (
        [sys.executable, "-m", "venv", str(python.parents[1])],
        [str(python), "-m", "pip", "install", "-q", f"HolisticTraceAnalysis=={HTA_VERSION}"],
    )
    for step in steps:
        if subprocess.run(step, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return None
    return str(python)


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


def big_trace(data: Path, path: Path, megabytes: int, rank: int = 0) -> None:
    """A real trace's events over and over."""
    with gzip.open(data / "kineto" / "diff_control_a100.json.gz") as file:
        text = re.sub(rb'"rank": *\d+', b'"rank": %d' % rank, file.read())
    start, end = text.index(b'"traceEvents": [') + 16, text.rindex(b"]")
    events = text[start:end]
    with path.open("wb") as out:
        out.write(text[:start])
        for count in range(max(1, megabytes * 10**6 // len(events))):
            out.write(b"," * bool(count) + events)
        out.write(text[end:])


def worst_difference(ours: Measured, theirs: Measured) -> float:
    worst = 0.0
    for own, other in zip(ours.rows.values(), theirs.rows.values(), strict=True):
        for a, b in zip(own[:3], other[:3], strict=True):
            worst = max(worst, abs(a - b) / max(abs(b), 1.0))
        if own[3] is not None and other[3] is not None:
            worst = max(worst, abs(own[3] - other[3]) / 100)
    return worst


def compare(title: str, folder: Path, hta: str | None, repeat: int) -> list[Bar]:
    pairs = []
    for _ in range(repeat):
        ours = run(sys.executable, OURS, folder)
        pairs.append((ours, run(hta, HTA, folder) if hta else None))
    ours = min((own for own, _ in pairs), key=lambda one: one.seconds)
    line = f"{title}: {ours.seconds:.3f} s, {ours.cpu_seconds:.3f} s of CPU, {ours.peak_mb:.0f} MB"
    speed = memory = difference = None
    if hta:
        theirs = min((other for _, other in pairs if other), key=lambda one: one.seconds)
        speed = statistics.median(b.seconds / a.seconds for a, b in pairs if b)
        cpu = statistics.median(b.cpu_seconds / a.cpu_seconds for a, b in pairs if b)
        memory = statistics.median(a.peak_mb / b.peak_mb for a, b in pairs if b)
        difference = worst_difference(ours, theirs)
        line += f"; HTA {theirs.seconds:.2f} s, {theirs.cpu_seconds:.2f} s of CPU, "
        line += f"{theirs.peak_mb:.0f} MB; {cpu:.1f} times less CPU"
    print(line, flush=True)
    bars = [
        at_least(f"{title}: times faster than HTA", speed, 20),
        at_most(f"{title}: memory / HTA's", memory, 0.25),
    ]
    # HTA leaves out spans of the one and rounds the times of the other: docs/formats-in.md.
    if title != "diff_test_v100" and "simulated" not in title:
        bars.append(at_most(f"{title}: greatest difference from HTA", difference, 0.001))
    return bars


def big(data: Path, path: Path, megabytes: int, repeat: int) -> list[Bar]:
    big_trace(data, path, megabytes)
    found = min((run(sys.executable, OURS, path) for _ in range(repeat)), key=lambda r: r.seconds)
    size_mb = path.stat().st_size / 1e6
    print(
        f"{megabytes} MB of JSON: {size_mb / found.cpu_seconds:.0f} MB a second of CPU", flush=True
    )
    return [
        at_least(f"{megabytes} MB of JSON: MB/s", size_mb / found.seconds, 200),
        at_most("the same: MB of memory", found.peak_mb, 1000),
    ]


BOUNDED = """
import json, resource, sys, time
from pathlib import Path
from pilotlight.analysis import analyze
ready = time.process_time()
found = analyze(Path(sys.argv[1]), memory_bytes=int(sys.argv[2]))
found.to_dict()
print(json.dumps({"cpu_seconds": time.process_time() - ready, "spans":
                  sum(len(trace.spans) for trace in found.job.traces),
                  "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
BOUNDED_MB = 16
# Python with its libraries, mapped pages until they are given back, the replay: docs/formats-in.md.
BESIDE_MB = 128


def bounded(data: Path, folder: Path, megabytes: int) -> list[Bar]:
    """A whole analysis of eight ranks in a fraction of the memory that it would take."""
    folder.mkdir()
    for rank in range(8):
        big_trace(data, folder / f"rank{rank}.json", megabytes // 8, rank)
    peaks = []
    for memory_bytes in (1 << 40, BOUNDED_MB << 20):
        command = [sys.executable, "-c", BOUNDED, str(folder), str(memory_bytes)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(out.splitlines()[-1])
        peaks.append(found["rss_mb"])
        print(
            f"{found['spans']} spans: {found['rss_mb']:.0f} MB, {found['cpu_seconds']:.1f} s of CPU"
        )
    what = f"{megabytes} MB of JSON in 8 ranks, --memory {BOUNDED_MB}M: MB of memory beside those"
    print(f"{what} ({peaks[0]:.0f} without a limit)", flush=True)
    return [at_most(what, peaks[1] - BOUNDED_MB, BESIDE_MB)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hta", metavar="PYTHON", help="a Python with HolisticTraceAnalysis")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--big-mb", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=64, help="of the simulated set; 0: none")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    hta = args.hta or hta_python()
    if hta is None:
        print("HolisticTraceAnalysis cannot be installed here: not compared")
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        sets = folders(args.data, scratch) if args.data.is_dir() else {}
        if args.ranks:
            title = f"simulated ({args.ranks} ranks)"
            sets[title] = scratch / "simulated"
            simulated_ranks(sets[title], args.ranks)
        for title, folder in sets.items():
            bars += compare(title, folder, hta, args.repeat)
        if args.big_mb and args.data.is_dir():
            bars += big(args.data, scratch / "big.json", args.big_mb, args.repeat)
            bars += bounded(args.data, scratch / "bounded", args.big_mb)
    return report("analyze", bars, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
