"""pilotlight capture --gpu: for a while more of a running job's GPUs, in its recording."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotlight.cli.terminal import console, overwrite
from pilotlight.client import Client
from pilotlight.errors import NotFound, PilotlightError
from pilotlight.permission import METHODS, Method, facts_of, find_cupti, missing_for, reason_of
from pilotlight.subscribe import subscribe
from pilotlight.tier import ASKED

if TYPE_CHECKING:
    from pilotlight.report.hardware import UnitUse
    from pilotlight.report.kernel_use import KernelUse
    from pilotlight.report.stalls import FunctionStalls

KINDS = tuple(ASKED)

_SECONDS = 10.0


@dataclass(frozen=True)
class _Sampled:
    """What came of hardware sampling since the capture began."""

    stalls: tuple[FunctionStalls, ...] = ()
    hardware: tuple[UnitUse, ...] = ()
    kernels: tuple[KernelUse, ...] = ()


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
    sampled = _Sampled()
    if kind in METHODS:
        _check_not_refused(METHODS[kind], rows)
        sampled = _sampled(METHODS[kind], folder, begin_ns)
    if as_json:
        told = {"job": job, "folder": folder, "asked": kind, "coverage": rows}
        if kind in METHODS:
            told |= {METHODS[kind].result: asdict(sampled)[METHODS[kind].result]}
        print(json.dumps(told))
    else:
        _print(sampled, rows)
        print("\n".join([*_lines(rows, kind), f"see it with `pilotlight report {folder}`"]))
    is_there = bool(sampled.stalls or sampled.hardware or sampled.kernels)
    return 0 if rows and (kind not in METHODS or is_there) else 1


def _check_not_refused(method: Method, rows: Sequence[Mapping[str, Any]]) -> None:
    """PilotlightError if CUPTI refused it in every process."""
    samplings = [row["sampling"] for row in rows if row["sampling"]]
    samplings = [one for one in samplings if one["method"] == method.name]
    refused = [sampling["refused"] for sampling in samplings if sampling["refused"]]
    if refused and len(refused) == len(samplings):
        raise PilotlightError(f"{method.title} is refused by CUPTI: {reason_of(refused[0])}")


def _sampled(method: Method, folder: str, since_ns: int) -> _Sampled:
    from pilotlight.recording.recording import Recording
    from pilotlight.report.hardware import units_of
    from pilotlight.report.kernel_use import kernels_of
    from pilotlight.report.stalls import stalls_of

    recording = Recording.open(Path(folder))
    if method.result == "stalls":
        return _Sampled(stalls=stalls_of(recording, since_ns))
    if method.result == "kernels":
        return _Sampled(kernels=kernels_of(recording, since_ns))
    return _Sampled(hardware=units_of(recording, since_ns))


def _print(sampled: _Sampled, rows: Sequence[Mapping[str, Any]]) -> None:
    from pilotlight.report.gpu_tables import print_hardware, print_kernels, print_stalls

    ranks = {row["process"]: row["rank"] for row in rows}
    pids = {row["process"]: f"pid {row['pid']}" for row in rows}

    def label(process: int) -> str:
        rank = ranks.get(process)
        return str(rank) if rank is not None else pids.get(process, str(process))

    print_stalls(sampled.stalls, console())
    print_hardware(sampled.hardware, label, console())
    print_kernels(sampled.kernels, console())


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
    if sampling and sampling["method"] == asked:
        title = METHODS[asked].title
        sampled = f"{title} {sampling['ratio']:.1%} of the time, "
        if sampling["refused"]:
            sampled = f"no {title}: {reason_of(sampling['refused'])}; "
    return (
        f"{who}: {asked}{wider}; {sampled}device records {row['records_ratio']:.0%} of the time, "
        f"launches {row['launches_ratio']:.0%}{cost}"
    )
