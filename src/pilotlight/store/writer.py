"""The way into the store: to the spool, synced, acknowledged; then in big blocks to the tables."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from pilotlight.errors import FormatError, StoreError
from pilotlight.store.batch import Batch, Clock, decode
from pilotlight.store.joining import join_segments
from pilotlight.store.rows import arrow_tables
from pilotlight.store.seen import Key, Seen
from pilotlight.store.spool import Entry, Segment, read_segment, segments, token
from pilotlight.store.store import Passing, Store

_LOG = logging.getLogger("pilotlight.store")
_SEGMENT_BYTES = 8 << 20
_REMEMBERED_BYTES = 32 << 20
# Every insert costs the same for each table and rollup: with many agents blocks are bigger.
_SEGMENT_NS = 2_000_000_000
_LONGEST_SEGMENT_NS = 5_000_000_000
_LOOK_AGAIN_NS = 250_000_000
_FEW_BATCHES = 16
_RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)
_TRIES_BEFORE_ASIDE = 6
_LOOK_S = 5.0
_ROOM_BYTES = 1 << 20
# A week of a thousand agents is a hundred million sequences: only lines with holes are read whole.
_LINES = (
    "SELECT tenant, agent, epoch, min(sequence), max(sequence), groupBitmap(toUInt64(sequence)) "
    "FROM batches GROUP BY tenant, agent, epoch"
)
_SEQUENCES = (
    "SELECT DISTINCT sequence FROM batches WHERE tenant = {tenant:String} "
    "AND agent = {agent:String} AND epoch = {epoch:Int64} ORDER BY sequence"
)


@dataclass(frozen=True)
class Limits:
    """Beyond `waiting_bytes` of the spool that are not in the tables, agents have to wait."""

    waiting_bytes: int = 512 << 20
    waiting_batches: int = 20_000


@dataclass
class Taken:
    """Counts since the start, for /metrics."""

    batches: int = 0
    duplicates: int = 0
    rows: int = 0
    bytes: int = 0
    inserted_batches: int = 0
    inserted_rows: int = 0
    replayed_batches: int = 0
    aside: int = 0
    damaged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    insert_failures: int = 0


class Full(StoreError):
    """The store cannot keep up, or its disk is full: try again later."""


@dataclass
class _Waiting:
    path: Path
    count: int
    bytes: int
    batches: list[Batch] | None  # None: to be read back from the segment
    received_ns: int  # its first batch, by our clock


class Writer:
    """Two threads: one syncs, one inserts. `submit` may be called from any thread."""

    def __init__(
        self,
        store: Store,
        limits: Limits | None = None,
        on_batch: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self._store = store
        self._folder = store.place.spool
        self._aside = store.place.aside
        self._limits = limits or Limits()
        self._on_batch = on_batch
        self.taken = Taken()
        self.disk_problem = ""  # why it cannot acknowledge anything, as long as that is so
        self._seen = Seen()
        self._flying: dict[tuple[Key, int], Future[bool]] = {}
        self._guard = threading.Lock()
        self._incoming: queue.SimpleQueue[tuple[Entry, Batch, Future[bool]] | None] = (
            queue.SimpleQueue()
        )
        self._closed: deque[_Waiting] = deque()
        self._wake = threading.Condition()
        self._waiting_bytes = 0
        self._waiting_batches = 0
        self._stopping = False
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._recall()
        self._syncer = threading.Thread(target=self._sync, name="spool", daemon=True)
        self._inserter = threading.Thread(target=self._insert, name="insert", daemon=True)
        self._syncer.start()
        self._inserter.start()

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    @property
    def waiting_batches(self) -> int:
        return self._waiting_batches

    def behind_ns(self, now_ns: int) -> int:
        """How long the oldest of what waits for the tables has been here."""
        with self._wake:
            oldest_ns = self._closed[0].received_ns if self._closed else now_ns
        return max(0, now_ns - oldest_ns)

    def submit(self, body: bytes, batch: Batch) -> Future[bool]:
        """Done when the batch is safe; True if it is new. Full: ask the agent to wait."""
        header = batch.header
        one = (batch.key, header.sequence)
        with self._guard:
            flying = self._flying.get(one)
            if flying is not None:
                self.taken.duplicates += 1
                return flying
            future: Future[bool] = Future()
            if one in self._seen:
                self.taken.duplicates += 1
                future.set_result(False)
                return future
            if self.is_full or not self._seen.fits(*one, header.lowest):
                raise Full("the store is behind; send it again later")
            self._flying[one] = future
            self._waiting_bytes += len(body)
            self._waiting_batches += 1
        entry = Entry(
            batch.tenant,
            batch.received_ns,
            batch.clock.offset_ns,
            batch.clock.uncertainty_ns,
            body,
        )
        self._incoming.put((entry, batch, future))
        return future

    def put_aside(self, body: bytes, tenant: str, reason: str) -> None:
        """Keeps a batch that was refused, within bounds, for people to look at."""
        self.taken.refused[reason.split(":")[0][:60]] += 1
        _LOG.warning("a batch of tenant %s was refused: %s", tenant, reason)
        with contextlib.suppress(OSError):
            self._aside.mkdir(mode=0o700, exist_ok=True)
            kept = sorted(self._aside.glob("refused-*"))
            for old in kept[: max(0, len(kept) - 31)]:
                old.unlink(missing_ok=True)
            place = self._aside / f"refused-{time.time_ns():020d}"
            place.write_bytes(f"{tenant}: {reason}\n".encode() + body[: 1 << 20])

    def flush(self, timeout_s: float = 60.0) -> bool:
        """Waits until all that was submitted is in the tables; False if it takes longer."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._waiting_batches == 0:
                return True
            time.sleep(0.02)
        return False

    def close(self, timeout_s: float = 30.0) -> None:
        """Inserts what it can; what is left stays in the spool for the next start."""
        self._stopping = True
        self._incoming.put(None)
        self._syncer.join(timeout_s)
        with self._wake:
            self._wake.notify()
        self._inserter.join(timeout_s)

    @property
    def is_full(self) -> bool:
        return (
            self._waiting_bytes > self._limits.waiting_bytes
            or self._waiting_batches > self._limits.waiting_batches
        )

    def _recall(self) -> None:
        """What was taken before: the store's own list, and the spool that a killed one left."""
        for tenant, agent, epoch, first, last, count in self._store.select(_LINES):
            key = (tenant, agent, int(epoch))
            if count == last - first + 1:
                self._seen.recall(key, first, last)
                continue
            line = {"tenant": tenant, "agent": agent, "epoch": epoch}
            for (sequence,) in self._store.select(_SEQUENCES, line):
                self._seen.recall(key, sequence, sequence)
        join_segments(self._folder, _SEGMENT_BYTES)
        remembered = 0
        for path in segments(self._folder):
            found = self._read_back(path)
            remembered += sum(batch.size_bytes for batch in found)
            for batch in found:
                self._seen.add(batch.key, batch.header.sequence, batch.header.lowest)
            self.taken.replayed_batches += len(found)
            kept = found if remembered < _REMEMBERED_BYTES else None
            received_ns = found[0].received_ns if found else time.time_ns()
            waiting = _Waiting(path, len(found), path.stat().st_size, kept, received_ns)
            self._waiting_bytes += waiting.bytes
            self._waiting_batches += waiting.count
            self._closed.append(waiting)

    def _read_back(self, path: Path) -> list[Batch]:
        found = []
        for entry in read_segment(path):
            if isinstance(entry, str):
                self.taken.damaged += 1
                _LOG.error("the spool is damaged: %s", entry)
                continue
            clock = Clock(entry.offset_ns, entry.uncertainty_ns)
            try:
                found.append(decode(entry.tenant, entry.body, clock, entry.received_ns))
            except FormatError as error:
                self.put_aside(entry.body, entry.tenant, str(error))
        return found

    def _sync(self) -> None:
        segment: Segment | None = None
        batches: list[Batch] = []
        due_ns = 0
        is_long = False
        while True:
            wait_s = _LOOK_S if self.disk_problem else None
            if segment is not None:
                wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
            group = self._next_group(wait_s)
            if not group and segment is None:
                self._look_at_disk()
            entries = [one for one in group if one is not None]
            if entries:
                try:
                    if segment is None:
                        segment = Segment(self._folder)
                        due_ns = time.monotonic_ns() + _SEGMENT_NS
                    segment.append([entry for entry, _, _ in entries])
                except OSError as error:
                    self._give_back(entries, error)
                else:
                    batches += [batch for _, batch, _ in entries]
                    self._acknowledge(entries)
            is_last = None in group
            is_due = time.monotonic_ns() >= due_ns
            if is_due and len(batches) >= _FEW_BATCHES and not is_long:
                due_ns += _LONGEST_SEGMENT_NS - _SEGMENT_NS
                is_long, is_due = True, False
            if is_due and self._closed:
                # An insert is under way: what comes meanwhile is one block, to catch up.
                due_ns, is_due = time.monotonic_ns() + _LOOK_AGAIN_NS, False
            if segment is not None and (is_last or is_due or segment.bytes >= _SEGMENT_BYTES):
                segment.close()
                if batches:
                    size = sum(batch.size_bytes for batch in batches)
                    received_ns = batches[0].received_ns
                    self._hand_over(
                        _Waiting(segment.path, len(batches), size, batches, received_ns)
                    )
                else:
                    segment.path.unlink(missing_ok=True)
                segment, batches, is_long = None, [], False
            if is_last:
                return

    def _next_group(self, wait_s: float | None) -> list[tuple[Entry, Batch, Future[bool]] | None]:
        """All that has come since: one sync for all of them."""
        try:
            group = [self._incoming.get(timeout=wait_s)]
        except queue.Empty:
            return []
        with contextlib.suppress(queue.Empty):
            while len(group) < 1024:
                group.append(self._incoming.get_nowait())
        return group

    def _acknowledge(self, entries: Sequence[tuple[Entry, Batch, Future[bool]]]) -> None:
        self.disk_problem = ""
        with self._guard:
            for entry, batch, _ in entries:
                self._seen.add(batch.key, batch.header.sequence, batch.header.lowest)
                self._flying.pop((batch.key, batch.header.sequence), None)
                self.taken.batches += 1
                self.taken.rows += batch.rows
                self.taken.bytes += len(entry.body)
        for _, batch, future in entries:
            future.set_result(True)
            self._on_batch(batch)

    def _give_back(
        self, entries: Sequence[tuple[Entry, Batch, Future[bool]]], error: OSError
    ) -> None:
        """The disk did not take them: nothing was acknowledged, so nothing is lost."""
        reason = f"the collector's disk: {error.strerror or error}"
        self.disk_problem = reason
        _LOG.error("%s; %d batches were not acknowledged", reason, len(entries))
        with self._guard:
            for entry, batch, _ in entries:
                self._flying.pop((batch.key, batch.header.sequence), None)
                self._waiting_bytes -= len(entry.body)
                self._waiting_batches -= 1
        for _, _, future in entries:
            future.set_exception(Full(reason))

    def _look_at_disk(self) -> None:
        """Who asks first whether it is ready would never send the batch that shows it."""
        place = self._folder / "room"
        try:
            with place.open("wb") as stream:
                stream.write(bytes(_ROOM_BYTES))
                stream.flush()
                os.fsync(stream.fileno())
            self.disk_problem = ""
        except OSError:
            pass
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)

    def _hand_over(self, waiting: _Waiting) -> None:
        with self._wake:
            self._closed.append(waiting)
            self._wake.notify()

    def _insert(self) -> None:
        tries = 0
        while True:
            with self._wake:
                while not self._closed:
                    if self._stopping and not self._syncer.is_alive():
                        return
                    self._wake.wait(0.5)
                waiting = self._closed[0]
            try:
                self._insert_segment(waiting)
            except Exception as error:  # this thread has to outlive whatever a batch holds
                self.taken.insert_failures += 1
                _LOG.warning("an insert failed, it is tried again: %r", error)
                tries += 1
                if self._stopping:
                    return
                if tries >= _TRIES_BEFORE_ASIDE and not isinstance(error, (OSError, Passing)):
                    self._move_aside(waiting)
                    tries = 0
                else:
                    time.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            else:
                tries = 0

    def _insert_segment(self, waiting: _Waiting) -> None:
        batches = waiting.batches
        if batches is None:
            batches = self._read_back(waiting.path)
        if batches:
            name = token(waiting.path)
            for table, rows in arrow_tables(batches).items():
                self._store.insert(table, rows, f"{name}/{table}")
                self.taken.inserted_rows += rows.num_rows
        waiting.path.unlink(missing_ok=True)
        self.taken.inserted_batches += len(batches)
        self._settled(waiting)

    def _move_aside(self, waiting: _Waiting) -> None:
        """The engine does not take this segment, and others wait behind it."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        shutil.move(waiting.path, self._aside / waiting.path.name)
        self.taken.aside += 1
        _LOG.error("the engine does not take the segment %s; it is kept aside", waiting.path.name)
        self._settled(waiting)

    def _settled(self, waiting: _Waiting) -> None:
        with self._guard:
            self._waiting_bytes -= waiting.bytes
            self._waiting_batches -= waiting.count
        with self._wake:
            self._closed.remove(waiting)
