"""A trace opened for the page: every answer about it, each made when first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

import numpy as np

from pilotlight.analysis import Analysis
from pilotlight.errors import NotFound, UsageError
from pilotlight.insights.breakdown import Breakdown, kernel_times
from pilotlight.insights.collective import clock_offsets
from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import Int64, Trace, UInt8
from pilotlight.web import answers
from pilotlight.web.headline import headline
from pilotlight.web.icicle import UNLAUNCHED, Icicle, icicle_of
from pilotlight.web.layout import Layout, layout_of
from pilotlight.web.path import Path, path_of
from pilotlight.web.roofs import roofline_answer
from pilotlight.web.summary import with_summary
from pilotlight.web.tiles import DEEPEST_LEVEL, Extent, merging, partners, rows_of, tile

KERNELS_LISTED = 500
COUNTERS_LISTED = 64
HITS_LISTED = 1000
TOTALS_LISTED = 200
POINTS = 1000
CACHED_TILES = 512

__all__ = ["UNLAUNCHED", "OpenRank", "OpenTrace"]


@dataclass(frozen=True)
class OpenRank:
    """One rank, laid out; the first `own` spans are the trace's, the others were added here."""

    trace: Trace
    own: int
    activity: UInt8
    layout: Layout
    partner: Int64
    row_of: Int64


