"""pilotlight jobs: what a collector knows of."""

from __future__ import annotations

import argparse

from pilotlight.asking import Asking, add_arguments
from pilotlight.cli.cluster_table import ago, length, percent, show


class Jobs:
    name = "jobs"
    help = "List the jobs that a collector knows, with step time, use and open findings."
    examples = ("pilotlight jobs", "pilotlight jobs --since 7d --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--since", default="1d", metavar="TIME", help="90s, 15m, 1h, 30d (1d)")
        parser.add_argument("--limit", type=int, default=200)
        add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        asking = Asking(args)
        data = asking.get("/v1/jobs", since=args.since, limit=args.limit)
        if not data and not args.json and not asking.is_partial:
            print(
                f"no job in the last {args.since}; agents send with `pilotlight agent --collector`"
            )
            return 0
        titles = ("job", "state", "ranks", "nodes", "steps", "step", "busy", "hours", "findings")
        return show(
            asking,
            data,
            args.json,
            (*titles, "lost", "age"),
            lambda rows: (
                (
                    row["job"],
                    row["state"],
                    row["ranks"],
                    row["nodes"],
                    row["steps"],
                    length(row["step_ns"]),
                    percent(row["busy_ratio"]),
                    f"{row['gpu_hours']:.2f} {'GPU' if row['has_gpus'] else 'rank'}-h",
                    row["open_findings"] or "",
                    row["lost"] or "",
                    ago(row["started_ns"]),
                )
                for row in rows
            ),
        )
