"""The built page as static files, and the headers that every answer carries."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotlight import __version__
from pilotlight.web import answers
from pilotlight.web.reply import json

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    # Not stricter: a click may hand a trace to a window of Perfetto's.
    (b"cross-origin-opener-policy", b"same-origin-allow-popups"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_NAMES = ("index.html", "assets/page.js", "assets/page.css")


def about_route(kind: str) -> Route:
    """What the page is served by: a collector, or a viewer of traces."""

    async def answer(request: Request) -> Response:
        return json(answers.About(kind, __version__))

    return Route("/api/about", answer, methods=["GET"])


def page_routes(kind: str) -> list[Route]:
    """The page at / and its two files beside it; the page knows of which kind its server is."""
    told = f'<div id="page" data-kind="{kind}">'.encode()
    return [_file_route(name, _file(name).replace(b'<div id="page">', told)) for name in _NAMES]


def _file(name: str) -> bytes:
    return (files("pilotlight.web") / "page" / name).read_bytes()


def _file_route(name: str, data: bytes) -> Route:
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    small = gzip.compress(data, 9, mtime=0)
    kind = _KINDS["." + name.rsplit(".", 1)[1]]

    async def answer(request: Request) -> Response:
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        headers |= {name.decode(): value.decode() for name, value in HEADERS}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(small, media_type=kind, headers={**headers, "content-encoding": "gzip"})
        return Response(data, media_type=kind, headers=headers)

    return Route("/" if name == "index.html" else f"/{name}", answer, methods=["GET"])


class Guarded:
    """Adds HEADERS and keeps answers of the API out of caches."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                added = [pair for pair in HEADERS if pair[0] not in known]
                if scope["path"].startswith("/api/") and b"cache-control" not in known:
                    added.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, guarded)