class OpenTrace:
    def __init__(
        self,
        identity: str,
        title: str,
        analysis: Analysis,
        stalls: Sequence[answers.KernelStalls] = (),
    ) -> None:
        self.identity = identity
        self.title = title
        self.analysis = analysis
        self.stalls = list(stalls)
        self.tile = lru_cache(CACHED_TILES)(self._tile)
        self._ranks: dict[int, OpenRank] = {}

    @cached_property
    def offset_ns(self) -> dict[int, int]:
        """By rank how far its clock is ahead, as told by the common ends of collectives."""
        job = self.analysis.job
        offsets = dict.fromkeys((trace.rank for trace in job.traces), 0)
        if job.collectives is not None:
            found, _ = clock_offsets(job.collectives)
            offsets |= {view.rank: int(o) for view, o in zip(job.ranks, found, strict=True)}
        return offsets

    @property
    def first_rank(self) -> int:
        return next((trace.rank for trace in self.analysis.job.traces), 0)

    @cached_property
    def path(self) -> Path:
        return path_of(self.analysis.job, self.offset_ns)

    @cached_property
    def extent(self) -> Extent:
        """On the clock that all ranks share."""
        ranks = [trace for trace in self.analysis.job.traces if len(trace.spans)]
        if not ranks:
            return Extent(0, 1)
        starts = (int(t.spans.start_ns.min()) - self.offset_ns[t.rank] for t in ranks)
        ends = (int(t.spans.end_ns.max()) - self.offset_ns[t.rank] for t in ranks)
        return Extent(min(starts), max(ends))

    def begin_ns(self, number: int) -> int:
        """The begin of the timeline on the clock of a rank."""
        return self.extent.start_ns + self.offset_ns.get(number, 0)

    def rank(self, number: int) -> OpenRank:
        """Laid out once; NotFound for a rank that the trace has not."""
        known = self._ranks.get(number)
        if known is None:
            trace = next((t for t in self.analysis.job.traces if t.rank == number), None)
            if trace is None:
                raise NotFound(f"no rank {number} in {self.title}")
            view = self._view(number)
            whole, activity = with_summary(
                trace, view.line if view else None, self.path.by_rank.get(number)
            )
            layout = layout_of(whole)
            row_of = rows_of(layout, len(whole.spans))
            known = OpenRank(whole, len(trace.spans), activity, layout, partners(whole), row_of)
            self._ranks[number] = known
        return known

    def _view(self, number: int) -> RankView | None:
        return next((v for v in self.analysis.job.ranks if v.rank == number), None)

    def _tile(self, number: int, level: int, index: int) -> bytes:
        if not 0 <= level <= DEEPEST_LEVEL or not 0 <= index < 1 << level:
            raise UsageError(f"no tile {index} on level {level}")
        rank, extent = self.rank(number), self._extent_of(number)
        return tile(
            rank.trace, rank.layout, rank.activity, rank.partner, rank.row_of, extent, level, index
        )

    def merging(self, number: int, level: int) -> list[int]:
        """The tiles of a rank on this level that do not show each span by itself."""
        rank = self.rank(number)
        return merging(rank.trace, rank.layout, self._extent_of(number), level)

    def _extent_of(self, number: int) -> Extent:
        """On the clock of a rank."""
        begin_ns = self.begin_ns(number)
        return Extent(begin_ns, begin_ns + self.extent.end_ns - self.extent.start_ns)

    def icicle(self, number: int, from_ns: int, to_ns: int) -> Icicle:
        """Of a rank, between two times relative to the begin of the timeline."""
        rank = self.rank(number)
        base = self.begin_ns(number)
        return icicle_of(rank.trace, rank.activity, rank.partner, base + from_ns, base + to_ns)

    def search(self, text: str, number: int | None) -> answers.Hits:
        """Spans whose name has the text in it, in any case."""
        wanted = text.lower()
        found: list[answers.Hit] = []
        total = total_ns = 0
        for trace in self.analysis.job.traces:
            if number is not None and trace.rank != number:
                continue
            rank = self.rank(trace.rank)
            spans = rank.trace.spans
            named = np.array([wanted in name.lower() for name in rank.trace.names], np.bool_)
            rows = np.flatnonzero((named[spans.name] & (rank.row_of >= 0))[: rank.own])
            total += rows.size
            total_ns += int(spans.duration_ns[rows].sum())
            order = rows[np.argsort(spans.start_ns[rows], kind="stable")][:HITS_LISTED]
            found += [
                answers.Hit(
                    trace.rank,
                    int(rank.row_of[row]),
                    row,
                    int(spans.start_ns[row]) - self.begin_ns(trace.rank),
                    int(spans.duration_ns[row]),
                    rank.trace.names[int(spans.name[row])],
                )
                for row in order.tolist()
            ]
        found.sort(key=lambda hit: hit.start_ns)
        return answers.Hits(total, total_ns, found[:HITS_LISTED])

    def totals(self, number: int, from_ns: int, to_ns: int, rows: list[int]) -> answers.Totals:
        """Time within the stretch by name, on these rows or, without any, on all."""
        rank = self.rank(number)
        spans = rank.trace.spans
        base = self.begin_ns(number)
        low, high = base + from_ns, base + to_ns
        inside = np.minimum(spans.end_ns, high) - np.maximum(spans.start_ns, low)
        chosen = (inside > 0) & (rank.row_of >= 0)
        if rows:
            chosen &= np.isin(rank.row_of, np.array(rows))
        else:
            chosen[rank.own :] = False
        at = np.flatnonzero(chosen)
        size = len(rank.trace.names)
        time_ns = np.bincount(spans.name[at], inside[at].astype(np.float64), size)
        count = np.bincount(spans.name[at], minlength=size)
        activity = np.zeros(size, np.uint8)
        activity[spans.name[at]] = rank.activity[at]
        order = np.argsort(-time_ns, kind="stable")[:TOTALS_LISTED]
        listed = [
            answers.Total(rank.trace.names[n], int(activity[n]), int(count[n]), int(time_ns[n]))
            for n in order.tolist()
            if count[n]
        ]
        return answers.Totals(from_ns, to_ns, int(at.size), int((count > 0).sum()), listed)

    def roofline(self, number: int | None, gpu: str | None) -> answers.Roofline:
        """Of a rank, or of the first with a device; `gpu` where the trace does not name it."""
        views = self.analysis.job.ranks
        view = self._view(number) if number is not None else next(iter(views), None)
        if view is None:
            raise NotFound("no rank with a device here")
        return roofline_answer(view, gpu)

    @cached_property
    def answer(self) -> answers.Trace:
        found, job = self.analysis, self.analysis.job
        counters, left_out = self._counters()
        return answers.Trace(
            id=self.identity,
            title=self.title,
            headline=headline(found),
            step_ns=job.step_ns if job.ranks else None,
            length_ns=self.extent.length_ns,
            levels=self.extent.levels,
            merged_ns=0.0,
            ranks=[self._rank_answer(trace) for trace in job.traces],
            findings=[
                answers.Finding(
                    rule=finding.rule,
                    cause=finding.cause,
                    title=finding.title,
                    rank=finding.rank,
                    place=finding.place,
                    evidence=list(finding.evidence),
                    fix=finding.fix,
                    gain_low_ratio=finding.gain_low_ratio,
                    gain_high_ratio=finding.gain_high_ratio,
                    confidence=finding.confidence,
                    places=[
                        answers.Place(
                            s.rank, s.name, s.start_ns - self.begin_ns(s.rank), s.duration_ns
                        )
                        for s in finding.spans
                    ],
                )
                for finding in found.diagnosis.findings
            ],
            not_checked=[
                answers.NotChecked(row.rule, row.cause, row.missing)
                for row in found.diagnosis.not_checked
            ],
            kernels=self._kernels(),
            counters=counters,
            counters_left_out=left_out,
            problems=[str(problem) for problem in found.problems],
            path_ratios=dict(self.path.ratios),
            path_missing=self.path.missing,
            clock_offset_ns=max((abs(ns) for ns in self.offset_ns.values()), default=0),
            stalls=self.stalls,
        )

    def _rank_answer(self, trace: Trace) -> answers.Rank:
        rank, view, base = self.rank(trace.rank), self._view(trace.rank), self.begin_ns(trace.rank)
        empty = not len(trace.spans)
        first_ns = 0 if empty else int(trace.spans.start_ns.min()) - base
        last_ns = self.extent.length_ns if empty else int(trace.spans.end_ns.max()) - base
        if view is not None:
            first_ns, last_ns = view.line.start_ns - base, view.line.end_ns - base
        parts = [parts_of(row) for row in view.steps] if view else []
        # As the device follows them, which is what the parts and the headline are of.
        steps = view.trace.steps if view else trace.steps
        columns = zip(
            steps.number.tolist(),
            steps.start_ns.tolist(),
            steps.duration_ns.tolist(),
            strict=True,
        )
        return answers.Rank(
            rank=trace.rank,
            source=trace.source,
            format=trace.format,
            device=next(iter(trace.devices), ""),
            spans=len(trace.spans),
            left_out=rank.layout.left_out,
            rows=[answers.Row(r.title, r.is_device, r.depth) for r in rank.layout.rows],
            first_ns=first_ns,
            last_ns=last_ns,
            parts=parts_of(view.whole) if view else None,
            steps=[
                answers.Step(number, start - base, length, parts[i] if i < len(parts) else None)
                for i, (number, start, length) in enumerate(columns)
            ],
        )

    def _kernels(self) -> list[answers.Kernel]:
        merged: dict[str, answers.Kernel] = {}
        for view in self.analysis.job.ranks:
            for row in kernel_times(view.trace):
                old = merged.get(row.name)
                merged[row.name] = answers.Kernel(
                    row.name,
                    row.category,
                    row.count + (old.count if old else 0),
                    row.total_ns + (old.total_ns if old else 0),
                    max(row.median_ns, old.median_ns) if old else row.median_ns,
                )
        return sorted(merged.values(), key=lambda row: -row.total_ns)[:KERNELS_LISTED]

    def _counters(self) -> tuple[list[answers.CounterLine], int]:
        """And how many more there are."""
        series: list[answers.CounterLine] = []
        left_out = 0
        # What a node counts is in the traces of all its ranks: one of them tells it.
        known: set[bytes] = set()
        for trace in self.analysis.job.traces:
            counters = trace.counters
            for name in np.unique(counters.name).tolist():
                if len(series) == COUNTERS_LISTED:
                    left_out += 1
                    continue
                rows = np.flatnonzero(counters.name == name)
                rows = rows[np.argsort(counters.time_ns[rows], kind="stable")]
                rows = rows[_thinned(counters.value[rows])]
                values = np.nan_to_num(counters.value[rows])
                same = trace.names[name].encode() + values.tobytes()
                if same in known:
                    continue
                known.add(same)
                times = (counters.time_ns[rows] - self.begin_ns(trace.rank)).tolist()
                line = answers.CounterLine(trace.rank, trace.names[name], times, values.tolist())
                series.append(line)
        return series, left_out


def parts_of(row: Breakdown) -> answers.Parts:
    values = asdict(row)
    return answers.Parts(**{name: values[name] for name in answers.Parts.__struct_fields__})


def _thinned(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Int64:
    """The rows of the least and the greatest value of each stretch."""
    if values.size <= 2 * POINTS:
        return np.arange(values.size)
    bounds = np.linspace(0, values.size, POINTS + 1).astype(np.int64)
    kept: set[int] = set()
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        kept |= {low + int(values[low:high].argmin()), low + int(values[low:high].argmax())}
    return np.array(sorted(kept), np.int64)
