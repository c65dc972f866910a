"""The routes of the collector."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Annotated

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pilotlight.collector import capturing, ingest
from pilotlight.collector.access import COOKIE, SMALL_BODY_BYTES, Access
from pilotlight.collector.answer import failure, reply
from pilotlight.collector.collector import Collector
from pilotlight.collector.metrics import exposition
from pilotlight.collector.openapi import description
from pilotlight.collector.read import QUESTIONS
from pilotlight.errors import PilotlightError
from pilotlight.store import sandbox

_THREADS = 8
_QUESTIONS = 2


class SqlQuestion(msgspec.Struct, frozen=True):
    sql: str
    limit: Annotated[int, Meta(ge=1, le=sandbox.MOST_ROWS)] = 1000


def make_app(collector: Collector) -> Starlette:
    """The whole application; the page is part of it where it is installed."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        app.state.sql = anyio.CapacityLimiter(_QUESTIONS)
        collector.doorbell.open()
        yield

    app = Starlette(
        routes=[*_routes(), *_page()],
        middleware=[
            Middleware(Access, collector.tokens, collector.rate, collector.refused),
        ],
        exception_handlers={HTTPException: _http, PilotlightError: _failed, Exception: _broken},
        lifespan=lifespan,
    )
    app.state.collector = collector
    return app


def _routes() -> list[BaseRoute]:
    return [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/v1/login", login, methods=["POST"]),
        Route("/v1/hello", ingest.hello),
        Route("/v1/batches", ingest.batches, methods=["POST"]),
        Route("/v1/query", sql, methods=["POST"]),
        Route("/v1/requests", capturing.requests),
        Route("/v1/agreement", capturing.agreement, methods=["POST"]),
        Route("/v1/progress", capturing.progress, methods=["POST"]),
        Route("/v1/detail", capturing.detail, methods=["PUT"]),
        Route("/v1/captures", capturing.ask, methods=["POST"]),
        Route("/v1/captures/expire", capturing.expire, methods=["POST"]),
        Route("/v1/captures/files", capturing.files),
        Route("/v1/captures/file", capturing.file),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
        *(question.route for question in QUESTIONS),
    ]


def _page() -> list[BaseRoute]:
    """`pilotlight.web.routes()`: handlers find the collector in `request.app.state.collector` and
    what the one who asks may see by `answer.reader_of(request)`."""
    if importlib.util.find_spec("pilotlight.web") is None:
        return []
    routes = getattr(importlib.import_module("pilotlight.web"), "routes", None)
    return list(routes()) if routes is not None else []


async def healthz(request: Request) -> Response:
    """The process is there."""
    return reply({"ok": True})


async def readyz(request: Request) -> Response:
    """It can take batches and answer questions."""
    problem = request.app.state.collector.problem
    return reply({"ok": not problem, "problem": problem}, 503 if problem else 200)


async def login(request: Request) -> Response:
    """A browser trades its token for a cookie that scripts cannot read."""
    body = await ingest.bounded_body(request, SMALL_BODY_BYTES)
    try:
        secret = msgspec.json.decode(body or b"", type=dict[str, str]).get("token", "")
    except msgspec.MsgspecError:
        secret = ""
    tokens = request.app.state.collector.tokens
    token = tokens.find(secret)
    if token is None and tokens.are_demanded:
        return reply({"error": "not a valid token"}, 401)
    answer = reply({"ok": True})
    if token is not None:
        cookie = SimpleCookie()
        cookie[COOKIE] = secret
        cookie[COOKIE].update({"httponly": "yes", "samesite": "Strict", "path": "/"})
        if request.url.scheme == "https":
            cookie[COOKIE]["secure"] = "yes"
        answer.headers["set-cookie"] = cookie[COOKIE].OutputString()
    return answer


def metrics(request: Request) -> Response:
    """For Prometheus; of the tenant of the token."""
    text = exposition(request.app.state.collector, request.state.token.tenant)
    return Response(text, media_type="text/plain; version=0.0.4")


async def openapi(request: Request) -> Response:
    return reply(description())


async def sql(request: Request) -> Response:
    """Read-only SQL in a sandbox; values are as the engine writes them in JSON."""
    body = await ingest.bounded_body(request, SMALL_BODY_BYTES)
    if body is None:
        return reply({"error": f"at most {SMALL_BODY_BYTES} bytes"}, 413)
    try:
        question = msgspec.json.decode(body, type=SqlQuestion)
    except msgspec.MsgspecError as error:
        return reply({"error": f"not a question: {error}"}, 400)
    store, tenant = request.app.state.collector.store, request.state.token.tenant
    # Threads of their own, and few: whoever asks long questions holds up nobody else.
    found = await anyio.to_thread.run_sync(
        sandbox.query, store, tenant, question.sql, question.limit, limiter=request.app.state.sql
    )
    data = {"columns": found.columns, "rows": found.rows, "is_cut": found.is_cut}
    return reply({"data": data, "partial": found.is_partial})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return reply({"error": error.detail}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, PilotlightError)
    return failure(error)


async def _broken(request: Request, error: Exception) -> Response:
    return reply({"error": "a fault of the collector; its log says more"}, 500)
