"""A signal on its way to its receiver: a thread each, and what became of every push."""

from __future__ import annotations

import contextlib
import gzip
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from pilotlight.export.otlp.receiver import Receiver

_ANSWER_BYTES = 4096
_UNWANTED_S = 1800.0
# By the specification these may be sent again; the second ones say that nobody hears such a signal.
_AGAIN = (429, 502, 503, 504)
_UNWANTED = (404, 405, 415, 501)


class Signal(Protocol):
    name: str

    def body(self, now_ns: int) -> bytes:
        """What is to be pushed now; b"": nothing."""

    def settled(self) -> None:
        """The receiver has the last body, or will never take it."""


@dataclass(frozen=True)
class Outcome:
    """`result` in a word or two."""

    result: str
    is_settled: bool = True
    is_unwanted: bool = False


@contextlib.contextmanager
def pushing(
    receiver: Receiver | None, signal: Signal, counts: Counter[tuple[str, str]]
) -> Iterator[None]:
    """Pushes from a thread of its own; a receiver that hangs or refuses delays nobody."""
    if receiver is None:
        yield
        return
    stopping = threading.Event()

    def run() -> None:
        # Not all collectors at the same moment.
        wait_s = random.uniform(0, min(receiver.every_s, 5.0))
        while not stopping.wait(wait_s):
            outcome = _push(receiver, signal)
            counts[signal.name, outcome.result] += 1
            wait_s = max(receiver.every_s, _UNWANTED_S if outcome.is_unwanted else 0.0)

    thread = threading.Thread(target=run, name=f"otlp {signal.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(receiver.timeout_s)


def _push(receiver: Receiver, signal: Signal) -> Outcome:
    try:
        body = signal.body(time.time_ns())
        outcome = post(receiver, body) if body else Outcome("nothing to push")
        if outcome.is_settled:
            signal.settled()
    except Exception as error:  # the thread goes on: the next push may work
        return Outcome(f"failed: {type(error).__name__}", is_settled=False)
    return outcome


def post(receiver: Receiver, body: bytes) -> Outcome:
    headers = {"content-type": "application/x-protobuf", **receiver.headers}
    if receiver.is_packed:
        body = gzip.compress(body, 1)
        headers["content-encoding"] = "gzip"
    asked = urllib.request.Request(receiver.url, body, headers, method="POST")
    try:
        context = None
        if receiver.url.startswith("https:"):
            context = ssl.create_default_context(cafile=receiver.authority or None)
        with urllib.request.urlopen(asked, timeout=receiver.timeout_s, context=context) as answer:
            rejected = rejected_of(answer.read(_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            is_again, is_unwanted = error.code in _AGAIN, error.code in _UNWANTED
            return Outcome(f"refused: {error.code}", not is_again, is_unwanted)
    except (OSError, ValueError) as error:
        return Outcome(f"failed: {type(error).__name__}", is_settled=False)
    return Outcome("sent in part" if rejected else "sent")


def rejected_of(answer: bytes) -> int:
    """How much the receiver did not take of what it answered 200 to: the first number of
    `partial_success`, which is the first field of the answer to every signal. 0 for what is no such
    answer."""
    try:
        inner = _field(answer)
        number = _field(inner) if isinstance(inner, bytes) else 0
    except IndexError:
        return 0
    return number if isinstance(number, int) else 0


def _field(content: bytes) -> int | bytes:
    """The first field, if it has the number 1."""
    if not content or content[0] >> 3 != 1:
        return 0
    number = shift = 0
    place = 1
    while content[place] & 0x80:
        number |= (content[place] & 0x7F) << shift
        shift += 7
        place += 1
    number |= content[place] << shift
    is_bytes = content[0] & 7 == 2
    return content[place + 1 : place + 1 + number] if is_bytes else number
