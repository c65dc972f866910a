"""Requests in, answers out: numbers checked, errors as one line of JSON."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pilotlight.errors import NotFound, PilotlightError, UsageError
from pilotlight.web.table import MEDIA_TYPE

GREATEST = 1 << 62
SMALLEST_BYTES = 2048


def json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def arrow(data: bytes) -> Response:
    return Response(data, media_type=MEDIA_TYPE)


def protected(handler: Callable[[Request], Response], request: Request) -> Response:
    """What the handler says, or why it cannot."""
    try:
        return packed(request, handler(request))
    except NotFound as error:
        return json({"error": str(error)}, 404)
    except PilotlightError as error:
        return json({"error": str(error)}, 400)


def packed(request: Request, response: Response) -> Response:
    """Compressed where it is worth it and the browser can read it."""
    body = bytes(response.body)
    if len(body) >= SMALLEST_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        response.body = gzip.compress(body, 1, mtime=0)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
        response.headers["vary"] = "accept-encoding"
    return response


def number(request: Request, name: str, default: int) -> int:
    found = optional_number(request, name)
    return default if found is None else found


def optional_number(request: Request, name: str) -> int | None:
    """A whole number from the query; UsageError for anything else."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    digits = text[1:] if text.startswith("-") else text
    if not digits.isdecimal() or len(digits) > 19 or abs(int(text)) > GREATEST:
        raise UsageError(f"{name}={text[:40]!r}: not a whole number")
    return int(text)
