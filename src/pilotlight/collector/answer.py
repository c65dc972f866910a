"""Answers as JSON, and the values of query strings, checked."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pilotlight.errors import NotFound, PilotlightError, UsageError
from pilotlight.store.queries import Reader, Span
from pilotlight.store.queries.reader import PATIENCE_NS

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 400 * 86_400
_AHEAD_NS = 60_000_000_000


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    data = msgspec.json.encode(content)
    return Response(data, status, dict(headers or {}), "application/json")


def failure(error: PilotlightError, status: int | None = None) -> Response:
    if status is None:
        status = 404 if isinstance(error, NotFound) else 400 if error.exit_code == 2 else 500
    return reply({"error": str(error)}, status)


def reader_of(request: Request) -> Reader:
    """What the one who asks may see."""
    token = request.state.token
    collector = request.app.state.collector
    patience_ns = max(PATIENCE_NS, collector.watcher.patience_ns(token.tenant))
    # Nobody is lost because what they sent waits here.
    patience_ns += collector.writer.behind_ns(time.time_ns())
    return Reader(collector.store, token.tenant, patience_ns=patience_ns)


def parse_duration_s(text: str) -> float:
    """`90s`, `15m`, `1h`, `30d`: seconds; UsageError if it is none."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])", text)
    if match is None:
        raise UsageError(f"{text!r:.40}: not a length of time; write 90s, 15m, 1h or 30d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"{text!r:.40}: between 0 and 400 days")
    return seconds


def span_of(request: Request) -> Span:
    """?since=1h, or ?from_ns=...&to_ns=..."""
    query = request.query_params
    if "from_ns" in query or "to_ns" in query:
        return Span(
            number(request, "from_ns", 0, 0, 1 << 62),
            number(request, "to_ns", 1 << 62, 0, 1 << 62),
        )
    now_ns = time.time_ns()
    length_s = parse_duration_s(query.get("since", "1h"))
    return Span(now_ns - int(length_s * 1e9), now_ns + _AHEAD_NS)


def number(request: Request, name: str, default: int, lowest: int, highest: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?\d{1,19}", text):
        raise UsageError(f"{name} is not a number")
    value = int(text)
    if not lowest <= value <= highest:
        raise UsageError(f"{name} is not between {lowest} and {highest}")
    return value


def text(request: Request, name: str, default: str | None = None) -> str:
    value: str | None = request.query_params.get(name, default)
    if value is None:
        raise UsageError(f"?{name}= is missing")
    if len(value) > 500 or "\x00" in value:
        raise UsageError(f"{name} is too long or has a zero in it")
    return value
