"""What a capture brought, for people: printed by `capture` and by `report` of its folder."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from pilotlight.capture.request import LEFT_OUT
from pilotlight.cli.top import processes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pilotlight.capture.manifest import Captured, CaptureManifest
    from pilotlight.capture.summary import RankSummary

_SHOWN_RANKS = 16
_SHOWN_OPERATORS = 10


def lines(manifest: CaptureManifest, folder: Path) -> list[str]:
    """The result for people."""
    from pilotlight.capture.manifest import SAME
    from pilotlight.capture.target import KINETO
    from pilotlight.report.units import plural

    asked = [p for p in manifest.processes if p.answered.state != LEFT_OUT]
    done = [p for p in asked if p.file is not None]
    shown = [f"{manifest.job}: asked {processes(len(asked))}, {plural(len(done), 'trace')}"]
    shown += [f"  {_line(process)}" for process in manifest.processes]
    shown += [f"  problem: {problem}" for problem in manifest.problems]
    if len(done) > 1 and manifest.skew_ns is not None:
        shown.append(
            f"{SAME[manifest.same_steps]}; they began within {manifest.skew_ns / 1e6:.1f} ms"
        )
    if manifest.first_step is None and any(p.answered.how == KINETO for p in done):
        shown.append(
            "taken by time: one of them has stepped no optimizer, and PyTorch counts only that"
        )
    shown += _allocation_lines(manifest)
    shown += _hang_lines(folder)
    shown.append(f"capture: {folder}")
    return shown


def _allocation_lines(manifest: CaptureManifest) -> list[str]:
    """Where --memory brought nothing."""
    from pilotlight.capture.target import KINETO
    from pilotlight.recording.fields import take_or

    options = take_or(manifest.request, "options", dict[str, object]())
    traced = [p for p in manifest.processes if p.file is not None and p.answered.how == KINETO]
    if not traced or not options.get("memory") or any(p.has_allocations for p in traced):
        return []
    return [
        "no allocations in them: this torch tells those only to a profiler that the program itself"
        " began (pytorch/pytorch#190871)"
    ]


def next_lines(manifest: CaptureManifest, folder: Path) -> list[str]:
    """What a person may want to do with it."""
    if all(process.file is None for process in manifest.processes):
        return []
    return [f"see it with `pilotlight report {folder}` or `pilotlight analyze {folder}`"]


def summary_lines(ranks: Sequence[RankSummary]) -> list[str]:
    """Each rank's steps, and what they spend their time on."""
    from pilotlight.capture.summary import costliest

    shown = []
    for rank in ranks[:_SHOWN_RANKS]:
        steps = ", ".join(f"{s.number}: {s.duration_ns / 1e6:.2f}" for s in rank.steps[:8])
        shown.append(
            f"rank {rank.rank:<4} steps {steps or 'not known'} ms;"
            f" collectives {rank.collective_ns / 1e6:.2f} ms"
        )
    if len(ranks) > _SHOWN_RANKS:
        shown.append(f"... and {len(ranks) - _SHOWN_RANKS} ranks more (--json)")
    shown.append("operators by their own time, all ranks:")
    for operator in costliest(ranks, _SHOWN_OPERATORS):
        own_ms = operator.self_ns / 1e6
        shown.append(f"  {own_ms:10.2f} ms  {operator.calls:6} calls  {operator.name[:80]}")
    return shown


def _line(process: Captured) -> str:
    answered = process.answered
    who = f"rank {answered.rank}" if answered.rank is not None else answered.role or "process"
    if answered.state == LEFT_OUT and answered.role != "rank":
        who = answered.role
    head = f"{who:<9} pid {answered.pid:<8} {answered.state}"
    if process.file is None:
        return f"{head}: {answered.reason}" if answered.reason else head
    numbers = [step.number for step in process.steps]
    what = f"{process.spans:,} spans"
    if process.window_ns is not None:
        what += f" in {(process.window_ns[1] - process.window_ns[0]) / 1e6:.1f} ms"
    if numbers:
        what += f", steps {numbers[0]} to {numbers[-1]}"
    return f"{head}  {process.file}  {what}"


def _hang_lines(folder: Path) -> list[str]:
    """What the stacks and the flight recorders of those without a trace say."""
    shown = []
    for file in sorted((folder / "stacks").glob("stacks_*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            found = json.loads(file.read_text())
            threads = {thread["thread"]: thread for thread in found["threads"]}
            frame = threads[found["pid"]]["frames"][-1]
            where = f"{frame['function']} ({frame['file']}:{frame['line']})"
            shown.append(f"{file.stem.removeprefix('stacks_')} is in {where}: {file}")
    if (folder / "flight_recorder").is_dir():
        from pilotlight.insights.hang import find_culprits
        from pilotlight.trace.flight_recorder import read_dumps

        found = read_dumps(folder / "flight_recorder")
        shown.append(f"flight recorder: {find_culprits(found.dumps, found.unreadable).conclusion}")
        shown.append(f"see it with `pilotlight hang {folder / 'flight_recorder'}`")
    return shown
