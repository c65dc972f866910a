"""A running collector: the store, the way into it, and who watches over the jobs."""

from __future__ import annotations

import logging
import time
from collections import Counter

from pilotlight.collector.access import Rate
from pilotlight.collector.capture import Capture
from pilotlight.collector.captures import CaptureDesk
from pilotlight.collector.config import Config, is_loopback
from pilotlight.collector.doorbell import Doorbell
from pilotlight.collector.tokens import Tokens
from pilotlight.collector.watch.alerts import Announcer
from pilotlight.collector.watch.watcher import Watcher
from pilotlight.store.batch import Batch
from pilotlight.store.place import StorePlace
from pilotlight.store.store import Store
from pilotlight.store.writer import Limits, Writer

_LOG = logging.getLogger("pilotlight.store")


class Collector:
    """StoreError: the store cannot be opened."""

    def __init__(self, place: StorePlace, config: Config | None = None) -> None:
        self.config = config or Config()
        self.started_ns = time.time_ns()
        self.store = Store(place, self.config.keep.days, _LOG.info)
        self.tokens = Tokens(place.tokens, not is_loopback(self.config.listen.address))
        self.refused: Counter[str] = Counter()
        self.pushed: Counter[tuple[str, str]] = Counter()
        self.not_pushed: Counter[str] = Counter()
        self.rate = Rate(self.config.listen.requests_per_s, self.config.listen.burst)
        limits = Limits(waiting_bytes=self.config.keep.waiting_bytes)
        self.doorbell = Doorbell()
        self.desk = CaptureDesk(
            self.store, self.config.captures, self.doorbell.ring, self._captured
        )
        self.announcer = Announcer(self.config.alerts)
        self.watcher = Watcher(self.store, self.config, self.desk, self.announcer)
        self.writer = Writer(self.store, limits, self._received)

    @property
    def problem(self) -> str:
        """Why it is not ready, "" if it is."""
        if self.tokens.problem:
            return self.tokens.problem
        return self.writer.disk_problem or ("the store is behind" if self.writer.is_full else "")

    def close(self) -> None:
        """Nothing that was acknowledged is lost: what is not in the tables is in the spool."""
        self.writer.close()
        self.watcher.close()
        self.announcer.close()
        self.store.close()

    def _received(self, batch: Batch) -> None:
        """Called for each new batch once it is safe."""
        if self.config.watch.on:
            self.watcher.take(batch)

    def _captured(self, capture: Capture) -> None:
        self.watcher.stored(capture)
