"""Processes of the recorded jobs that the kernel killed because their control group was full."""

from __future__ import annotations

from pathlib import Path

from pilotlight.agent.counters.cgroup import device_of, group_folders, groups_of
from pilotlight.agent.counters.source import Event

_MOST_GROUPS = 64


class Kills:
    """Read by the agent's loop and by no source: a job whose last process is killed is over before
    a source would read again, and what it died of belongs into its last batch."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._counts: dict[str, tuple[Path, int]] = {}

    def watch(self, pid: int) -> None:
        """From now on its group counts; a group that is full of others is left alone."""
        text = groups_of(pid, self._root)
        device = device_of(text)
        if not text or device in self._counts or len(self._counts) >= _MOST_GROUPS:
            return
        _, folder = group_folders(text, self._root / "sys/fs/cgroup")
        count = _count(folder)
        if count is not None:
            self._counts[device] = folder, count

    def news(self) -> list[Event]:
        """Those since the last time."""
        events = []
        for device, (folder, before) in list(self._counts.items()):
            count = _count(folder)
            if count is None:
                del self._counts[device]
                continue
            self._counts[device] = folder, count
            if count > before:
                processes = "1 process" if count - before == 1 else f"{count - before} processes"
                text = f"{processes} killed: out of memory"
                events.append(Event(device, "oom_kill", count - before, text))
        return events

    def forget(self) -> None:
        """No job runs."""
        self._counts.clear()


def _count(folder: Path) -> int | None:
    """None: the group is gone, or nobody counts."""
    for file in ("memory.events", "memory.oom_control"):
        try:
            lines = (folder / file).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return None
