"""How much memory there is to use here."""

from __future__ import annotations

import re
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MOST = 1 << 62


def available_bytes(
    meminfo: Path = Path("/proc/meminfo"),
    membership: Path = Path("/proc/self/cgroup"),
    cgroups: Path = _CGROUP,
) -> int:
    """What the machine has free, or the group of this process if that is less."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(meminfo), re.MULTILINE)
    free = int(found.group(1)) * 1024 if found else _MOST
    match = re.search(r"^0::/(.*)$", _text(membership), re.MULTILINE)
    folder = cgroups / (match.group(1) if match else "")
    while folder != cgroups.parent:
        limit, used = (_text(folder / name).strip() for name in ("memory.max", "memory.current"))
        if limit.isdigit() and used.isdigit():
            free = min(free, max(0, int(limit) - int(used)))
        folder = folder.parent
    return free


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
