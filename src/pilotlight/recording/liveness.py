"""Tells a recording that grows from one that was cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pilotlight.place import node_name
from pilotlight.recording.manifest import Manifest
from pilotlight.recording.processes import Process


def is_alive(pid: int, start_time: int) -> bool:
    """Whether that process still runs; start_time 0 takes any process with the pid for it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    fields = status[status.rfind(b")") + 2 :].split()
    # Fields 3 and 22 of proc(5); a zombie has ended and only waits to be collected.
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return False
    return start_time in (0, int(fields[19]))


def observed_state(manifest: Manifest, processes: Sequence[Process]) -> str:
    """`recording`, `finished`, `cut`, or `unknown` if another node would have to be asked."""
    if manifest.state != "recording":
        return manifest.state
    if _plain(manifest.boot_id) != _plain(_boot_id()):
        return "cut" if manifest.node == node_name() else "unknown"
    if is_alive(manifest.agent.pid, manifest.agent.start_time):
        return "recording"
    running = any(
        process.end is None and is_alive(process.start.pid, process.start.start_time)
        for process in processes
    )
    return "recording" if running else "cut"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return ""


def _plain(boot_id: str) -> str:
    return boot_id.strip().replace("-", "").lower()
