"""What is not in the recording, how much of it, and where it is missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import group
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import GapReason, WindowKind
from pilotlight.report.coverage import Coverage
from pilotlight.report.steps import StepRows

REASONS: dict[int, str] = {
    GapReason.RING_FULL: "the ring was full",
    GapReason.NO_RING: "no ring was left for a thread",
    GapReason.NESTED: "recorded inside a signal handler",
    GapReason.QUARANTINED: "the ring made no sense",
    GapReason.DEFINITIONS_LOST: "names or stacks found no room",
    GapReason.OVER_BUDGET: "the recorder was over its budget",
}


@dataclass(frozen=True)
class Gap:
    """Records that one process lost for one reason, and between which times and steps."""

    process: int
    reason: str
    count: int
    first_since_start_ns: int
    last_since_start_ns: int
    first_step: int | None
    last_step: int | None


@dataclass(frozen=True)
class Losses:
    gaps: tuple[Gap, ...]
    records_dropped: int
    chunks_dropped: int
    rows_dropped: int
    write_errors: tuple[str, ...]
    samples_torn: int
    passes_skipped: int
    warnings: tuple[str, ...]


def losses_of(recording: Recording, coverage: Coverage, steps: list[StepRows]) -> Losses:
    sampler = recording.detail("sampler")
    lost = recording.manifest.lost
    gaps = _gaps(recording, coverage, {rows.process: rows for rows in steps})
    return Losses(
        gaps=gaps,
        records_dropped=sum(gap.count for gap in gaps),
        chunks_dropped=lost.chunks_dropped,
        rows_dropped=lost.rows_dropped,
        write_errors=lost.write_errors,
        samples_torn=int(sampler["torn"].sum(dtype=np.int64)),
        passes_skipped=int(sampler["skipped"].sum(dtype=np.int64)),
        warnings=(*_unseen(recording), *_without_stacks(recording), *recording.warnings),
    )


def _unseen(recording: Recording) -> list[str]:
    """Processes that ended between two agents: nobody took what they had published last."""
    pids = [one.start.pid for one in recording.processes if one.end and one.end.how == "gone"]
    if not pids:
        return []
    who = f"{len(pids)} process{'es' if len(pids) > 1 else ''}"
    return [f"what {who} did last (pid {_first_of(pids)}): no agent was there when it ended"]


def _first_of(pids: list[int]) -> str:
    return f"{pids[0]}{' and others' if len(pids) > 1 else ''}"


def _without_stacks(recording: Recording) -> list[str]:
    """Processes that were recorded, but not sampled, by the reason that their probe gave."""
    sums = recording.windows("windows")
    early = sums["process"][sums["kind"] == WindowKind.SAMPLE]
    sampled = {*recording.detail("samples")["process"].tolist(), *early.tolist()}
    reasons: dict[str, list[int]] = {}
    for process in recording.processes:
        if process.end is not None and process.end.off and process.start.process not in sampled:
            reasons.setdefault(process.end.off, []).append(process.start.pid)
    return [
        f"no stacks of {len(pids)} process{'es' if len(pids) > 1 else ''} "
        f"(pid {_first_of(pids)}): {reason}"
        for reason, pids in reasons.items()
    ]


def _gaps(recording: Recording, coverage: Coverage, steps: dict[int, StepRows]) -> tuple[Gap, ...]:
    table = recording.gaps
    found, position = group(table["process"], table["reason"])
    result = []
    for index, (process, reason) in enumerate(
        zip(found[0].tolist(), found[1].tolist(), strict=True)
    ):
        mine = position == index
        first, last = int(table["first_ns"][mine].min()), int(table["last_ns"][mine].max())
        result.append(
            Gap(
                process=process,
                reason=reason_text(reason),
                count=int(table["count"][mine].sum()),
                first_since_start_ns=first - coverage.start_ns,
                last_since_start_ns=last - coverage.start_ns,
                first_step=_steps_at(steps.get(process), first)[0],
                last_step=_steps_at(steps.get(process), last)[1],
            )
        )
    return tuple(sorted(result, key=lambda gap: -gap.count))


def reason_text(number: int) -> str:
    """Why records were lost, in words."""
    return REASONS.get(number, f"reason {number}")


def _steps_at(rows: StepRows | None, time_ns: int) -> tuple[int | None, int | None]:
    """The step of that time; where its own steps are lost, the first and the last it may be."""
    if rows is None:
        return None, None
    place = int(np.searchsorted(rows.start_ns, time_ns, side="right")) - 1
    if place < 0:
        return None, None
    step = int(rows.step[place])
    if time_ns < rows.start_ns[place] + rows.duration_ns[place]:
        return step, step
    if place + 1 == rows.step.size:
        return None, None
    return step + 1, int(rows.step[place + 1]) - 1
