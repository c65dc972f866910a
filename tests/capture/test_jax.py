"""XSpace of a running, unmodified JAX job, without an open port."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from capture_jobs import JAX, RunningJob

from pilotlight.trace.reader import read_traces

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="jax is not installed"
)


def test_an_xspace_of_some_steps_comes_from_inside(world: Path) -> None:
    job = RunningJob(world, "jaxjob", JAX, sys.executable, "PROGRAM")
    try:
        code, result, said = job.capture("--steps", "3")
        pid = result["processes"][0]["answered"]["pid"]
        sockets = (
            Path(f"/proc/{pid}/net/tcp").read_text() + Path(f"/proc/{pid}/net/tcp6").read_text()
        )
        own = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    finally:
        job.stop()
    assert code == 0, said
    (process,) = result["processes"]
    assert process["answered"]["how"] == "xspace"
    assert len(process["steps"]) >= 3
    (trace,) = read_traces([world / "capture"]).traces
    assert any("Pjit" in name for name in trace.names)
    # On the wall clock, where the recorded steps are too.
    assert process["steps"][0]["start_ns"] < int(trace.spans.end_ns.max())
    assert int(trace.spans.start_ns.min()) > 10**18
    # Nobody else can reach the profiler: the process listens on no port.
    listening = {line.split()[9] for line in sockets.splitlines() if " 0A " in line}
    assert not {f"socket:[{inode}]" for inode in listening} & own
    shown = subprocess.run(
        [sys.executable, "-m", "pilotlight", "report", str(world / "capture")],
        capture_output=True,
        text=True,
    )
    assert "Pjit" in shown.stdout, shown.stderr
    assert "asked 1 process, 1 trace\n" in shown.stdout
    assert "pilotlight report" not in shown.stdout


def test_a_hung_job_is_explained_from_outside(world: Path) -> None:
    job = RunningJob(world, "jaxhung", JAX, sys.executable, "PROGRAM", "hang")
    try:
        code, result, said = job.capture()
    finally:
        job.stop()
    assert code == 1 and result, said
    (process,) = result["processes"]
    assert "hung" in process["answered"]["reason"]
    (stacks,) = (world / "capture" / "stacks").iterdir()
    assert "jaxhung.py" in stacks.read_text()
