"""Tokens: who may do what, hashed at rest, read again whenever the file changes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pilotlight.errors import FormatError, NotFound, UsageError
from pilotlight.recording.fields import read_object, take

SCOPES = ("ingest", "read", "capture", "admin")
DAY_NS = 86_400 * 10**9
_PREFIX = "plk"
_TENANT = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MOST_DAYS = 36_500
_LOOK_NS = 500_000_000
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True)
class Token:
    """`hash` is SHA-256 of 256 random bits, which nobody guesses: no salt, no slow hash."""

    id: str
    hash: str
    scopes: tuple[str, ...]
    tenant: str
    name: str
    created_ns: int
    expires_ns: int

    def allows(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def is_valid_at(self, now_ns: int) -> bool:
        return not self.expires_ns or now_ns < self.expires_ns


class Tokens:
    """What a running collector asks. A file that cannot be read lets nobody in; without tokens
    everybody on this machine is, unless `always_demanded`, which is for all other addresses."""

    def __init__(self, path: Path, always_demanded: bool = False) -> None:
        self._path = path
        self._always_demanded = always_demanded
        self._stamp: tuple[int, int, int] | None = None
        self._looked_ns = -_LOOK_NS
        self._by_id: dict[str, Token] = {}
        self.problem = ""

    @property
    def are_demanded(self) -> bool:
        self._look()
        return self._always_demanded or bool(self._by_id) or bool(self.problem)

    def find(self, secret: str) -> Token | None:
        """The token behind a secret, if it is one and has not expired."""
        self._look()
        parts = secret.split("_")
        id, rest = (parts[1], parts[2]) if len(parts) == 3 and parts[0] == _PREFIX else ("", "")
        known = self._by_id.get(id)
        # The same work whether the id is known or not.
        expected = known.hash if known else _NOBODY
        is_right = hmac.compare_digest(hashlib.sha256(rest.encode()).hexdigest(), expected)
        if known is None or not is_right or not known.is_valid_at(time.time_ns()):
            return None
        return known

    def _look(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns < _LOOK_NS:
            return
        self._looked_ns = now_ns
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._by_id, self.problem = None, {}, ""
            return
        except OSError as error:
            self._by_id, self.problem = {}, f"{self._path}: {error.strerror}"
            return
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._by_id = {token.id: token for token in read_tokens(self._path)}
            self.problem = ""
        except (OSError, FormatError) as error:
            self._by_id, self.problem = {}, str(error)


def read_tokens(path: Path) -> list[Token]:
    """[] if there is no file."""
    try:
        entries = take(read_object(path), "tokens", list)
    except FileNotFoundError:
        return []
    tokens = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise FormatError(f"{path}: a token is not an object")
        scopes = take(entry, "scopes", list)
        tokens.append(
            Token(
                id=take(entry, "id", str),
                hash=take(entry, "hash", str),
                scopes=tuple(scope for scope in scopes if scope in SCOPES),
                tenant=take(entry, "tenant", str),
                name=take(entry, "name", str),
                created_ns=take(entry, "created_ns", int),
                expires_ns=take(entry, "expires_ns", int),
            )
        )
    return tokens


def create_token(
    path: Path, scopes: Sequence[str], tenant: str, name: str, days: float
) -> tuple[str, Token]:
    """The secret, which is shown once and never stored, and what is stored of it."""
    wrong = [scope for scope in scopes if scope not in SCOPES]
    if wrong or not scopes:
        raise UsageError(f"scope {', '.join(wrong) or 'missing'}: have {', '.join(SCOPES)}")
    if not _TENANT.fullmatch(tenant):
        raise UsageError(f"tenant {tenant!r:.40}: letters, digits, - and _ only")
    if not 0 <= days <= _MOST_DAYS:
        raise UsageError(f"days {days:g}: from 0 (for ever) to {_MOST_DAYS}")
    id, rest = secrets.token_hex(6), secrets.token_urlsafe(32).replace("_", "-")
    now_ns = time.time_ns()
    token = Token(
        id=id,
        hash=hashlib.sha256(rest.encode()).hexdigest(),
        scopes=tuple(scopes),
        tenant=tenant,
        name=name,
        created_ns=now_ns,
        expires_ns=int(now_ns + days * DAY_NS) if days else 0,
    )
    with _changing(path) as tokens:
        tokens.append(token)
    return f"{_PREFIX}_{id}_{rest}", token


def revoke_token(path: Path, id: str) -> Token:
    """A running collector notices within a second."""
    with _changing(path) as tokens:
        for token in tokens:
            if token.id == id:
                tokens.remove(token)
                return token
    raise NotFound(f"no token {id}; `pilotlight token list` shows them")


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[list[Token]]:
    """Read, change, replace as a whole; two at once wait for each other."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        tokens = read_tokens(path)
        yield tokens
        beside = path.with_suffix(".new")
        writer = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(writer, "w") as stream:
            json.dump({"tokens": [asdict(token) for token in tokens]}, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        os.close(handle)
