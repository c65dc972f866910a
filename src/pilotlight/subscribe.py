"""Live messages of the agent, as an iterator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pilotlight.client import Client
from pilotlight.errors import UsageError
from pilotlight.tier import ASKED

KINDS = ("status", "steps", "windows", "spans", "processes", "devices", "coverage")


@dataclass(frozen=True)
class Lag:
    """How far this subscriber is behind: what waits for it, and what it never got."""

    queued: int = 0
    dropped: int = 0


class Subscription:
    """Iterate to get messages as dictionaries with `kind`, `job` and `rows`; close when done.

    A subscriber that reads too slowly loses the oldest messages; `lag` says how many.
    """

    def __init__(self, kinds: Sequence[str], job: str | None, tier: str | None) -> None:
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown or not kinds:
            raise UsageError(
                f"no such kind: {', '.join(unknown) or 'none'}; have {', '.join(KINDS)}"
            )
        if tier is not None and tier not in ASKED:
            raise UsageError(f"no such tier: {tier}; have {', '.join(ASKED)}")
        self.lag = Lag()
        self._client = Client()
        try:
            self._client.ask("subscribe", kinds=list(kinds), job=job, tier=tier)
        except BaseException:
            self._client.close()
            raise
        self._client.wait_forever()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        while True:
            message = self._client.next_line()
            if message.get("kind") != "lag":
                return message
            self.lag = Lag(int(message.get("queued", 0)), int(message.get("dropped", 0)))

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def subscribe(
    kinds: Sequence[str] = ("steps",), job: str | None = None, tier: str | None = None
) -> Subscription:
    """What the agent sees, as it happens: `for message in subscribe(): print(message["rows"])`.

    `kinds` are any of status, steps, windows, spans, processes, devices and coverage; `job` leaves
    out all others. `tier` (launches, records, nodes, pc, pm or range) asks for that much of the
    GPUs as long as this subscription is open: the widest request counts, and `coverage` says what
    came of it.
    Raises AgentError if no agent runs, and while iterating when the agent goes away.
    """
    return Subscription(kinds, job, tier)
