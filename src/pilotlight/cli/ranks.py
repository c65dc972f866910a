"""pilotlight ranks JOB: every rank of a job."""

from __future__ import annotations

import argparse

from pilotlight.asking import Asking, add_arguments
from pilotlight.cli.cluster_table import ago, is_nothing, length, percent, show


class Ranks:
    name = "ranks"
    help = "Show the ranks of a job: node, GPU, last step, step time and where it went."
    examples = ("pilotlight ranks nightly", "pilotlight ranks nightly --since 10m --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", metavar="JOB")
        parser.add_argument("--since", default="1h", metavar="TIME", help="90s, 15m, 1h, 30d (1h)")
        add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        asking = Asking(args)
        data = asking.get("/v1/ranks", job=args.job, since=args.since)
        if is_nothing(asking, data, args):
            return 0
        titles = ("rank", "node", "gpu", "state", "step", "steps", "mean", "slowest")
        return show(
            asking,
            data,
            args.json,
            (*titles, "where", "dropped", "seen"),
            lambda rows: (
                (
                    row["rank"],
                    row["node"],
                    row["gpu"] if row["gpu"] >= 0 else "",
                    row["state"],
                    row["step"] if row["step"] >= 0 else "",
                    row["steps"],
                    length(row["step_ns"]),
                    length(row["slowest_ns"]),
                    shares(row["parts_ns"], row["step_ns"] * row["steps"], row["is_reckoned"]),
                    row["records_dropped"] or "",
                    ago(row["updated_ns"]),
                )
                for row in rows
            ),
        )


RECKONED = ("compute", "communication")
"""What waiting that was not told, but reckoned from other steps, was moved between."""


def shares(parts_ns: dict[str, int], total_ns: int, is_reckoned: bool) -> str:
    """The parts of the step time, most first; `~` before those that are partly reckoned."""
    about = {name: "~" if is_reckoned and name in RECKONED else "" for name in parts_ns}
    ranked = sorted(parts_ns.items(), key=lambda part: -part[1])[:3]
    return " ".join(
        f"{name} {about[name]}{percent(ns / total_ns)}" for name, ns in ranked if total_ns
    )
