"""pilotlight steps JOB: the latest steps, one by one."""

from __future__ import annotations

import argparse

from pilotlight.asking import Asking, add_arguments
from pilotlight.cli.cluster_table import ago, is_nothing, length, show
from pilotlight.cli.ranks import shares


class Steps:
    name = "steps"
    help = "Show the latest steps of a job, with what they spent their time on."
    examples = ("pilotlight steps nightly", "pilotlight steps nightly --rank 3 --limit 20")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", metavar="JOB")
        parser.add_argument("--rank", type=int, help="only this one")
        parser.add_argument("--since", default="1h", metavar="TIME", help="90s, 15m, 1h, 30d (1h)")
        parser.add_argument("--limit", type=int, default=40)
        add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        asking = Asking(args)
        data = asking.get(
            "/v1/steps", job=args.job, since=args.since, rank=args.rank, limit=args.limit
        )
        if is_nothing(asking, data, args):
            return 0
        return show(
            asking,
            data,
            args.json,
            ("rank", "step", "duration", "where", "ago"),
            lambda rows: (
                (
                    row["rank"],
                    row["step"],
                    length(row["duration_ns"]),
                    shares(row["parts_ns"], row["duration_ns"], row["is_reckoned"]),
                    ago(row["start_ns"]),
                )
                for row in rows
            ),
        )
