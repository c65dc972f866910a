"""Answers that are kept while nothing new has come in: pages of many readers ask the same."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

ENTRIES = 256
BYTES_LIMIT = 64 << 20
FRESH_NS = 1_000_000_000
OLDEST_NS = 20_000_000_000


class Kept:
    """`stamp` counts what came in. An answer is good as long as it stays the same, for at most
    OLDEST_NS, since states change with time alone; for FRESH_NS it is good in any case."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, tuple[int, int, bytes]] = OrderedDict()
        self._bytes = 0

    def get(self, key: str, stamp: int, make: Callable[[], bytes]) -> tuple[bytes, float]:
        """The answer and its age in seconds."""
        now_ns = time.monotonic_ns()
        with self._lock:
            found = self._answers.get(key)
            if found is not None:
                made_ns, old_stamp, data = found
                age_ns = now_ns - made_ns
                if age_ns < FRESH_NS or (old_stamp == stamp and age_ns < OLDEST_NS):
                    self._answers.move_to_end(key)
                    return data, age_ns / 1e9
        data = make()
        with self._lock:
            self._drop(key)
            self._answers[key] = (now_ns, stamp, data)
            self._bytes += len(data)
            while len(self._answers) > ENTRIES or self._bytes > BYTES_LIMIT:
                self._drop(next(iter(self._answers)))
        return data, 0.0

    def _drop(self, key: str) -> None:
        old = self._answers.pop(key, None)
        if old is not None:
            self._bytes -= len(old[2])
