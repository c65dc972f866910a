"""The thread that waits for what the collector wants of this agent."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from pilotlight.ship.clock import ClockOffset
from pilotlight.ship.line import Answer, Line
from pilotlight.ship.target import Target
from pilotlight.ship.wire import CLOCK_HEADER, STEPS_HEADER, STEPS_LIMIT_BYTES

_WAIT_S = 25
_TIMEOUT_S = 60.0
_LONGEST_PAUSE_S = 60.0
_MOST_WAITING = 16

Request = dict[str, object]


class Requests:
    """`take` gives what has come; `deliver` and `refuse` answer. Never raises."""

    def __init__(self, target: Target, agent: str, clock: ClockOffset) -> None:
        self._target = target
        self._agent = agent
        self._clock = clock
        self._line = Line(target, _TIMEOUT_S)
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

    def agree(self, capture: str, proposal: Mapping[str, object]) -> dict[str, object] | None:
        """What all nodes of a capture do, on this node's clock; None: no decision was to be had."""
        query = urlencode({"capture": capture, "agent": self._agent})
        body = json.dumps(proposal).encode()
        answer = self._say("POST", f"/v1/agreement?{query}", body, {})
        if answer is None:
            return None
        first_step, start_ns = answer.content.get("first_step"), answer.content.get("start_ns")
        if type(start_ns) is not int or not (first_step is None or type(first_step) is int):
            return None
        best = self._clock.best
        offset_ns = best.offset_ns if best is not None else 0
        return {"first_step": first_step, "start_ns": start_ns - offset_ns}

    def tell(self, capture: str, ranks: Sequence[Mapping[str, object]]) -> bool:
        """How far each rank is, for whoever looks at the capture meanwhile."""
        query = urlencode({"capture": capture, "agent": self._agent})
        body = json.dumps(ranks).encode()
        return self._say("POST", f"/v1/progress?{query}", body, {}) is not None

    def deliver(
        self, capture: str, archive: Path, steps: Sequence[Mapping[str, object]] = ()
    ) -> bool:
        """Called by the thread that made the archive; `steps` are those in its traces."""
        headers = {"content-type": "application/zstd"}
        said = json.dumps(steps)
        if steps and len(said) <= STEPS_LIMIT_BYTES:
            headers[STEPS_HEADER] = said
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
        if self._say("PUT", path, body, headers) is None:
            return False
        self.delivered += 1
        return True

    def _say(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer | None:
        """On a connection of its own: captures may be under way on several threads."""
        line = Line(self._target, _TIMEOUT_S)
        what = path.partition("?")[0].removeprefix("/v1/")
        try:
            answer = line.request(method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self._note(f"{what}: {type(error).__name__}")
            return None
        finally:
            line.close()
        if answer.status != 200:
            self._note(f"{what}: {answer.status} {str(answer.content.get('error', ''))[:100]}")
            return None
        return answer

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
