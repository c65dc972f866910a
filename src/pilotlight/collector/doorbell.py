"""Agents wait here for requests, a connection each; whoever has one rings."""

from __future__ import annotations

import asyncio
import contextlib

Key = tuple[str, str]
"""Tenant and agent."""


class Doorbell:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Key, asyncio.Event] = {}  # the latest of each
        self._events: set[asyncio.Event] = set()
        self._is_closed = False

    def open(self) -> None:
        """Called by the loop on which agents wait."""
        self._loop = asyncio.get_running_loop()

    def ring(self, tenant: str, agent: str) -> None:
        """From any thread; nobody may be waiting."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._set, (tenant, agent))

    async def wait(self, tenant: str, agent: str, timeout_s: float) -> bool:
        """Whether it rang for the one who waits. An agent waits once: where it comes again, the
        connection before is dead, though nobody may have said so."""
        if self._is_closed:
            return False
        event = self._waiting[tenant, agent] = asyncio.Event()
        self._events.add(event)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        finally:
            self._events.discard(event)
            is_latest = self._waiting.get((tenant, agent)) is event
            if is_latest:
                del self._waiting[tenant, agent]
        return is_latest

    def close(self) -> None:
        """Nobody has to wait any longer; called by the loop."""
        self._is_closed = True
        for event in self._events:
            event.set()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _set(self, key: Key) -> None:
        event = self._waiting.get(key)
        if event is not None:
            event.set()
