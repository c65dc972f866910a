"""Reads SQLite files of other tools: tables and their columns, nothing that could run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pilotlight.errors import FormatError

ROWS_AT_ONCE = 10_000
MAX_TABLES = 10_000


class Database:
    """The tables of a file; views are left alone, since a file can hide endless ones."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            " AND sql NOT LIKE 'CREATE VIRTUAL%' LIMIT ?",
            (MAX_TABLES,),
        )
        self.tables = frozenset(str(name) for (name,) in found.fetchall())
        self._columns: dict[str, frozenset[str]] = {}

    def columns(self, table: str) -> frozenset[str]:
        if table not in self._columns:
            rows = self._connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
            self._columns[table] = frozenset(str(row[1]) for row in rows)
        return self._columns[table]

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Columns that this version of the table lacks come as None; so no table has no rows."""
        if table not in self.tables:
            return
        present = self.columns(table)
        chosen = ", ".join(quoted(c) if c in present else "NULL" for c in columns)
        yield from self.select(f"SELECT {chosen} FROM {quoted(table)}")

    def select(self, statement: str) -> Iterator[tuple[Any, ...]]:
        cursor = self._connection.execute(statement)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """Read-only and immutable; FormatError for what SQLite finds wrong with the file."""
    try:
        uri = path.resolve().as_uri() + "?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            yield Database(connection)
        finally:
            connection.close()
    except (sqlite3.Error, OverflowError) as error:
        raise FormatError(f"{path}: damaged SQLite file ({error})") from None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
