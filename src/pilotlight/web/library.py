"""The traces that a server shows: each opened when first asked for, a few kept open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from pilotlight.analysis import analyze
from pilotlight.errors import NotFound
from pilotlight.web import answers
from pilotlight.web.opened import OpenTrace

KEPT_OPEN = 4


class Library:
    """Traces by identity; the paths of one are the ranks of one job."""

    def __init__(self, traces: Mapping[str, tuple[str, list[Path]]]) -> None:
        self._traces = dict(traces)
        self._open: OrderedDict[str, OpenTrace] = OrderedDict()
        self._lock = threading.Lock()

    def names(self) -> list[answers.TraceName]:
        return [answers.TraceName(key, title) for key, (title, _) in self._traces.items()]

    def add(self, identity: str, title: str, paths: list[Path]) -> None:
        self._traces[identity] = (title, paths)

    def has(self, identity: str) -> bool:
        return identity in self._traces

    def keep(self, opened: OpenTrace) -> None:
        """Adds a trace that is open already."""
        self.add(opened.identity, opened.title, opened.paths)
        with self._lock:
            self._open[opened.identity] = opened

    def open(self, identity: str) -> OpenTrace:
        """Reading takes as long as it takes: to be called on a thread of its own."""
        with self._lock:
            found = self._open.get(identity)
            if found is not None:
                self._open.move_to_end(identity)
                return found
            if identity not in self._traces:
                raise NotFound(f"no trace {identity!r}")
            title, paths = self._traces[identity]
            found = OpenTrace(identity, title, analyze(paths), paths)
            self._open[identity] = found
            while len(self._open) > KEPT_OPEN:
                self._open.popitem(last=False)
            return found
