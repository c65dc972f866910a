"""pilotlight doctor: what works here."""

from __future__ import annotations

import argparse
import dataclasses
import json

from pilotlight.cli import terminal
from pilotlight.doctor.check import Check


class Doctor:
    name = "doctor"
    help = "Say what works on this machine, what does not, and what to do about it."
    examples = ("pilotlight doctor", "pilotlight doctor --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="the checks as JSON")

    def run(self, args: argparse.Namespace) -> int:
        from pilotlight.doctor.agent import agent_checks
        from pilotlight.doctor.devices import device_checks
        from pilotlight.doctor.machine import machine_checks
        from pilotlight.doctor.providers import provider_checks
        from pilotlight.doctor.python import python_checks

        checks = [*python_checks(), *machine_checks(), *provider_checks(), *device_checks()]
        checks += agent_checks()
        if args.json:
            print(json.dumps({"checks": [dataclasses.asdict(check) for check in checks]}, indent=1))
        else:
            _show(checks)
        return 1 if any(check.state == "broken" for check in checks) else 0


def _show(checks: list[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    bad = sum(check.state == "broken" for check in checks)
    less = sum(check.state == "limited" for check in checks)
    console = terminal.console()
    if bad:
        headline = f"{bad} of {len(checks)} checks need you before pilotlight can record here."
    elif less:
        headline = f"pilotlight records here; {less} of {len(checks)} checks could be better."
    else:
        headline = f"pilotlight records here; all {len(checks)} checks are well."
    console.print(headline, style="bold")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    style = {"ok": "green", "limited": "yellow", "broken": "red"}
    for check in checks:
        detail = Text(check.detail)
        if check.fix:
            detail.append(f"\n→ {check.fix}", style="cyan")
        table.add_row(Text(check.state, style=style[check.state]), check.what, detail)
    console.print(table)
