"""Where a store is: a folder of this machine, or a ClickHouse named by a DSN."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from pilotlight.errors import UsageError
from pilotlight.recording.places import recordings_root

_SCHEMES = ("clickhouse", "clickhouses")


@dataclass(frozen=True)
class Server:
    """A ClickHouse server; `cluster` is a name of its remote_servers, "" for a single one."""

    host: str
    port: int
    user: str
    password: str
    database: str
    is_secure: bool
    cluster: str

    def __str__(self) -> str:
        scheme = "clickhouses" if self.is_secure else "clickhouse"
        return f"{scheme}://{self.user}@{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True)
class StorePlace:
    """`folder` has the spool, the tokens and the captures also where `server` has the tables."""

    folder: Path
    server: Server | None = None

    @property
    def database(self) -> str:
        return self.server.database if self.server is not None else "default"

    @property
    def engine(self) -> Path:
        return self.folder / "engine"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def aside(self) -> Path:
        """Batches that could not be understood, for people to look at."""
        return self.folder / "aside"

    @property
    def captures(self) -> Path:
        return self.folder / "captures"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.json"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    def __str__(self) -> str:
        return str(self.server or self.folder)


def default_folder() -> Path:
    """Beside this user's recordings."""
    return recordings_root().parent / "store"


def parse_place(text: str | None, folder: Path | None = None) -> StorePlace:
    """A folder, or clickhouse://user@host:port/database?cluster=NAME. UsageError if neither.

    The password stands in the DSN or, better, in PILOTLIGHT_STORE_PASSWORD.
    """
    if text is None or "://" not in text:
        chosen = Path(text) if text else folder or default_folder()
        return StorePlace(chosen.absolute())
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise UsageError(f"{parts.scheme}://…: a store is a folder or clickhouse://USER@HOST/DB")
    try:
        port = parts.port
    except ValueError:
        raise UsageError("the port in the store's DSN is not a number") from None
    options = parse_qs(parts.query)
    unknown = options.keys() - {"cluster"}
    if unknown:
        raise UsageError(f"the store's DSN has an unknown option {min(unknown)!r:.40}")
    is_secure = parts.scheme == "clickhouses"
    server = Server(
        host=parts.hostname,
        port=port or (8443 if is_secure else 8123),
        user=unquote(parts.username or "default"),
        password=unquote(parts.password or os.environ.get("PILOTLIGHT_STORE_PASSWORD", "")),
        database=parts.path.strip("/") or "pilotlight",
        is_secure=is_secure,
        cluster=options.get("cluster", [""])[0],
    )
    return StorePlace((folder or default_folder()).absolute(), server)
