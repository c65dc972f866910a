"""Phases of short steps are kept until the step ends and written together; none may be lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanFlag, SpanKind

FAST_STEPS = """
from pilotlight import _probe
from pilotlight.probe.phases import BACKWARD, FORWARD, OPTIMIZER
def steps(count):
    for _ in range(count):
        _probe.step()
        for phase in (FORWARD, BACKWARD, OPTIMIZER):
            _probe.enter_phase(phase)
            _probe.leave_phase(phase)
"""


def _world(folder: Path) -> dict[str, str]:
    places = {"PILOTLIGHT_RUNTIME_DIR": f"{folder}/r", "PILOTLIGHT_DATA_DIR": f"{folder}/d"}
    return {"PATH": "/usr/bin:/bin", **places}


def _recorded(folder: Path, program: str) -> Recording:
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "-o", str(folder / "recording")]
    done = subprocess.run(
        [*words, "--", sys.executable, "-c", program],
        env=_world(folder),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return Recording.open(folder / "recording")


def _phases(recording: Recording, flags: int = 0) -> Counter[str]:
    spans = recording.detail("spans")
    spans = spans.where((spans["kind"] == SpanKind.PHASE) & (spans["flags"] == flags))
    numbers = recording.names.find(spans["process"], spans["name"])
    return Counter(recording.names.texts[int(number)] for number in numbers)


def test_every_phase_of_fast_steps_is_told_in_its_step(tmp_path: Path) -> None:
    recording = _recorded(tmp_path, FAST_STEPS + "steps(200)\n_probe.step()")
    assert _phases(recording) == dict.fromkeys(("forward", "backward", "optimizer"), 200)
    spans, steps = recording.detail("spans"), recording.detail("steps")
    phases = spans.where(spans["kind"] == SpanKind.PHASE)
    begin, end = phases["start_ns"], phases["start_ns"] + phases["duration_ns"]
    order = begin.argsort()
    assert (begin[order][1:] >= end[order][:-1]).all()
    step = np.searchsorted(np.sort(steps["start_ns"]), begin, "right")
    assert Counter(step.tolist()) == dict.fromkeys(range(1, 201), 3)


def test_a_step_with_more_phases_than_are_kept_has_all_of_them(tmp_path: Path) -> None:
    many = "_probe.step()\nfor phase in 50 * (FORWARD, BACKWARD):\n"
    many += "    _probe.enter_phase(phase)\n    _probe.leave_phase(phase)\n_probe.step()"
    recording = _recorded(tmp_path, FAST_STEPS + many)
    assert _phases(recording) == {"forward": 50, "backward": 50}


def test_an_interrupted_phase_keeps_both_its_parts(tmp_path: Path) -> None:
    nested = "_probe.step()\n_probe.enter_phase(FORWARD)\n_probe.enter_phase(BACKWARD)\n"
    nested += "_probe.leave_phase(BACKWARD)\n_probe.leave_phase(FORWARD)\n_probe.step()"
    recording = _recorded(tmp_path, FAST_STEPS + nested)
    assert _phases(recording) == {"forward": 2, "backward": 1}


def test_a_thread_that_ends_tells_what_it_had_kept(tmp_path: Path) -> None:
    # Python's join does not wait for the end of the thread itself.
    ending = """
import os, threading, time
thread = threading.Thread(target=steps, args=(5,))
thread.start(); thread.join()
while os.path.exists(f"/proc/self/task/{thread.native_id}"): time.sleep(0.001)
"""
    recording = _recorded(tmp_path, FAST_STEPS + ending)
    assert _phases(recording) == dict.fromkeys(("forward", "backward", "optimizer"), 5)


def test_a_forked_child_does_not_tell_what_its_parent_had_kept(tmp_path: Path) -> None:
    forking = "import os\nsteps(3)\nchild = os.fork()\nif child == 0: steps(2)\n"
    recording = _recorded(tmp_path, FAST_STEPS + forking + "else: os.waitpid(child, 0)")
    assert _phases(recording) == dict.fromkeys(("forward", "backward", "optimizer"), 5)


def test_a_process_killed_in_a_phase_leaves_it_open_at_its_time(tmp_path: Path) -> None:
    killed = "import os, signal, time\nsteps(20)\n_probe.step()\n_probe.enter_phase(BACKWARD)\n"
    killed += "time.sleep(0.3)\nos.kill(os.getpid(), signal.SIGKILL)"
    recording = _recorded(tmp_path, FAST_STEPS + killed)
    assert _phases(recording) == dict.fromkeys(("forward", "backward", "optimizer"), 20)
    assert _phases(recording, SpanFlag.NEVER_CLOSED) == {"backward": 1}
    spans = recording.detail("spans")
    (duration_ns,) = spans.where(spans["flags"] == SpanFlag.NEVER_CLOSED)["duration_ns"].tolist()
    assert 250_000_000 < duration_ns < 3_000_000_000


def test_the_phase_of_a_fast_job_that_hangs_is_shown(tmp_path: Path) -> None:
    world = _world(tmp_path)
    hanging = "import time\nsteps(50)\n_probe.step()\n_probe.enter_phase(BACKWARD)\ntime.sleep(60)"
    run = subprocess.Popen(
        [sys.executable, "-m", "pilotlight", "run", "-q", "--", sys.executable, "-c",
         FAST_STEPS + hanging],
        env=world, start_new_session=True,
    )  # fmt: skip
    try:
        asking = "from pilotlight.client import Client\n"
        asking += "print(Client().ask('status')['processes'][0]['phase']['name'])"
        end = time.monotonic() + 30
        told = ""
        while not told and time.monotonic() < end:
            time.sleep(0.2)
            words = [sys.executable, "-c", asking]
            told = subprocess.run(words, env=world, capture_output=True, text=True).stdout
        assert told == "backward\n"
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
