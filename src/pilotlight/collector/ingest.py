"""What agents send: hello, batches."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import Future

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pilotlight import __version__
from pilotlight.collector.answer import failure, reply
from pilotlight.errors import FormatError
from pilotlight.ship.wire import BODY_LIMIT_BYTES, CLOCK_HEADER, PROTOCOL
from pilotlight.store.batch import Batch, Clock, decode
from pilotlight.store.writer import Full

# Above this a body is decoded on another thread, so that the others need not wait.
_INLINE_BYTES = 64 << 10
_LARGEST_OFFSET_NS = 10 * 365 * 86_400 * 10**9


async def hello(request: Request) -> Response:
    """What this collector speaks and the time it has: agents tell their clock's offset from it."""
    received_ns = time.time_ns()
    return reply(
        {
            "collector": __version__,
            "protocols": [list(PROTOCOL)],
            "received_ns": received_ns,
            "now_ns": time.time_ns(),
            "body_limit_bytes": BODY_LIMIT_BYTES,
        }
    )


async def batches(request: Request) -> Response:
    """200: it is on disk, once. 400: never send it again. 429, 503: later."""
    received_ns = time.time_ns()
    try:
        body = await bounded_body(request, BODY_LIMIT_BYTES)
    except ClientDisconnect:
        return reply({"error": "hung up"}, 400)
    if body is None:
        return reply({"error": f"at most {BODY_LIMIT_BYTES} bytes"}, 413)
    writer = request.app.state.collector.writer
    token = request.state.token
    try:
        clock = _clock(request.headers.get(CLOCK_HEADER, ""))
        if len(body) <= _INLINE_BYTES:
            batch = decode(token.tenant, body, clock, received_ns)
        else:
            batch = await run_in_threadpool(decode, token.tenant, body, clock, received_ns)
    except FormatError as error:
        await run_in_threadpool(writer.put_aside, body, token.tenant, str(error))
        return failure(error, 400)
    try:
        is_new = await _safe(request, body, batch)
    except Full as error:
        wait_s = random.uniform(2, 8)
        return reply({"error": str(error)}, 429, {"retry-after": f"{wait_s:.0f}"})
    return reply({"ok": True, "new": is_new, "now_ns": time.time_ns(), "received_ns": received_ns})


async def _safe(request: Request, body: bytes, batch: Batch) -> bool:
    future: Future[bool] = request.app.state.collector.writer.submit(body, batch)
    if future.done():
        return future.result()
    return await asyncio.shield(asyncio.wrap_future(future))


async def bounded_body(request: Request, limit_bytes: int) -> bytes | None:
    """None if it is longer; the rest of it is not read."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit_bytes:
        return None
    pieces = bytearray()
    async for piece in request.stream():
        pieces += piece
        if len(pieces) > limit_bytes:
            return None
    return bytes(pieces)


def _clock(text: str) -> Clock:
    """`offset;uncertainty` in ns, as the agent measured them; none: it has not yet."""
    if not text:
        return Clock()
    offset, _, uncertainty = text.partition(";")
    try:
        clock = Clock(int(offset), int(uncertainty))
    except ValueError:
        raise FormatError(f"{CLOCK_HEADER} is not two numbers") from None
    if abs(clock.offset_ns) > _LARGEST_OFFSET_NS or not 0 <= clock.uncertainty_ns < 1 << 62:
        raise FormatError(f"{CLOCK_HEADER}: no clock is that wrong")
    return clock
