"""The whole store in other hands: its size, a backup, and history moved to another engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotlight.errors import FormatError, StoreError, UsageError
from pilotlight.recording.fields import read_object, take
from pilotlight.store.ddl import local_name
from pilotlight.store.migration import fill, filled_since, without_rollups
from pilotlight.store.schema import SCHEMA_VERSION, TABLES
from pilotlight.store.spool import segments
from pilotlight.store.store import Store
from pilotlight.store.table import LONGEST_DAYS
from pilotlight.store.writer import Writer

MANIFEST = "backup.json"
_FORMAT = "pilotlight-backup"
_ROWS_AT_ONCE = 200_000
_SPOOL_S = 600.0
# Neither rows of their own nor worth keeping elsewhere.
_BESIDE = ("tokens.json", "captures")


@dataclass(frozen=True)
class TableSize:
    table: str
    rows: int
    bytes: int
    parts: int
    oldest_ns: int
    newest_ns: int


def stats(store: Store) -> list[TableSize]:
    """What each table has, the biggest first; on a cluster, of one replica of every shard."""
    server = store.place.server
    cluster = server.cluster if server else ""
    parts_of_all = f"cluster('{cluster}', system.parts)" if cluster else "system.parts"
    sizes = {
        name: (int(rows), int(size), int(parts))
        for name, rows, size, parts in store.select(
            f"SELECT table, sum(rows), sum(bytes_on_disk), count() FROM {parts_of_all} "
            "WHERE active AND database = currentDatabase() GROUP BY table"
        )
    }
    found = []
    for table in TABLES.values():
        rows, size, parts = sizes.get(local_name(table.name, cluster), (0, 0, 0))
        oldest = newest = 0
        if rows and table.time:
            ((oldest, newest),) = store.select(
                f"SELECT min({table.time}), max({table.time}) FROM {table.name}"
            )
        found.append(TableSize(table.name, rows, size, parts, int(oldest), int(newest)))
    return sorted(found, key=lambda one: -one.bytes)


def backup(store: Store, folder: Path, progress: Callable[[str], None]) -> int:
    """A Parquet file a table, tokens and captures; rows written. UsageError: it is not empty."""
    import pyarrow.parquet as parquet

    _new_folder(folder)
    _empty_spool(store)
    counts = {}
    for name in TABLES:
        progress(name)
        writer = None
        rows = 0
        for piece in _pieces(store, name):
            if writer is None:
                writer = parquet.ParquetWriter(folder / f"{name}.parquet", piece.schema)
            writer.write_table(piece)
            rows += piece.num_rows
        if writer is not None:
            writer.close()
        counts[name] = rows
    for name in _BESIDE:
        source = store.place.folder / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy2(source, folder / name)
    manifest = {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "rows": counts,
        "keep_days": store.kept_days(),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    return sum(counts.values())


def restore(folder: Path, store: Store, progress: Callable[[str], None]) -> int:
    """Rows read back. Only into a store that has none: they would be there twice."""
    import pyarrow.parquet as parquet

    try:
        manifest = read_object(folder / MANIFEST)
    except FileNotFoundError:
        raise UsageError(f"{folder}: not a backup, it has no {MANIFEST}") from None
    if manifest.get("format") != _FORMAT:
        raise FormatError(f"{folder / MANIFEST}: format is not {_FORMAT}")
    version = take(manifest, "schema_version", int)
    if version > SCHEMA_VERSION:
        raise FormatError(f"{folder}: made by a newer pilotlight: install that one")
    _must_be_empty(store)
    counts = take(manifest, "rows", dict)
    # Else rows that were kept longer than usual would leave as soon as they are in.
    store.keep(_kept_days(manifest, folder / MANIFEST))
    total = 0
    with _without_rollups(store):
        for name in TABLES:
            path = folder / f"{name}.parquet"
            if not path.exists():
                continue
            progress(name)
            rows = 0
            for number, batch in enumerate(
                parquet.ParquetFile(path).iter_batches(_ROWS_AT_ONCE), 1
            ):
                store.insert(name, _table(batch), f"restore/{name}/{number}")
                rows += batch.num_rows
            if rows != counts.get(name):
                raise FormatError(f"{path}: {rows} rows instead of {counts.get(name)}")
            total += rows
        server = store.place.server
        for name in filled_since(version):
            fill(name, server.cluster if server else "", store.command)
    for name in _BESIDE:
        source, target = folder / name, store.place.folder / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists() and not target.exists():
            shutil.copy2(source, target)
    return total


def _kept_days(manifest: Mapping[str, Any], place: Path) -> dict[str, int]:
    """A backup of an earlier pilotlight does not say it."""
    found = manifest.get("keep_days", {})
    if not isinstance(found, dict) or not all(
        isinstance(days, int) and 0 <= days <= LONGEST_DAYS for days in found.values()
    ):
        raise FormatError(f"{place}: keep_days is not a number of days by table")
    return {name: days for name, days in found.items() if name in TABLES}


def _pieces(store: Store, name: str) -> Iterator[Any]:
    """Blocks of a table; what comes meanwhile is not part of it."""
    columns = ", ".join(f"`{column}`" for column in TABLES[name].column_names)
    client = store.new_client()
    try:
        with client.query_arrow_stream(f"SELECT {columns} FROM {name}") as stream:
            for batch in stream:
                yield _table(batch)
    finally:
        client.close()


def _table(batch: Any) -> Any:
    import pyarrow as pa

    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


@contextmanager
def _without_rollups(store: Store) -> Iterator[None]:
    """The rollups are in the backup: the engine must not add them up again."""
    server = store.place.server
    for statement in without_rollups(server.cluster if server else ""):
        store.command(statement)
    try:
        yield
    finally:
        store.create_missing()


def _empty_spool(store: Store) -> None:
    """What a killed collector had acknowledged belongs to its history, too. StoreError: some of it
    does not go into the tables now."""
    if not segments(store.place.spool):
        return
    writer = Writer(store)
    try:
        if not writer.flush(_SPOOL_S):
            raise StoreError(
                f"{store.place.spool}: {writer.waiting_batches} acknowledged batches are not in "
                "the tables yet; start the collector, stop it when they are"
            )
    finally:
        writer.close()


def _new_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: not empty; name a new folder")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None


def _must_be_empty(store: Store) -> None:
    for name in ("steps", "batches", "jobs", "steps_1d"):
        ((rows,),) = store.select(f"SELECT count() FROM {name}")
        if rows:
            raise UsageError(f"{store.place}: has rows already; restore into a new store")
