"""pilotlight kernels JOB: what took the time, over all ranks."""

from __future__ import annotations

import argparse

from pilotlight.asking import Asking, add_arguments
from pilotlight.cli.cluster_table import is_nothing, length, percent, show

_OF = ("kernels", "ranges", "functions", "collectives")


class Kernels:
    name = "kernels"
    help = "Show what took the time over all ranks: kernels, or ranges, functions, collectives."
    examples = (
        "pilotlight kernels nightly --since 1h",
        "pilotlight kernels nightly --of functions",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", metavar="JOB")
        parser.add_argument("--of", choices=_OF, default="kernels")
        parser.add_argument("--since", default="1h", metavar="TIME", help="90s, 15m, 1h, 30d (1h)")
        parser.add_argument("--limit", type=int, default=40)
        add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        asking = Asking(args)
        data = asking.get(f"/v1/{args.of}", job=args.job, since=args.since, limit=args.limit)
        if not data and args.of == "kernels" and not args.json:
            asking.get("/v1/job", job=args.job)
            print("no device activity in this time; try --of functions or --of ranges")
            return 0
        if is_nothing(asking, data, args):
            return 0
        if args.of == "collectives":
            return show(
                asking,
                data,
                args.json,
                ("operation", "group", "ranks", "count", "total", "mean", "waited", "GB/s"),
                lambda rows: (
                    (
                        row["operation"],
                        row["group"],
                        row["ranks"],
                        row["count"],
                        length(row["total_ns"]),
                        length(row["mean_ns"]),
                        length(row["wait_ns"]),
                        _rate(row["gigabytes_per_s"]),
                    )
                    for row in rows
                ),
            )
        return show(
            asking,
            data,
            args.json,
            ("share", "total", "count", "mean", "longest", "name"),
            lambda rows: (
                (
                    percent(row["ratio"]),
                    length(row["total_ns"]),
                    row["count"] or "",
                    length(row["mean_ns"]),
                    length(row["max_ns"]),
                    row["name"],
                )
                for row in rows
            ),
        )


def _rate(gigabytes_per_s: float | None) -> str:
    return "not measured" if gigabytes_per_s is None else f"{gigabytes_per_s:.1f}"
