"""CPU time of running processes, from outside."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def cpu_ns(pids: Iterable[int]) -> int:
    """Of all their living threads; what ended threads used is not in it."""
    return sum(_process_ns(pid) for pid in pids)


def _process_ns(pid: int) -> int:
    total = 0
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0
    for task in tasks:
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue
    return total
