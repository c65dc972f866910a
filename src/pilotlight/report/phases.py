"""What the steps of each rank are made of, told by the adapters of frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanFlag, SpanKind, WindowKind
from pilotlight.report.coverage import Coverage
from pilotlight.report.reductions import (
    each_stands_for,
    hidden_ratio,
    is_reduction,
    phase_spans,
    step_starts,
)
from pilotlight.report.steps import StepRows

PHASES = ("data", "forward", "backward", "optimizer", "communication", "checkpoint")
OTHER = "other"


@dataclass(frozen=True)
class PhaseTimes:
    """Of one process and phase. Phases do not overlap; `other` is what none of them covers.

    `total_ns` is of all steps that the recording knows; a phase that began or ended outside of them
    counts only as far as it lies inside where detail is kept, and whole where only windows are.
    `is_estimate`: not all reductions of gradients were told; the rest is reckoned from them.
    """

    process: int
    phase: str
    count: int
    total_ns: int
    ratio: float
    is_estimate: bool = False


def phase_times(
    recording: Recording, coverage: Coverage, rows: list[StepRows]
) -> tuple[PhaseTimes, ...]:
    result: list[PhaseTimes] = []
    spans = recording.detail("spans")
    spans = spans.where((spans["kind"] == SpanKind.PHASE) & ((spans["flags"] & _PARTIAL) == 0))
    names = recording.names.find(spans["process"], spans["name"])
    sums = recording.windows("windows")
    early = sums.where(
        (sums["kind"] == WindowKind.RANGE)
        & (sums["state"] == SpanKind.PHASE)
        & coverage.window_rows(sums["process"], sums["start_ns"])
    )
    early_names = recording.names.find(early["process"], early["id"])
    texts = recording.names.texts
    for steps in rows:
        mine = spans["process"] == steps.process
        if not mine.any() and not (early["process"] == steps.process).any():
            continue
        detail_from = coverage.detail_from_ns[coverage.place(np.array([steps.process]))[0]]
        late = steps.start_ns >= detail_from
        whole_ns = int(steps.duration_ns.sum())
        told_ns = 0
        for phase in PHASES:
            numbers = [number for number, text in enumerate(texts) if text == phase]
            chosen = mine & np.isin(names, numbers)
            inside_ns, count = _inside(spans, chosen, steps, late)
            windows = (early["process"] == steps.process) & np.isin(early_names, numbers)
            total_ns = inside_ns + int(early["total_ns"][windows].sum())
            count += int(early["count"][windows].sum())
            if count == 0:
                continue
            told_ns += total_ns
            result.append(
                PhaseTimes(steps.process, phase, count, total_ns, _ratio(total_ns, whole_ns))
            )
        if told_ns:
            other_ns = max(0, whole_ns - told_ns)
            result.append(PhaseTimes(steps.process, OTHER, 0, other_ns, _ratio(other_ns, whole_ns)))
    return tuple(_with_untold(result, recording, phase_spans(recording, "backward")))


def _with_untold(
    found: list[PhaseTimes], recording: Recording, backwards: Columns
) -> list[PhaseTimes]:
    """The adapter tells every n-th reduction of fast steps; the others hide in the backward."""
    rows = recording.detail("collectives")
    untold = each_stands_for(recording, rows) - 1
    moved: dict[int, float] = {}
    for process in np.unique(rows["process"][untold > 0]).tolist():
        mine = is_reduction(recording, rows) & (rows["process"] == process)
        moved[process] = hidden_ratio(
            rows.where(mine),
            untold[mine],
            backwards.where(backwards["process"] == process),
            step_starts(recording, process),
        )
    hidden_ns = {
        each.process: int(each.total_ns * moved[each.process])
        for each in found
        if each.phase == "backward" and each.process in moved
    }
    return [
        _moved(each, hidden_ns[each.process]) if each.process in hidden_ns else each
        for each in found
    ]


def _moved(times: PhaseTimes, moved_ns: int) -> PhaseTimes:
    sign = {"communication": 1, "backward": -1}.get(times.phase, 0)
    if sign == 0 or times.total_ns == 0:
        return times
    total_ns = times.total_ns + sign * moved_ns
    ratio = min(1.0, times.ratio * total_ns / times.total_ns)
    return replace(times, total_ns=total_ns, ratio=ratio, is_estimate=True)


_PARTIAL = SpanFlag.NEVER_CLOSED | SpanFlag.BEGIN_LOST


def _inside(spans: Columns, chosen: Array, steps: StepRows, late: Array) -> tuple[int, int]:
    """How long these spans lie in steps, on the steps' own threads, and how many do."""
    total_ns = count = 0
    for thread in np.unique(steps.thread[late]).tolist():
        mine = chosen & (spans["thread"] == thread)
        own = late & (steps.thread == thread)
        if not mine.any() or not own.any():
            continue
        order = np.argsort(steps.start_ns[own], kind="stable")
        begin = steps.start_ns[own][order]
        end = begin + steps.duration_ns[own][order]
        start = spans["start_ns"][mine]
        stop = start + spans["duration_ns"][mine]
        # Steps of a thread follow one another without a gap, so only the outer ends matter.
        overlap = np.minimum(stop, end[-1]) - np.maximum(start, begin[0])
        total_ns += int(overlap[overlap > 0].sum())
        count += int(np.count_nonzero(overlap > 0))
    return total_ns, count


def _ratio(part_ns: int, whole_ns: int) -> float:
    return min(1.0, part_ns / whole_ns) if whole_ns else 0.0
