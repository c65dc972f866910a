"""pilotlight query SQL: any question, over the documented tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pilotlight.asking import Asking, add_arguments
from pilotlight.cli.cluster_table import show


class Query:
    name = "query"
    help = "Ask the store in SQL: read-only, bounded, over the tables of docs/store.md."
    examples = (
        'pilotlight query "SELECT rank, avg(duration_ns) FROM steps GROUP BY rank"',
        "pilotlight query - --json < question.sql",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("sql", metavar="SQL", help="one SELECT; - reads standard input")
        parser.add_argument("--limit", type=int, default=1000, help="rows (1000)")
        add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        asking = Asking(args)
        sql = sys.stdin.read() if args.sql == "-" else args.sql
        data = asking.post("/v1/query", {"sql": sql, "limit": args.limit})
        columns, rows = data["columns"], data["rows"]
        text = [name for name, *cells in zip(columns, *rows, strict=True) if _is_text(cells)]
        code = show(asking, data, args.json, columns, lambda found: found["rows"], text)
        if data["is_cut"] and not args.json:
            print(f"only the first {args.limit} rows; --limit shows more", file=sys.stderr)
        return code


def _is_text(cells: Sequence[object]) -> bool:
    return not all(isinstance(cell, (int, float)) for cell in cells)
