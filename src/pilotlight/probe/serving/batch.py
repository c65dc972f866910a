"""What an engine does in one step, as counters and a range."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.phases import RANGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sized

PREFILL, DECODE, MIXED = "prefill", "decode", "prefill and decode"
_MOST_DECODED = 8


class Batch:
    """From when it is put together until its step is over."""

    __slots__ = ("kind", "start")

    def __init__(self, kind: str, requests: int, tokens: int, waiting: Sized) -> None:
        self.kind = kind
        self.start = _probe.ticks()
        _probe.counter("serving.batch", requests)
        _probe.counter("serving.tokens", tokens)
        _probe.counter("serving.queue", len(waiting))

    def ends(self) -> None:
        _probe.span(self.kind, RANGE, self.start, _probe.ticks())


def kind_of(tokens_by_request: list[int], new_requests: int) -> str:
    """Decoding takes one token a request, or a few where tokens are guessed ahead."""
    many = sum(tokens > _MOST_DECODED for tokens in tokens_by_request)
    prefilling = max(many, new_requests)
    if prefilling == 0:
        return DECODE
    return PREFILL if prefilling == len(tokens_by_request) else MIXED
