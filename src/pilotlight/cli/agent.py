"""`pilotlight agent`: the agent in the foreground."""

from __future__ import annotations

import argparse
import json
import os
import re

from pilotlight.agent.memory import memory_folder
from pilotlight.agent.serve import serve
from pilotlight.agent.settings import Settings
from pilotlight.errors import UsageError
from pilotlight.runtime import runtime
from pilotlight.ship.target import target_of

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_bytes(text: str) -> int:
    """`256MB`, `1.5G`, `4096`: a number of bytes; UsageError if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UsageError(f"{text}: not a size; write 256MB or 2GB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


class Agent:
    name = "agent"
    help = "Run the agent that records the jobs of this user, until it is told to stop."
    examples = (
        "pilotlight agent",
        "pilotlight agent --budget 1GB",
        "pilotlight agent --collector https://host:7777 --token-file ingest.token",
        "pilotlight agent --memory     detail in memory, on disk only when a job ends",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--budget", default="256MB", metavar="SIZE", help="of detail, over all jobs (256MB)"
        )
        parser.add_argument(
            "--memory", action="store_true", help="keep detail in memory while a job runs"
        )
        parser.add_argument(
            "--auto", action="store_true", help="end 5 s after the last job and client have gone"
        )
        parser.add_argument(
            "--counters",
            type=float,
            default=1.0,
            metavar="SECONDS",
            help="how often GPUs and the host are read; 0: never (1)",
        )
        parser.add_argument(
            "--collector", metavar="URL", help="where windows and steps go (PILOTLIGHT_COLLECTOR)"
        )
        parser.add_argument("--token-file", metavar="FILE", help="(PILOTLIGHT_TOKEN_FILE)")
        parser.add_argument("--ca-file", metavar="FILE", help="to trust besides the system's")
        parser.add_argument("--client-certificate", metavar="FILE", help="with --client-key")
        parser.add_argument("--client-key", metavar="FILE")
        parser.add_argument(
            "--batch-seconds",
            metavar="S",
            help="how often a batch is sent, 1 to 300 (PILOTLIGHT_BATCH_SECONDS, else 5)",
        )
        parser.add_argument("--cluster", help="name of the cluster that this node belongs to")
        parser.add_argument("--json", action="store_true", help="say where it listens as JSON")

    def run(self, args: argparse.Namespace) -> int:
        budget_bytes = parse_bytes(args.budget)
        if budget_bytes < 1 << 20:
            raise UsageError("--budget: at least 1MB")
        if args.counters and not 0.1 <= args.counters <= 3600:
            raise UsageError("--counters: 0.1 to 3600 seconds, or 0")
        place = runtime()
        settings = Settings(
            budget_bytes=budget_bytes,
            memory_folder=memory_folder() if args.memory else None,
            ends_itself=args.auto,
            counters_period_ns=int(args.counters * 1e9),
            collector=target_of(vars(args), os.environ, place.folder),
        )

        def announce() -> None:
            if args.json:
                print(json.dumps({"pid": os.getpid(), "folder": str(place.folder)}), flush=True)
            else:
                print(f"agent {os.getpid()} listens in {place.folder}; Ctrl-C ends it", flush=True)

        serve(settings, place, announce)
        return 0
