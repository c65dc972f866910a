from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from example import MANIFEST

from pilotlight.recording.liveness import is_alive, observed_state
from pilotlight.recording.manifest import AgentFacts, Manifest
from pilotlight.recording.processes import Process, ProcessStart

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def ended_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def manifest_of(agent_pid: int, agent_start: int = 0) -> Manifest:
    agent = AgentFacts(pid=agent_pid, version="0.1.0", start_time=agent_start)
    return replace(MANIFEST, state="recording", boot_id=BOOT_ID, agent=agent)


def process_of(pid: int, start: int) -> Process:
    return Process(ProcessStart(0, pid, start, "", 0, 0, (1, 0)), None)


def test_a_pid_with_another_start_time_is_another_process() -> None:
    assert is_alive(os.getpid(), start_time(os.getpid()))
    assert is_alive(os.getpid(), 0)
    assert not is_alive(os.getpid(), start_time(os.getpid()) + 1)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(child.pid, 0)
    child.wait()


def test_a_finished_recording_stays_finished() -> None:
    assert observed_state(MANIFEST, []) == "finished"


def test_a_living_agent_means_recording() -> None:
    assert observed_state(manifest_of(os.getpid(), start_time(os.getpid())), []) == "recording"


def test_a_dead_agent_with_a_living_job_still_records() -> None:
    job = process_of(os.getpid(), start_time(os.getpid()))
    assert observed_state(manifest_of(ended_pid()), [job]) == "recording"


def test_neither_agent_nor_job_means_cut() -> None:
    assert observed_state(manifest_of(ended_pid()), [process_of(ended_pid(), 7)]) == "cut"


def test_a_node_that_was_started_again_means_cut() -> None:
    manifest = replace(manifest_of(os.getpid()), boot_id="0" * 32, node=socket.gethostname())
    assert observed_state(manifest, []) == "cut"


def test_another_node_cannot_be_judged_from_here() -> None:
    manifest = replace(manifest_of(os.getpid()), boot_id="0" * 32, node="elsewhere.invalid")
    assert observed_state(manifest, []) == "unknown"
