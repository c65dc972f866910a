"""What a killed agent had and did not send: the jobs of its last batch, and when that was."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

_NAME = "unsent.json"
_MOST_S = 3600


class Unsent:
    """A file that lives from the first batch to an orderly end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        try:
            content = json.loads(self._path.read_text())
            self._left = {str(job): int(when) for job, when in content.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            self._left = {}

    def seconds(self, job: str, time_ns: int) -> int:
        """How many seconds of the job an agent before this one took with it; told once."""
        last_ns = self._left.pop(job, None)
        return 0 if last_ns is None else max(1, min(_MOST_S, (time_ns - last_ns) // 10**9))

    def note(self, jobs: Sequence[str], time_ns: int) -> None:
        with contextlib.suppress(OSError):
            self._path.write_text(json.dumps(dict.fromkeys(jobs, time_ns)))

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
