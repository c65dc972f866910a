"""Tells an open page that there is news, so that it asks again; the data itself it fetches."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

LOOK_S = 1.0
BEHIND_STEP_S = 10
SILENCE_S = 20.0
MOST_LISTENERS = 200

_listeners = 0


def live_route() -> Route:
    return Route("/api/live", live, methods=["GET"])


async def live(request: Request) -> Response:
    """Server-sent events: `news` when rows came in, `behind` when what came waits longer or less
    long for the tables, a comment now and then to keep it open."""
    if _listeners >= MOST_LISTENERS:
        return Response('{"error": "too many pages listen"}', 503, media_type="application/json")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(request), media_type="text/event-stream", headers=headers)


async def _events(request: Request) -> AsyncIterator[bytes]:
    global _listeners
    collector = request.app.state.collector
    writer, taken = collector.writer, collector.writer.taken
    seen, silent_s, told_s = taken.inserted_batches, 0.0, 0
    _listeners += 1
    try:
        yield b"retry: 3000\n\n"
        # Else a page that is open would hold up the end of the server.
        while not collector.doorbell.is_closed and not await request.is_disconnected():
            await asyncio.sleep(LOOK_S)
            silent_s += LOOK_S
            behind_s = writer.behind_ns(time.time_ns()) // 1_000_000_000
            behind_s -= behind_s % BEHIND_STEP_S
            if behind_s != told_s:
                told_s = behind_s
                yield f"event: behind\ndata: {behind_s}\n\n".encode()
            if taken.inserted_batches != seen:
                seen, silent_s = taken.inserted_batches, 0.0
                yield f"event: news\ndata: {json.dumps({'batches': seen})}\n\n".encode()
            elif silent_s >= SILENCE_S:
                silent_s = 0.0
                yield b": still here\n\n"
    finally:
        _listeners -= 1
