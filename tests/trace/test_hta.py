"""HolisticTraceAnalysis reads what we write; in the environment that bench/analyze.py makes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pilotlight.insights.breakdown import breakdown, timeline
from pilotlight.trace.kineto_writer import write_kineto
from pilotlight.trace.trace import Kind
from pilotlight.trace.trace_file import read_file

HTA = Path(__file__).parents[2] / "build" / "hta" / "bin" / "python"
PROGRAM = """
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
(row,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
print(json.dumps([row["idle_time(us)"], row["compute_time(us)"], row["kernel_time(us)"]]))
"""


@pytest.mark.parametrize(
    "name", ["kineto/diff_control_a100.json.gz", "nsys/mfu_2gpu_before.sqlite"]
)
def test_hta_finds_the_same_times_in_what_we_write(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    if not HTA.exists():
        pytest.skip("no HolisticTraceAnalysis in build/hta: bench/analyze.py installs it")
    trace = read_file(shared_data / name).traces[0]
    path = tmp_path / "rank0.json.gz"
    write_kineto(trace, path)
    done = subprocess.run(
        [HTA, "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout.strip().splitlines()[-1])
    line = timeline(trace)
    assert line is not None
    row = breakdown(trace, line)
    ours = [ns / 1000 for ns in (row.idle_ns, row.compute_ns, row.window_ns)]
    # HTA rounds to whole microseconds: up to one for each kernel where times are finer.
    slack_us = 0 if "kineto" in name else len(trace.of_kind(Kind.KERNEL, Kind.MEMCPY))
    for mine, other in zip(ours, theirs, strict=True):
        assert abs(mine - other) <= 0.001 * abs(other) + slack_us
