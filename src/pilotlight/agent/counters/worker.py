"""A thread that reads one source: the agent's loop never waits for a driver."""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pilotlight.agent.counters.source import Reading, Source, SourceFailed, SourceMissing

BLOCKED_NS = 5_000_000_000
_FIRST_WAIT_S = 2.0
_LONGEST_WAIT_S = 60.0
_QUEUED = 16
_S = 1_000_000_000


@dataclass(frozen=True)
class Stamped:
    time_ns: int
    reading: Reading


@dataclass(frozen=True)
class Condition:
    """`state`: idle, starting, ok, missing, failing, or blocked (in one call for long)."""

    name: str
    state: str
    detail: str
    fix: str
    counts: dict[str, int]
    last_read_ns: int
    cpu_ns: int


class Worker:
    """Opens and reads a source while `is_wanted`; backs off when it fails, and says so.

    A read that does not return keeps only this thread: there is never a second one for the same
    source, and the thread is a daemon, so the agent can end.
    """

    def __init__(
        self, name: str, open_source: Callable[[], Source], period_ns: int, now_ns: int
    ) -> None:
        self.name = name
        self.period_ns = period_ns
        self.since_ns = now_ns
        self._open_source = open_source
        self._queue: deque[Stamped] = deque(maxlen=_QUEUED)
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._busy_since_ns: int | None = None
        self._state, self._detail, self._fix = "idle", "", ""
        self._tally: Tally[str] = Tally()
        self._last_read_ns = self._cpu_ns = 0
        self._was_blocked = False
        self._thread: threading.Thread | None = None

    def want(self, is_wanted: bool) -> None:
        """Reads only while somebody records."""
        if not is_wanted:
            self._wanted.clear()
            return
        self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"{self.name}", daemon=True)
            self._thread.start()

    def take(self) -> list[Stamped]:
        """What was read since the last time."""
        taken = []
        while self._queue:
            taken.append(self._queue.popleft())
        return taken

    def condition(self, now_ns: int) -> Condition:
        with self._lock:
            state, detail, busy_ns = self._state, self._detail, self._busy_since_ns
            if busy_ns is not None and now_ns - busy_ns > BLOCKED_NS:
                state = "blocked"
                detail = f"a call has not returned for {(now_ns - busy_ns) // _S} s"
                if not self._was_blocked:
                    self._was_blocked = True
                    self._tally["blocked"] += 1
            return Condition(
                self.name,
                state,
                detail,
                self._fix,
                dict(self._tally),
                self._last_read_ns,
                self._cpu_ns,
            )

    def stop(self) -> None:
        """Asks the thread to end."""
        self._stopped.set()
        self._wanted.set()

    def join(self, wait_s: float) -> None:
        """Waits a little for its end; a thread that a driver holds is left behind."""
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run(self) -> None:
        wait_s = _FIRST_WAIT_S
        source: Source | None = None
        while not self._stopped.is_set():
            self._wanted.wait()
            if self._stopped.is_set():
                return
            began_ns = time.monotonic_ns()
            try:
                self._enter(began_ns)
                if source is None:
                    source = self._open_source()
                reading = source.read()
            except SourceMissing as error:
                source = None
                self._leave("missing", str(error), error.fix)
            except SourceFailed as error:
                source = None
                self._leave("failing", str(error), "")
            except Exception as error:
                # A driver's binding may raise anything; a source that fails is a source less.
                source = None
                self._leave("failing", f"{type(error).__name__}: {error}"[:300], "")
            else:
                self._leave("ok", source.describe(), "")
                self._put(Stamped(began_ns, reading))
                wait_s = _FIRST_WAIT_S
                self._sleep(began_ns)
                continue
            self._stopped.wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _enter(self, now_ns: int) -> None:
        with self._lock:
            self._busy_since_ns = now_ns
            if self._state == "idle":
                self._state = "starting"

    def _leave(self, state: str, detail: str, fix: str) -> None:
        with self._lock:
            self._busy_since_ns = None
            self._was_blocked = False
            self._state, self._detail, self._fix = state, detail, fix
            self._tally["reads" if state == "ok" else state] += 1
            self._cpu_ns = time.thread_time_ns()

    def _put(self, stamped: Stamped) -> None:
        with self._lock:
            if len(self._queue) == _QUEUED:
                self._tally["dropped"] += 1
            self._queue.append(stamped)
            self._last_read_ns = stamped.time_ns

    def _sleep(self, began_ns: int) -> None:
        """Until the next beat of the period; beats that a slow read missed are not made up for."""
        beat_ns = began_ns - (began_ns - self.since_ns) % self.period_ns + self.period_ns
        self._stopped.wait(max(0.0, (beat_ns - time.monotonic_ns()) / _S))
