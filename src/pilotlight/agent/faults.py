"""Faults of the agent itself: one place that fails must not stop the draining of all others."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_KINDS = 64


class Faults:
    """Counts what should never happen; the first of each kind goes to the log with its trace."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @contextmanager
    def apart(self, where: object) -> Iterator[None]:
        """Whatever goes wrong inside is noted and stays inside."""
        try:
            yield
        except Exception as error:
            self.note(type(where).__name__ if not isinstance(where, str) else where, error)

    def note(self, where: str, error: Exception) -> None:
        kind = f"{where}: {error!r:.200}"
        if kind not in self.counts and len(self.counts) < _MOST_KINDS:
            traceback.print_exception(error, file=sys.stderr)
        self.counts[kind if len(self.counts) < _MOST_KINDS else "others"] += 1
