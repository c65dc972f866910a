"""Requests in, answers out: numbers checked, errors as one line of JSON."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pilotlight.errors import NotFound, PilotlightError, UsageError
from pilotlight.web.table import MEDIA_TYPE

GREATEST = 1 << 53


def json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def arrow(data: bytes) -> Response:
    return Response(data, media_type=MEDIA_TYPE)


def protected(handler: Callable[[Request], Response], request: Request) -> Response:
    """What the handler says, or why it cannot."""
    try:
        return handler(request)
    except NotFound as error:
        return json({"error": str(error)}, 404)
    except PilotlightError as error:
        return json({"error": str(error)}, 400)


def number(request: Request, name: str, default: int) -> int:
    found = optional_number(request, name)
    return default if found is None else found


def optional_number(request: Request, name: str) -> int | None:
    """A whole number from the query; UsageError for anything else."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    digits = text[1:] if text.startswith("-") else text
    if not digits.isdecimal() or len(digits) > 17 or abs(int(text)) > GREATEST:
        raise UsageError(f"{name}={text[:40]!r}: not a whole number")
    return int(text)
