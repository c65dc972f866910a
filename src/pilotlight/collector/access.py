"""Every request passes here first: where it comes from, whose it is, what it may, how often."""

from __future__ import annotations

import ipaddress
import json
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotlight.collector.tokens import Token, Tokens

COOKIE = "pilotlight"
SMALL_BODY_BYTES = 64 << 10
_OPEN_PATHS = ("/healthz", "/readyz", "/v1/login", "/openapi.json")
_OPEN_PREFIXES = ("/static/", "/assets/")
_INGEST_PATHS = (
    "/v1/hello",
    "/v1/batches",
    "/v1/requests",
    "/v1/agreement",
    "/v1/progress",
    "/v1/detail",
)
_LOCAL = Token("", "", ("admin",), "default", "this machine", 0, 0)
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        b"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
)


@dataclass(frozen=True)
class Rate:
    """Requests of one peer: so many a second in the long run, `burst` at once."""

    per_s: float = 500.0
    burst: float = 2000.0


class Rates:
    """A bucket a peer, the latest few thousand."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, peer: str, now_s: float) -> float:
        """0 if it may pass, else in how many seconds it should come again."""
        left, since = self._buckets.pop(peer, (self._rate.burst, now_s))
        left = min(self._rate.burst, left + (now_s - since) * self._rate.per_s) - 1
        self._buckets[peer] = (max(left, -1.0), now_s)
        while len(self._buckets) > 4096:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 0 else 1.0 / self._rate.per_s


class Access:
    """Middleware. `scope["state"]["token"]` says whose request it is."""

    def __init__(self, app: ASGIApp, tokens: Tokens, rate: Rate, refused: Counter[str]) -> None:
        self._app = app
        self._tokens = tokens
        self._rates = Rates(rate)
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        peer = scope["client"][0] if scope.get("client") else "?"
        wait_s = self._rates.take(peer, time.monotonic())
        if wait_s:
            await self._refuse(send, 429, "too many requests", {"retry-after": "1"})
            return
        status, reason = self._check(scope, headers)
        if status:
            extra = {"www-authenticate": "Bearer"} if status == 401 else {}
            await self._refuse(send, status, reason, extra)
            return
        await self._app(scope, receive, _with_headers(send))

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str]:
        path, method = scope["path"], scope["method"]
        state = scope.setdefault("state", {})
        if not self._tokens.are_demanded:
            # Nobody but this machine can connect; a browser on it may be led here by a stranger.
            if not _is_local_name(headers.get("host", "")):
                return 421, "this collector answers to localhost only"
            if _is_foreign(headers):
                return 403, "another site asks"
            state["token"] = _LOCAL
            return 0, ""
        if path in _OPEN_PATHS or path == "/" or path.startswith(_OPEN_PREFIXES):
            state["token"] = None
            return 0, ""
        secret, from_cookie = _secret(headers)
        token = self._tokens.find(secret) if secret else None
        if token is None:
            return 401, "a valid token is needed"
        if from_cookie and method not in _SAFE and _is_foreign(headers):
            return 403, "another site asks"
        needed = scope_of(path, method)
        if not token.allows(needed):
            return 403, f"this token has not the scope {needed}"
        state["token"] = token
        return 0, ""

    async def _refuse(self, send: Send, status: int, reason: str, extra: Mapping[str, str]) -> None:
        self._refused[f"{status} {reason}"] += 1
        body = json.dumps({"error": reason}).encode()
        headers = [(key.encode(), value.encode()) for key, value in extra.items()]
        headers += [(b"content-type", b"application/json"), *_HEADERS]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def scope_of(path: str, method: str) -> str:
    """What a request needs to be allowed to do."""
    if path.startswith(_INGEST_PATHS):
        return "ingest"
    if path.startswith("/v1/admin"):
        return "admin"
    if path in ("/v1/captures", "/v1/captures/expire") and method == "POST":
        return "capture"
    return "read"


def _secret(headers: Mapping[str, str]) -> tuple[str, bool]:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return secret.strip(), False
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return "", False
    return (cookie.value, True) if cookie else ("", False)


def _is_local_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname if host else ""
        if name in ("localhost", "testserver"):
            return True
        return ipaddress.ip_address(name or "").is_loopback
    except ValueError:
        return False


def _is_foreign(headers: Mapping[str, str]) -> bool:
    """A browser says from which site a request comes."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return headers.get("sec-fetch-mode") != "navigate"
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc != headers.get("host")
    except ValueError:
        return True


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {key for key, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((key, value) for key, value in _HEADERS if key not in present),
            ]
        await send(message)

    return wrapped
