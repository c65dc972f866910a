"""The thread that waits for what the collector wants of this agent."""

from __future__ import annotations

import contextlib
import http.client
import queue
import random
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlencode

from pilotlight.ship.clock import ClockOffset
from pilotlight.ship.line import Line
from pilotlight.ship.target import Target
from pilotlight.ship.wire import CLOCK_HEADER

_WAIT_S = 25
_TIMEOUT_S = 60.0
_LONGEST_PAUSE_S = 60.0
_MOST_WAITING = 16

Request = dict[str, object]


class Requests:
    """`take` gives what has come; `deliver` and `refuse` answer. Never raises."""

    def __init__(self, target: Target, agent: str, clock: ClockOffset) -> None:
        self._agent = agent
        self._clock = clock
        self._line = Line(target, _TIMEOUT_S)
        self._answers = Line(target, _TIMEOUT_S)
        self._come: queue.Queue[Request] = queue.Queue(_MOST_WAITING)
        self._stopping = threading.Event()
        self.problems: Counter[str] = Counter()
        self.delivered = 0
        self._thread = threading.Thread(target=self._run, name="requests", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The thread may be waiting for the collector; it is a daemon and holds nothing."""
        self._stopping.set()

    def take(self) -> Request | None:
        try:
            return self._come.get_nowait()
        except queue.Empty:
            return None

    def deliver(self, capture: str, archive: Path) -> bool:
        """Called by the thread that made the archive."""
        headers = {"content-type": "application/zstd"}
        best = self._clock.best
        if best is not None:
            headers[CLOCK_HEADER] = best.header
        try:
            body = archive.read_bytes()
        except OSError as error:
            return self.refuse(capture, f"{error.strerror}")
        return self._answer({"capture": capture}, body, headers)

    def refuse(self, capture: str, why: str) -> bool:
        return self._answer({"capture": capture, "refused": why[:200]}, b"", {})

    def _answer(self, query: dict[str, str], body: bytes, headers: dict[str, str]) -> bool:
        path = f"/v1/detail?{urlencode({**query, 'agent': self._agent})}"
        try:
            answer = self._answers.request("PUT", path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self._note(f"detail: {type(error).__name__}")
            return False
        if answer.status != 200:
            self._note(f"detail: {answer.status} {str(answer.content.get('error', ''))[:100]}")
            return False
        self.delivered += 1
        return True

    def _run(self) -> None:
        pause_s = 1.0
        path = f"/v1/requests?{urlencode({'agent': self._agent, 'wait': _WAIT_S})}"
        while not self._stopping.is_set():
            try:
                answer = self._line.request("GET", path)
                found = answer.content.get("requests")
                if answer.status == 200 and isinstance(found, list):
                    pause_s = 1.0
                    self._keep(found)
                    continue
                self._note(f"requests: {answer.status}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._note(f"requests: {type(error).__name__}")
            self._stopping.wait(random.uniform(0.2, pause_s))
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    def _keep(self, found: list[object]) -> None:
        for request in found[:_MOST_WAITING]:
            if isinstance(request, dict):
                with contextlib.suppress(queue.Full):
                    self._come.put_nowait(request)

    def _note(self, problem: str) -> None:
        if len(self.problems) < 32 or problem in self.problems:
            self.problems[problem] += 1
