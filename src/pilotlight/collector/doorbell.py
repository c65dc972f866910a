"""Agents wait here for requests, a connection each; whoever has one rings."""

from __future__ import annotations

import asyncio
import contextlib

Key = tuple[str, str]
"""Tenant and agent."""


class Doorbell:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Key, asyncio.Event] = {}
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

    async def wait(self, tenant: str, agent: str, timeout_s: float) -> None:
        if self._is_closed:
            return
        event = self._waiting.setdefault((tenant, agent), asyncio.Event())
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except asyncio.TimeoutError:
            pass
        finally:
            if self._waiting.get((tenant, agent)) is event:
                del self._waiting[tenant, agent]

    def close(self) -> None:
        """Nobody has to wait any longer; called by the loop."""
        self._is_closed = True
        for event in self._waiting.values():
            event.set()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _set(self, key: Key) -> None:
        event = self._waiting.get(key)
        if event is not None:
            event.set()
