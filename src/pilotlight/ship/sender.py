"""The thread that brings the outbox to the collector, one batch after the other."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from pilotlight.ship.clock import ClockOffset
from pilotlight.ship.line import Answer, Line
from pilotlight.ship.outbox import Outbox, Waiting
from pilotlight.ship.target import Target
from pilotlight.ship.wire import BODY_LIMIT_BYTES, CLOCK_HEADER, MEDIA_TYPE, PROTOCOL

_TIMEOUT_S = 30.0
_LONGEST_WAIT_S = 60.0
_HELLO_S = 300.0
# What the collector will say again of the same bytes.
_POISONED = (400, 413, 422)


class Sender:
    """`wake` after something was put into the outbox. Never raises, never hurries. `log` is told
    when the collector begins to take batches, and why when it does not."""

    def __init__(
        self,
        target: Target,
        outbox: Outbox,
        now: Callable[[], float] = time.monotonic,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._target = target
        self._outbox = outbox
        self._now = now
        self._log = log
        self._line = Line(target, _TIMEOUT_S)
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._failures = 0
        self._said_hello_s: float | None = None
        self.clock = ClockOffset()
        self.sent = 0
        self.sent_bytes = 0
        self.problems: Counter[str] = Counter()
        self.state = "not connected"
        self.why = ""  # the last batch was not taken
        self._thread = threading.Thread(target=self._run, name="ship", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def stop(self, wait_s: float) -> None:
        """What is not sent by then stays for the next agent."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            wait_s = self._send_all()
            if self._stopping.is_set():
                self._line.close()
                return
            self._woken.wait(wait_s)
            if wait_s is not None and not self._stopping.is_set() and self._failures:
                # Woken by a new batch while the collector is away: that is no reason to hurry.
                self._stopping.wait(wait_s)
            self._woken.clear()

    def _send_all(self) -> float | None:
        """Seconds until it should be tried again; None when all is sent."""
        while (waiting := self._outbox.oldest()) is not None:
            body = self._outbox.read(waiting)
            if body is None:
                continue
            if len(body) > BODY_LIMIT_BYTES:
                # A collector hangs up instead of reading it, and all others would wait behind it.
                self._outbox.put_aside(waiting)
                self.problems[f"refused: a batch of more than {BODY_LIMIT_BYTES} bytes"] += 1
                continue
            try:
                if self._hello_is_due():
                    self._hello()
                answer = self._post(body)
            except (OSError, http.client.HTTPException) as error:
                return self._failed(f"{type(error).__name__}: {error}")
            except ValueError as error:
                return self._failed(str(error))
            wait_s = self._settle(waiting, len(body), answer)
            if wait_s is not None:
                return wait_s
        return None

    def _settle(self, waiting: Waiting, size: int, answer: Answer) -> float | None:
        if answer.status == 200 and answer.content.get("ok") is True:
            self._outbox.done(waiting)
            self.sent += 1
            self.sent_bytes += size
            self._failures = 0
            self._become("connected", "")
            return None
        reason = f"{answer.status} {str(answer.content.get('error', ''))[:200]}"
        if answer.status in _POISONED and answer.content.get("error"):
            self._outbox.put_aside(waiting)
            self.problems[f"refused: {reason}"] += 1
            return None
        return self._failed(reason, answer.retry_after_s)

    def _hello_is_due(self) -> bool:
        return self._said_hello_s is None or self._now() - self._said_hello_s > _HELLO_S

    def _hello(self) -> None:
        """ValueError: this collector speaks no protocol of ours."""
        sent_ns = time.time_ns()
        answer = self._line.request("GET", "/v1/hello")
        back_ns = time.time_ns()
        if answer.status != 200:
            raise ValueError(f"hello: {answer.status} {str(answer.content.get('error', ''))[:200]}")
        spoken = answer.content.get("protocols")
        majors = (
            [one[0] for one in spoken if isinstance(one, list) and one]
            if isinstance(spoken, list)
            else []
        )
        if PROTOCOL[0] not in majors:
            raise ValueError(f"the collector speaks protocol {majors}, this agent {PROTOCOL[0]}")
        self._observe(sent_ns, back_ns, answer)
        self._said_hello_s = self._now()

    def _post(self, body: bytes) -> Answer:
        headers = {"content-type": MEDIA_TYPE}
        best = self.clock.best
        if best is not None:
            headers[CLOCK_HEADER] = best.header
        sent_ns = time.time_ns()
        answer = self._line.request("POST", "/v1/batches", body, headers)
        self._observe(sent_ns, time.time_ns(), answer)
        return answer

    def _observe(self, sent_ns: int, back_ns: int, answer: Answer) -> None:
        received, answered = answer.content.get("received_ns"), answer.content.get("now_ns")
        if type(received) is int and type(answered) is int:
            self.clock.observe(sent_ns, received, answered, back_ns)

    def _become(self, state: str, why: str) -> None:
        if (state, why) != (self.state, self.why):
            self.state, self.why = state, why
            self._log(f"{self._target.url} {f'takes nothing: {why}' if why else 'takes batches'}")

    def _failed(self, reason: str, retry_after_s: float | None = None) -> float:
        self._failures += 1
        self._said_hello_s = None
        self._become("away", reason[:200])
        self.problems[reason[:200]] += 1
        while len(self.problems) > 32:
            self.problems.pop(next(iter(self.problems)))
        longest_s = min(_LONGEST_WAIT_S, 2.0 ** min(self._failures, 10))
        # Full jitter: a thousand agents that lost their collector at once come back one by one.
        wait_s = random.uniform(0.2, longest_s)
        return max(wait_s, retry_after_s + random.uniform(0, 2)) if retry_after_s else wait_s
