"""pilotlight capture --gpu: for a while more of a running job's GPUs, in its recording."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotlight.cli.terminal import console, overwrite
from pilotlight.client import Client
from pilotlight.errors import NotFound, PilotlightError
from pilotlight.permission import METHODS, Method, facts_of, find_cupti, missing_for, reason_of
from pilotlight.subscribe import subscribe
from pilotlight.tier import ASKED

if TYPE_CHECKING:
    from pilotlight.report.stalls import FunctionStalls

KINDS = (*ASKED, *(name for name in METHODS if name not in ASKED))


_SECONDS = 10.0


def capture_gpu(target: str, kind: str, seconds: float | None, as_json: bool) -> int:
    with Client() as client:
        processes = _processes(client.ask("status"), target)
    if kind in METHODS:
        check_allowed(METHODS[kind], processes)
    job = str(processes[0]["job"])
    begin_ns = time.monotonic_ns()
    rows = _hold(job, kind, seconds or _SECONDS, shows=sys.stderr.isatty() and not as_json)
    with Client() as client:
        folder = str(client.ask("flush", job=job)["folder"])
    stalls = _stalls(rows, folder, begin_ns) if kind == "pc" else ()
    if as_json:
        told = {"job": job, "folder": folder, "asked": kind, "coverage": rows}
        if kind == "pc":
            told["stalls"] = [asdict(one) for one in stalls]
        print(json.dumps(told))
    else:
        _print_stalls(stalls)
        print("\n".join([*_lines(rows, kind), f"see it with `pilotlight report {folder}`"]))
    return 0 if rows and (kind != "pc" or stalls) else 1


def _stalls(
    rows: Sequence[Mapping[str, Any]], folder: str, since_ns: int
) -> tuple[FunctionStalls, ...]:
    """What was sampled since; PilotlightError if CUPTI refused to do so in every process."""
    samplings = [row["sampling"] for row in rows if row["sampling"]]
    refused = [sampling["refused"] for sampling in samplings if sampling["refused"]]
    if refused and len(refused) == len(samplings):
        raise PilotlightError(f"PC sampling is refused by CUPTI: {reason_of(refused[0])}")
    from pilotlight.recording.recording import Recording
    from pilotlight.report.stalls import stalls_of

    return stalls_of(Recording.open(Path(folder)), since_ns)


def _print_stalls(stalls: Sequence[FunctionStalls]) -> None:
    from pilotlight.report.gpu_tables import print_stalls

    print_stalls(stalls, console())


def _processes(status: Mapping[str, Any], target: str) -> list[dict[str, Any]]:
    found = [
        process
        for process in status["processes"]
        if target in (process["job"], str(process["pid"]))
    ]
    if not found:
        jobs = ", ".join(sorted({str(process["job"]) for process in status["processes"]}))
        raise NotFound(f"no job or process {target}; being recorded: {jobs or 'nothing'}")
    return found


def check_allowed(method: Method, processes: Sequence[Mapping[str, Any]]) -> None:
    """Names what is missing for any of the processes."""
    for process in processes:
        pid = int(process["pid"])
        facts = facts_of(pid, loaded_cupti(pid) or find_cupti())
        if facts.parameters is None and process["gpu"]:
            # It has a driver that works, which does not say whether sampling is restricted.
            facts = replace(facts, parameters="")
        missing = missing_for(method, facts)
        if missing:
            reasons = "; ".join(f"{one.what} -> {one.fix}" for one in missing)
            raise PilotlightError(f"{method.title} of process {pid} is refused: {reasons}")
    if method.name not in ASKED:
        raise PilotlightError(
            f"{method.title} would be allowed here, but this version of pilotlight cannot do it "
            "yet; --gpu pc can"
        )


def loaded_cupti(pid: int) -> str | None:
    """The libcupti that the process has loaded."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return None
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and Path(path[0]).name.startswith("libcupti.so"):
            return path[0]
    return None


def _hold(job: str, tier: str, seconds: float, *, shows: bool) -> list[dict[str, Any]]:
    """Asks for the tier as long as this takes; what the agent said last of its coverage."""
    rows: list[dict[str, Any]] = []
    end_s = time.monotonic() + seconds
    # The agent says its status every second, also of a job that has ended.
    with subscribe(("coverage", "status"), job, tier) as messages:
        for message in messages:
            if message["kind"] == "coverage":
                rows = message["rows"] or rows
            elif all(one["job"] != job for one in message["rows"][0]["jobs"]):
                break
            left_s = end_s - time.monotonic()
            if shows:
                overwrite(f"{tier}: {max(left_s, 0):.0f} s to go")
            if left_s <= 0:
                break
    if shows:
        print(file=sys.stderr)
    return rows


def _lines(rows: Sequence[Mapping[str, Any]], asked: str) -> list[str]:
    if not rows:
        return ["no process of this job uses a GPU that pilotlight can see; try pilotlight doctor"]
    return [_line(row, asked) for row in rows]


def _line(row: Mapping[str, Any], asked: str) -> str:
    who = f"pid {row['pid']}" if row["rank"] is None else f"rank {row['rank']} (pid {row['pid']})"
    wider = "" if row["tier"] == asked else f" (others asked for {row['tier']})"
    cost = f", costs {row['spent_ratio']:.2%}" if row["spent_ratio"] is not None else ""
    sampling = row["sampling"]
    sampled = ""
    if asked == "pc" and sampling:
        sampled = f"PC sampling {sampling['ratio']:.1%} of the time, "
    if asked == "pc" and sampling and sampling["refused"]:
        sampled = f"no PC sampling: {reason_of(sampling['refused'])}; "
    return (
        f"{who}: {asked}{wider}; {sampled}device records {row['records_ratio']:.0%} of the time, "
        f"launches {row['launches_ratio']:.0%}{cost}"
    )
