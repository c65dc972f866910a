"""pilotlight job JOB: one job, where its hours went and what was found."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pilotlight.asking import Asking, add_arguments
from pilotlight.cli.cluster_table import ago, length, percent
from pilotlight.cli.ranks import RECKONED
from pilotlight.report.units import plural
from pilotlight.ship.wire import PARTLY_RECKONED


class Job:
    name = "job"
    help = "Show one job: state, attempts, where its GPU hours went, open findings, losses."
    examples = ("pilotlight job nightly", "pilotlight job nightly --price 2.50 --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", metavar="JOB")
        parser.add_argument("--price", type=float, help="of a GPU hour (the collector's)")
        add_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        asking = Asking(args)
        data = asking.get("/v1/job", job=args.job)
        findings = asking.get("/v1/findings", job=args.job, limit=20)
        if args.json:
            print(json.dumps({**data, "findings": findings, "partial": asking.is_partial}))
            return 0
        price = data["price_per_gpu_hour"] if args.price is None else args.price
        currency = data["currency"] if args.price is None else ""
        print("\n".join(lines(data, findings, price, currency)))
        if asking.is_partial:
            print("partial: a part of the store does not answer, the numbers are too small")
        return 0


def lines(
    data: dict[str, Any], findings: list[dict[str, Any]], price: float, currency: str
) -> list[str]:
    row, waste = data["row"], data["waste"]
    said = [
        f"{row['job']}  {row['state']}  {plural(row['ranks'], 'rank')} on "
        f"{plural(row['nodes'], 'node')}  "
        f"started {ago(row['started_ns'])} ago",
        f"  {row['command']}",
    ]
    told = ", ".join(
        f"{name} {value}" for name, value in data["facts"].items() if value != PARTLY_RECKONED
    )
    said += [f"  with {told}"] if told else []
    if row["steps"]:
        quantiles = "  ".join(f"{key} {length(ns)}" for key, ns in data["quantiles_ns"].items())
        said.append(f"  {plural(row['steps'], 'step')} of {length(row['step_ns'])}  {quantiles}")
    of = "GPU" if row["has_gpus"] else "rank"
    said.append(
        f"  {waste['gpu_hours']:.2f} {of} hours{_money(waste['gpu_hours'], price, currency)}:"
    )
    hours = {"compute": waste["busy_hours"], **waste["wasted_hours"]}
    hours["not known"] = waste["unknown_hours"]
    hours["outside of steps"] = waste["outside_hours"]
    is_reckoned = data["facts"].get("communication") == PARTLY_RECKONED
    for what, spent in hours.items():
        if spent > 0.0005 * max(waste["gpu_hours"], 1e-9):
            about = "~" if is_reckoned and what in RECKONED else ""
            share = about + percent(spent / waste["gpu_hours"])
            said.append(
                f"    {what:<18}{spent:>10.2f} h {share:>7}{_money(spent, price, currency)}"
            )
    if is_reckoned:
        said.append("    ~ of fast steps not every wait is told; the rest is reckoned from those")
    for attempt in data["attempts"] if len(data["attempts"]) > 1 else ():
        said.append(
            f"  attempt {attempt['attempt']}: {attempt['state']}, {attempt['ranks']} ranks, "
            f"exit code {attempt['exit_code']}"
        )
    for finding in findings:
        said += _finding(finding)
    said += [f"  lost: {count} {what}" for what, count in data["losses"].items()]
    return said


def _finding(finding: dict[str, Any]) -> list[str]:
    """What is over is told in one line."""
    since = f"since {ago(finding['opened_ns'])}"
    if finding["state"] != "open":
        lasted = length(finding["closed_ns"] - finding["opened_ns"])
        since = f"over {ago(finding['closed_ns'])} ago{f', after {lasted}' if lasted else ''}"
    where = ""
    if finding["ranks"]:
        ranks = ", ".join(map(str, finding["ranks"][:4]))
        where = f"  [rank {ranks}{' ...' if len(finding['ranks']) > 4 else ''}"
        where += f" on {', '.join(finding['nodes'][:4])}]" if finding["nodes"] else "]"
    said = [f"  {finding['severity']}: {finding['title']}{where}  {since}"]
    if finding["state"] != "open":
        return said
    said += [f"      {evidence}" for evidence in finding["evidence"][:4]]
    if finding["fix"]:
        said.append(f"      fix: {finding['fix']}{_gain(finding)}")
    if finding["capture"]:
        said.append(
            f"      captured: `pilotlight capture {finding['job']} --id {finding['capture']}`"
        )
    return said


def _gain(finding: dict[str, Any]) -> str:
    """Of a finding that is no matter of speed nobody can say what it would gain."""
    low, high = (f"{100 * finding[f'gain_{end}_ratio']:.0f}" for end in ("low", "high"))
    if high == "0" or low == "100" or (low, high) == ("0", "100"):
        return ""
    return f" (gains {low if low == high else f'{low} to {high}'} % of the step)"


def _money(hours: float, price: float, currency: str) -> str:
    return f"  {hours * price:,.2f} {currency}".rstrip() if price else ""
