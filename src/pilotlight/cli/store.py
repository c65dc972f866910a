"""pilotlight store: the size of the store, backups, and moving it to another engine."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pilotlight.cli.terminal import overwrite
from pilotlight.errors import UsageError

if TYPE_CHECKING:
    from pilotlight.store.place import StorePlace


class Store:
    name = "store"
    help = "Show the size of the store, back it up, restore it, or copy it to another engine."
    examples = (
        "pilotlight store stats",
        "pilotlight store backup /backups/monday",
        "pilotlight store restore /backups/monday --store /data/new",
        "pilotlight store copy /data/store clickhouse://user@host/pilotlight",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("action", choices=("stats", "backup", "restore", "copy"))
        parser.add_argument("places", nargs="*", metavar="PLACE", help="a folder, or FROM and TO")
        parser.add_argument("--store", metavar="FOLDER|DSN", help="(this user's)")
        parser.add_argument("--json", action="store_true", help="print as JSON")

    def run(self, args: argparse.Namespace) -> int:
        wanted = {"stats": 0, "backup": 1, "restore": 1, "copy": 2}[args.action]
        if len(args.places) != wanted:
            raise UsageError(f"{args.action} needs {wanted} places; see --help")
        if args.action == "stats":
            return _stats(args)
        if args.action == "backup":
            rows = _backup(args.store, Path(args.places[0]))
        elif args.action == "restore":
            rows = _restore(Path(args.places[0]), args.store)
        else:
            # One engine a process may be open: the copy goes over a backup between the two.
            with tempfile.TemporaryDirectory(prefix="pilotlight-copy-") as folder:
                _backup(args.places[0], Path(folder))
                rows = _restore(Path(folder), args.places[1])
        print(json.dumps({"rows": rows}) if args.json else f"{rows:,} rows")
        return 0


def _say(table: str) -> None:
    if sys.stderr.isatty():
        overwrite(table)


def _existing(store: str | None) -> StorePlace:
    """UsageError: a folder without one; to open it would make an empty store of a typing error."""
    from pilotlight.store.place import parse_place

    place = parse_place(store)
    if place.server is None and not place.engine.is_dir():
        raise UsageError(f"{place}: no store there; name the folder of one")
    return place


def _backup(store: str | None, folder: Path) -> int:
    from pilotlight.store.store import Store as Opened
    from pilotlight.store.transfer import backup

    with Opened(_existing(store)) as opened:
        return backup(opened, folder, _say)


def _restore(folder: Path, store: str | None) -> int:
    from pilotlight.store.place import parse_place
    from pilotlight.store.store import Store as Opened
    from pilotlight.store.transfer import restore

    with Opened(parse_place(store)) as opened:
        return restore(folder, opened, _say)


def _stats(args: argparse.Namespace) -> int:
    from pilotlight.store.store import Store as Opened
    from pilotlight.store.transfer import stats

    with Opened(_existing(args.store)) as opened:
        sizes = stats(opened)
    if args.json:
        print(json.dumps([asdict(one) for one in sizes]))
        return 0
    for one in sizes:
        if one.rows:
            each = one.bytes / one.rows
            print(f"{one.table:<20}{one.rows:>14,} rows {one.bytes:>14,} B {each:>8.1f} B/row")
    print(f"{'all':<20}{'':>19} {sum(one.bytes for one in sizes):>14,} B")
    return 0
