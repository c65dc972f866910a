"""Runs every benchmark and prints one table of all bars."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bars import Bar, report

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {"all", "bars", "capture", "fleet", "lttng", "players", "programs"}


def main() -> int:
    found: list[Bar] = []
    failed = 0
    for path in sorted(HERE.glob("*.py")):
        if path.stem in NOT_BENCHMARKS:
            continue
        print(f"{path.stem} ...", file=sys.stderr, flush=True)
        words = [sys.executable, str(path), "--json"]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        try:
            said = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            print(f"{path.name}: no result (exit code {done.returncode})", file=sys.stderr)
            failed += 1
            continue
        name = said["benchmark"]
        found += [Bar(f"{name}: {bar.pop('what')}", **bar) for bar in said["bars"]]
    return max(report("all", found, as_json="--json" in sys.argv), int(failed > 0))


if __name__ == "__main__":
    sys.exit(main())
