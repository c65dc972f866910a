"""Named ranges: how often, how long, and how much of it their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanFlag, SpanKind, WindowKind
from pilotlight.report.coverage import Coverage
from pilotlight.report.intervals import nested_in
from pilotlight.report.quantiles import bucket_of, histogram_quantile, quantile

RANGES_LISTED = 500
# Those that a program names itself; what adapters tell has tables of its own.
_OWN_KINDS = (SpanKind.RANGE, SpanKind.OPERATOR, SpanKind.NVTX)


@dataclass(frozen=True)
class RangeTimes:
    """One name over all processes.

    `self_ns` is without the ranges inside it, for the part of the time that is kept in detail.
    `partial` ranges have lost their begin or their end and are in no other number. `is_estimate`:
    the quantiles come from histograms and are within 6 %.
    """

    name: str
    count: int
    total_ns: int
    self_ns: int
    p50_ns: int
    p95_ns: int
    max_ns: int
    partial: int
    is_estimate: bool


def range_times(recording: Recording, coverage: Coverage) -> tuple[RangeTimes, ...]:
    """The names with the most time first."""
    names = recording.names
    spans = recording.detail("spans")
    ended = spans["start_ns"] + spans["duration_ns"]
    ranges = spans.where(
        np.isin(spans["kind"], _OWN_KINDS) & coverage.detail_rows(spans["process"], ended)
    )
    partial = (ranges["flags"] & (SpanFlag.NEVER_CLOSED | SpanFlag.BEGIN_LOST)) != 0
    late_name = names.find(ranges["process"], ranges["name"])
    self_ns = _self_ns(
        ranges["process"], ranges["thread"], ranges["start_ns"], ranges["duration_ns"]
    )

    sums = recording.windows("windows")
    own_states = (0, SpanKind.OPERATOR, SpanKind.NVTX)
    early = sums.where(
        (sums["kind"] == WindowKind.RANGE)
        & np.isin(sums["state"], own_states)
        & coverage.window_rows(sums["process"], sums["start_ns"])
    )
    early_name = names.find(early["process"], early["id"])
    buckets = recording.windows("histograms")
    counted = buckets.where(
        (buckets["kind"] == WindowKind.RANGE)
        & coverage.window_rows(buckets["process"], buckets["start_ns"])
    )
    bucket_name = names.find(counted["process"], counted["id"])

    size = len(names.texts)
    whole = ~partial
    late_total = np.bincount(late_name[whole], ranges["duration_ns"][whole], size)
    total = late_total + np.bincount(early_name, early["total_ns"], size)
    chosen = np.flatnonzero(
        np.bincount(late_name, minlength=size) + np.bincount(early_name, minlength=size)
    )
    chosen = chosen[np.argsort(-total[chosen], kind="stable")][:RANGES_LISTED]

    late = _Groups(late_name, chosen)
    before = _Groups(early_name, chosen)
    counts = _Groups(bucket_name, chosen)
    result = []
    for index, name in enumerate(chosen.tolist()):
        rows = late.rows(index)
        rows_whole = rows[whole[rows]]
        durations = np.sort(ranges["duration_ns"][rows_whole])
        sums_of = before.rows(index)
        histogram = counts.rows(index)
        p50_ns, p95_ns = _quantiles(
            durations, counted["bucket"][histogram], counted["count"][histogram]
        )
        longest = [int(durations[-1])] if durations.size else []
        longest += early["max_ns"][sums_of].tolist()
        result.append(
            RangeTimes(
                name=names.texts[name],
                count=int(durations.size) + int(early["count"][sums_of].sum()),
                total_ns=int(total[name]),
                self_ns=int(self_ns[rows_whole].sum()),
                p50_ns=p50_ns,
                p95_ns=p95_ns,
                max_ns=max(longest, default=0),
                partial=int(rows.size - rows_whole.size),
                is_estimate=bool(histogram.size),
            )
        )
    return tuple(result)


class _Groups:
    """The rows of each of the chosen numbers."""

    def __init__(self, numbers: Array, chosen: Array) -> None:
        self._order = np.argsort(numbers, kind="stable")
        ordered = numbers[self._order]
        self._first = np.searchsorted(ordered, chosen, side="left")
        self._last = np.searchsorted(ordered, chosen, side="right")

    def rows(self, index: int) -> Array:
        return self._order[self._first[index] : self._last[index]]


def _self_ns(process: Array, thread: Array, start_ns: Array, duration_ns: Array) -> Array:
    lanes = (process.astype(np.uint64) << np.uint64(32)) | thread.astype(np.uint64)
    parents = nested_in(lanes, start_ns, start_ns + duration_ns)
    inside = parents >= 0
    nested = np.bincount(parents[inside], duration_ns[inside], duration_ns.size)
    own: Array = duration_ns - nested.astype(np.int64)
    return own


def _quantiles(durations_ns: Array, buckets: Array, counts: Array) -> tuple[int, int]:
    if not buckets.size:
        return quantile(durations_ns, 0.5), quantile(durations_ns, 0.95)
    numbers = np.concatenate([bucket_of(durations_ns), buckets.astype(np.int64)])
    weights = np.concatenate([np.ones(durations_ns.size), counts.astype(np.float64)])
    found, position = np.unique(numbers, return_inverse=True)
    sums = np.bincount(position, weights)
    return histogram_quantile(found, sums, 0.5), histogram_quantile(found, sums, 0.95)
