"""A store that is open: one engine, its own lock, a client for every thread."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from pilotlight.errors import StoreError
from pilotlight.store.ddl import days_of, local_name, statements, ttl
from pilotlight.store.migration import migrate
from pilotlight.store.place import Server, StorePlace
from pilotlight.store.schema import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
Parameters = Mapping[str, object]
T = TypeVar("T")

_MISSING = "the store needs the server parts: pip install 'pilotlight[server]'"
# ALL_CONNECTION_TRIES_FAILED, NETWORK_ERROR, SOCKET_TIMEOUT, ALL_REPLICAS_ARE_STALE
_SHARD_DOWN = (279, 210, 209, 369)
_UNKNOWN_DATABASE = 81
# TIMEOUT_EXCEEDED, TOO_MANY_SIMULTANEOUS_QUERIES, NO_ZOOKEEPER, MEMORY_LIMIT_EXCEEDED,
# TABLE_IS_READ_ONLY (its keeper is away), NOT_ENOUGH_SPACE, TOO_MANY_PARTS, TOO_FEW_LIVE_REPLICAS,
# UNKNOWN_STATUS_OF_INSERT, QUERY_WAS_CANCELLED (the server stops), KEEPER_EXCEPTION
_PASSING = (159, 202, 225, 241, 242, 243, 252, 285, 319, 394, 999)
_QUERY_MEMORY_BYTES = 2 << 30
_BESIDE_THREADS = 3
_DAY_NS = 86_400 * 10**9
_SETTINGS = {
    "max_memory_usage": _QUERY_MEMORY_BYTES,
    # To compile a query takes the engine a quarter of a second, and saves a few milliseconds.
    "compile_expressions": 0,
    "compile_aggregate_expressions": 0,
    "compile_sort_description": 0,
    # New servers collect inserts on their own account, and what they collect is not told apart by
    # its token: a segment that is sent twice would count twice.
    "async_insert": 0,
    "insert_deduplicate": 1,
}


class Store:
    """StoreError: it cannot be opened, with the reason. Close it when done.

    `keep_days`: how long tables keep rows where that is not the schema's; without it, as it is.
    """

    def __init__(
        self,
        place: StorePlace,
        keep_days: Mapping[str, int] | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.place = place
        self._progress = progress
        self._lock_file = _locked(place)
        self._threads = threading.local()
        self._clients: list[Any] = []
        self._guard = threading.Lock()
        self._beside: ThreadPoolExecutor | None = None
        self._kept: Mapping[str, int] = {}
        try:
            self._make_database()
            self._migrate(keep_days)
        except BaseException:
            self.close()
            raise

    @property
    def is_distributed(self) -> bool:
        return self.place.server is not None and bool(self.place.server.cluster)

    def select(
        self,
        sql: str,
        parameters: Parameters | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> list[Row]:
        """The rows of a query; StoreError with the engine's reason."""
        try:
            found = self._client().query(
                sql, parameters=dict(parameters or {}), settings=dict(settings or {})
            )
        except Exception as error:
            raise refused(error) from error
        return list(found.result_rows)

    def select_arrow(
        self,
        sql: str,
        parameters: Parameters | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> pa.Table:
        try:
            return self._client().query_arrow(
                sql, parameters=dict(parameters or {}), settings=dict(settings or {})
            )
        except Exception as error:
            raise refused(error) from error

    def syntax_tree(self, sql: str) -> list[str]:
        """A node a line, as the engine's parser understands a query. As text: a server takes a
        format that is named behind EXPLAIN for the query's own."""
        try:
            found: bytes = self._client().raw_query(f"EXPLAIN AST {sql}")
        except Exception as error:
            raise refused(error) from error
        return found.decode(errors="replace").rstrip("\n").split("\n")

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Adds rows, with all rollups; the same token a second time adds nothing."""
        settings: dict[str, object] = {
            "insert_deduplication_token": token,
            "deduplicate_blocks_in_dependent_materialized_views": 1,
            "max_insert_threads": 1,
            # Times were checked before; what is restored may be of a year, kept by the day.
            "max_partitions_per_insert_block": 0,
        }
        if self.is_distributed:
            # Else it would be done before any shard has the rows.
            settings["distributed_foreground_insert"] = 1
        try:
            self._client().insert_arrow(table, rows, settings=settings)
        except Exception as error:
            raise refused(error) from error

    def insert_rows(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """A few rows of any table: findings, captures, audit."""
        if not rows:
            return
        names = list(rows[0])
        try:
            self._client().insert(table, [[row[n] for n in names] for row in rows], names)
        except Exception as error:
            raise refused(error) from error

    def command(self, sql: str) -> None:
        try:
            self._client().command(sql)
        except Exception as error:
            raise refused(error) from error

    def beside(self, question: Callable[[], T]) -> Future[T]:
        """Asks it beside others, on a thread of the store's own. Within such a question, at once:
        a thread that waits for another of its own kind may wait for ever."""
        if getattr(self._threads, "is_beside", False):
            done: Future[T] = Future()
            try:
                done.set_result(question())
            except Exception as error:
                done.set_exception(error)
            return done
        with self._guard:
            if self._beside is None:
                self._beside = ThreadPoolExecutor(
                    _BESIDE_THREADS, "store", lambda: setattr(self._threads, "is_beside", True)
                )
            return self._beside.submit(question)

    def new_client(self) -> Any:
        """A session of its own, for settings that nobody else must get."""
        try:
            return _connect(self.place)
        except Exception as error:
            raise refused(error) from error

    def create_missing(self, keep_days: Mapping[str, int] | None = None) -> None:
        """Tables and rollups that are not there yet."""
        server = self.place.server
        for statement in statements(server.cluster if server else "", keep_days or {}):
            self.command(statement)

    def kept_days(self) -> dict[str, int]:
        """By table that is there, as the engine has it; 0: for ever."""
        cluster = self.place.server.cluster if self.place.server else ""
        made: dict[str, str] = dict(
            self.select(
                "SELECT name, create_table_query FROM system.tables "
                "WHERE database = currentDatabase()"
            )
        )
        places = {name: local_name(name, cluster) for name in TABLES}
        return {name: days_of(made[local]) for name, local in places.items() if local in made}

    def keeps(self, table: str, since_ns: int, now_ns: int) -> bool:
        """Whether rows of that time have not left the table yet."""
        self._kept = self._kept or self.kept_days()
        days = self._kept[table]
        return not days or since_ns >= now_ns - days * _DAY_NS

    def keep(self, days: Mapping[str, int]) -> None:
        """From now on rows of these tables stay so long."""
        cluster = self.place.server.cluster if self.place.server else ""
        on_cluster = f" ON CLUSTER {cluster}" if cluster else ""
        kept = self.kept_days()
        for name, wanted in days.items():
            if kept.get(name) != wanted:
                leaves = ttl(TABLES[name], wanted)
                change = f"MODIFY TTL {leaves}" if leaves else "REMOVE TTL"
                self.command(f"ALTER TABLE {local_name(name, cluster)}{on_cluster} {change}")
        self._kept = {}

    def has_table(self, name: str) -> bool:
        return bool(
            self.select(
                "SELECT 1 FROM system.tables WHERE database = currentDatabase() "
                "AND name = {name:String}",
                {"name": name},
            )
        )

    def close(self) -> None:
        with self._guard:
            beside, self._beside = self._beside, None
        if beside is not None:
            beside.shutdown()
        with self._guard:
            clients, self._clients = self._clients, []
        for client in clients:
            with contextlib.suppress(Exception):
                client.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _client(self) -> Any:
        client = getattr(self._threads, "client", None)
        if client is None:
            client = self.new_client()
            self._threads.client = client
            with self._guard:
                self._clients.append(client)
        return client

    def _make_database(self) -> None:
        """Where it is there already, its user need not have the right to make one."""
        server = self.place.server
        if server is None:
            return
        try:
            self._client()
        except StoreError as error:
            if getattr(error.__cause__, "code", None) != _UNKNOWN_DATABASE:
                raise
            on_cluster = f" ON CLUSTER `{server.cluster}`" if server.cluster else ""
            client = _to_server(server, "default")
            try:
                client.command(f"CREATE DATABASE IF NOT EXISTS `{server.database}`{on_cluster}")
            except Exception as error:
                raise refused(error) from error
            finally:
                client.close()

    def _migrate(self, keep_days: Mapping[str, int] | None) -> None:
        server = self.place.server
        cluster = server.cluster if server else ""
        on_cluster = f" ON CLUSTER {cluster}" if cluster else ""
        engine = "ReplacingMergeTree"
        if cluster:
            # The same rows on every shard: whichever a collector asks must know the version.
            engine = (
                "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/all', '{shard}-{replica}')"
            )
        self.command(
            f"CREATE TABLE IF NOT EXISTS schema_version{on_cluster} "
            f"(`key` UInt8, `version` UInt32) ENGINE = {engine} ORDER BY `key`"
        )
        found = self.select("SELECT max(version) FROM schema_version")
        version = int(found[0][0]) if found else 0
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.place}: its schema has version {version}, this pilotlight knows "
                f"{SCHEMA_VERSION}: install a newer pilotlight"
            )
        # Tables that are laid out anew keep their rows as long as the ones before.
        kept = self.kept_days() if keep_days is None else keep_days
        if version:
            migrate(version, cluster, kept, self.command, self.has_table, self._progress)
        self.create_missing(kept)
        if keep_days is not None:
            self.keep({n: keep_days.get(n, table.keep_days) for n, table in TABLES.items()})
        if version < SCHEMA_VERSION:
            self.command(f"INSERT INTO schema_version VALUES (1, {SCHEMA_VERSION})")


# urllib3's words for a server that is not there, within those of the client.
_AWAY = re.compile(
    r"HTTPS?Connection\(host='([^']*)', port=(\d+)\): Failed to "
    r"[^:(]*[:(] ?\[Errno -?\d+\] ([\w ]+)"
)


class Passing(StoreError):
    """What time may heal: a server or its keeper is away, a disk is full, too much at once."""


class ShardDown(Passing):
    """A part of the cluster does not answer."""


def refused(error: Exception) -> StoreError:
    """What the engine, or the way to it, says."""
    if isinstance(error, StoreError):
        return error
    code = getattr(error, "code", None)
    text = " ".join(str(error).split())
    text = text.removeprefix(f"Code: {code}. DB::Exception: ").split(" (version ")[0]
    away = _AWAY.search(text)
    if away:
        return Passing(f"no ClickHouse server at {away[1]}:{away[2]} ({away[3]})")
    kind: type[StoreError] = StoreError
    if code in _SHARD_DOWN:
        kind = ShardDown
    elif code in _PASSING or "No space left" in text or _is_transport(error):
        kind = Passing
    return kind(f"the store refused: {text[:500]}")


def _is_transport(error: Exception) -> bool:
    """Nobody answered, or something in front of the server did."""
    from clickhouse_connect.driver.exceptions import OperationalError

    return isinstance(error, OperationalError)


def _locked(place: StorePlace) -> int | None:
    """One process has a folder at a time; StoreError names the other."""
    try:
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{error.filename or place.folder}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(handle, 32, 0).decode(errors="replace").strip() or "another"
        os.close(handle)
        raise StoreError(
            f"{place.folder}: process {owner} has this store open; stop it, or ask it through its "
            "address (an embedded store belongs to one process)"
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def _connect(place: StorePlace) -> Any:
    try:
        import clickhouse_connect
    except ImportError:
        raise StoreError(_MISSING) from None
    server = place.server
    if server is not None:
        return _to_server(server, server.database)
    try:
        import chdb  # noqa: F401
    except ImportError:
        raise StoreError(_MISSING) from None
    place.engine.mkdir(mode=0o700, parents=True, exist_ok=True)
    return clickhouse_connect.get_client(dsn=f"chdb:///{place.engine}", settings=_SETTINGS)


def _to_server(server: Server, database: str) -> Any:
    import clickhouse_connect

    return clickhouse_connect.get_client(
        host=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        secure=server.is_secure,
        database=database,
        settings=_SETTINGS,
        autogenerate_session_id=False,
    )
