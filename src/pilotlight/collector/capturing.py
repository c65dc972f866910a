"""Captures over HTTP: people ask, agents fetch requests and bring detail, people read it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response

from pilotlight.capture.agree import Proposal, RankSteps
from pilotlight.capture.told import RankTold
from pilotlight.collector.access import SMALL_BODY_BYTES
from pilotlight.collector.answer import failure, number, reply, text
from pilotlight.collector.ingest import bounded_body
from pilotlight.errors import FormatError, NotFound, PilotlightError, UsageError
from pilotlight.ship.wire import CLOCK_HEADER, STEPS_HEADER, STEPS_LIMIT_BYTES

PROGRESS_BYTES = 1 << 20
_LONGEST_WAIT_S = 55
_LONGEST_AGREEING_S = 30.0
_LOOK_S = 0.2
_LARGEST_NS = 1 << 62


class Question(msgspec.Struct, frozen=True):
    """No ranks: all of them. `steps` asks for a trace of that many steps besides, `detail` for what
    else these shall hold."""

    job: Annotated[str, Meta(min_length=1, max_length=200)]
    ranks: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=100_000)] = []
    seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    steps: Annotated[int, Meta(ge=0, le=1000)] = 0
    detail: Annotated[list[Literal["stacks", "shapes", "memory"]], Meta(max_length=3)] = []


async def ask(request: Request) -> Response:
    """A person wants a capture."""
    body = await bounded_body(request, SMALL_BODY_BYTES)
    if body is None:
        return reply({"error": f"at most {SMALL_BODY_BYTES} bytes"}, 413)
    try:
        question = msgspec.json.decode(body, type=Question)
    except msgspec.MsgspecError as error:
        return reply({"error": f"not a question: {error}"}, 400)
    return await run_in_threadpool(_ask, request, question)


def _ask(request: Request, question: Question) -> Response:
    collector, token = request.app.state.collector, request.state.token
    attempt, agents = collector.watcher.agents_of(
        token.tenant, question.job, question.ranks or None
    )
    if not agents:
        return failure(NotFound(f"no running job {question.job} with such ranks"))
    options = {"steps": question.steps, "detail": question.detail} if question.steps else {}
    try:
        capture = collector.desk.ask(
            token.tenant,
            question.job,
            attempt,
            agents,
            question.seconds,
            "user",
            token.name or token.id,
            options=options,
        )
    except UsageError as error:
        return reply({"error": str(error)}, 429, {"retry-after": "10"})
    except PilotlightError as error:
        return failure(error)
    return reply({"data": {"id": capture.id, "ranks": capture.ranks}, "partial": False})


class Unwanted(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=64)]


async def expire(request: Request) -> Response:
    """A person wants the files of a capture gone before their time."""
    body = await bounded_body(request, SMALL_BODY_BYTES)
    try:
        unwanted = msgspec.json.decode(body or b"", type=Unwanted)
    except msgspec.MsgspecError as error:
        return reply({"error": f"not a capture: {error}"}, 400)
    desk, token = request.app.state.collector.desk, request.state.token
    who = token.name or token.id
    try:
        await run_in_threadpool(desk.discard, token.tenant, unwanted.id, who)
    except PilotlightError as error:
        return failure(error)
    return reply({"data": {"id": unwanted.id}, "partial": False})


async def requests(request: Request) -> Response:
    """An agent waits for something to do."""
    collector, token = request.app.state.collector, request.state.token
    try:
        agent = text(request, "agent")
        wait_s = number(request, "wait", 25, 0, _LONGEST_WAIT_S)
    except UsageError as error:
        return failure(error)
    found = collector.desk.pending(token.tenant, agent)
    if not found and wait_s:
        has_rung = await collector.doorbell.wait(token.tenant, agent, wait_s)
        # What is handed to an agent that has hung up would be lost to its next connection.
        if has_rung and not await request.is_disconnected():
            found = collector.desk.pending(token.tenant, agent)
    return reply({"ok": True, "requests": found})


async def agreement(request: Request) -> Response:
    """An agent says from which step on it could trace, and waits for what all of them will do."""
    desk, tenant = request.app.state.collector.desk, request.state.token.tenant
    body = await bounded_body(request, SMALL_BODY_BYTES)
    if body is None:
        return reply({"error": f"at most {SMALL_BODY_BYTES} bytes"}, 413)
    deadline_s = time.monotonic() + _LONGEST_AGREEING_S
    try:
        id, agent = text(request, "capture"), text(request, "agent")
        content = msgspec.json.decode(body, type=dict[str, int | None])
        desk.propose(tenant, id, agent, Proposal.from_json(content))
        while (decided := desk.decided(tenant, id, agent)) is None:
            if time.monotonic() > deadline_s:
                return reply({"error": "the nodes did not agree"}, 503)
            await asyncio.sleep(_LOOK_S)
    except msgspec.MsgspecError as error:
        return reply({"error": f"not a proposal: {error}"}, 400)
    except FormatError as error:
        return failure(error, 400)
    except PilotlightError as error:
        return failure(error)
    return reply({"ok": True, "first_step": decided.first_step, "start_ns": decided.start_ns})


async def progress(request: Request) -> Response:
    """An agent says how far each of its ranks is."""
    desk, tenant = request.app.state.collector.desk, request.state.token.tenant
    body = await bounded_body(request, PROGRESS_BYTES)
    if body is None:
        return reply({"error": f"at most {PROGRESS_BYTES} bytes"}, 413)
    try:
        id, agent = text(request, "capture"), text(request, "agent")
        content = msgspec.json.decode(body, type=list[dict[str, int | str]])
        told = [RankTold.from_json(one) for one in content]
        await run_in_threadpool(desk.told, tenant, id, agent, told)
    except msgspec.MsgspecError as error:
        return reply({"error": f"not how far ranks are: {error}"}, 400)
    except FormatError as error:
        return failure(error, 400)
    except PilotlightError as error:
        return failure(error)
    return reply({"ok": True})


async def detail(request: Request) -> Response:
    """An agent brings its part of a capture, as a tar archive under zstd."""
    collector, token = request.app.state.collector, request.state.token
    try:
        id, agent = text(request, "capture"), text(request, "agent")
        refused = text(request, "refused", "")
        if refused:
            await run_in_threadpool(collector.desk.refused, token.tenant, id, agent, refused)
            return reply({"ok": True})
        path, limit_bytes = collector.desk.place_for(token.tenant, id, agent)
    except PilotlightError as error:
        return failure(error)
    beside = path.with_suffix(".part")
    size = 0
    try:
        with beside.open("wb") as stream:
            async for piece in request.stream():
                size += len(piece)
                if size > limit_bytes:
                    raise UsageError(f"at most {limit_bytes} bytes")
                await run_in_threadpool(stream.write, piece)
            stream.flush()
            await run_in_threadpool(os.fsync, stream.fileno())
        beside.replace(path)
    except (UsageError, OSError, ClientDisconnect) as error:
        beside.unlink(missing_ok=True)
        status = 413 if isinstance(error, UsageError) else 503
        return reply({"error": str(error) or "hung up"}, status)
    facts = {"file": path.name, **_said(request.headers)}
    await run_in_threadpool(collector.desk.delivered, id, agent, size, facts)
    return reply({"ok": True})


def _said(headers: Mapping[str, str]) -> dict[str, object]:
    """The agent's clock and the steps of its traces; what cannot be is left out."""
    offset, _, uncertainty = headers.get(CLOCK_HEADER, "0;0").partition(";")
    steps = headers.get(STEPS_HEADER, "[]")[: STEPS_LIMIT_BYTES + 1]
    try:
        decoded = msgspec.json.decode(steps, type=list[dict[str, int]])
        traced = [asdict(RankSteps.from_json(one)) for one in decoded]
    except (msgspec.MsgspecError, FormatError):
        traced = []
    return {
        "offset_ns": _number(offset.removeprefix("-")) * (-1 if offset.startswith("-") else 1),
        "uncertainty_ns": _number(uncertainty),
        "steps": traced,
    }


def _number(digits: str) -> int:
    is_one = digits.isascii() and digits.isdigit() and len(digits) < 20
    return min(int(digits), _LARGEST_NS) if is_one else 0


def files(request: Request) -> Response:
    """The files of a capture."""
    try:
        id = _own(request)
    except PilotlightError as error:
        return failure(error)
    found = request.app.state.collector.desk.shelf.files(id)
    data = [{"name": name, "bytes": size} for name, size in found]
    return reply({"data": data, "partial": False})


def file(request: Request) -> Response:
    """One file of a capture."""
    try:
        path = request.app.state.collector.desk.shelf.file(_own(request), text(request, "name"))
    except PilotlightError as error:
        return failure(error)
    return FileResponse(path, filename=path.name)


def _own(request: Request) -> str:
    """NotFound: it is not a capture of this tenant."""
    id = text(request, "id")
    found = request.app.state.collector.store.select(
        "SELECT count() FROM captures WHERE tenant = {tenant:String} AND id = {id:String}",
        {"tenant": request.state.token.tenant, "id": id},
    )
    if not found[0][0]:
        raise NotFound(f"no capture {id}")
    return id
