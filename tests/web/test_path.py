from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page needs pilotlight[server]")
from pilotlight.insights.job import job_of
from pilotlight.trace.trace import Trace
from pilotlight.web import path as paths
from pilotlight.web.layout import PATH, SUMMARY
from pilotlight.web.opened import OpenTrace
from pilotlight.web.path import owners, path_of


def test_the_path_covers_the_whole_time_without_a_gap(
    job: OpenTrace, traces: tuple[Trace, ...]
) -> None:
    found = job.path
    assert not found.missing
    assert sum(found.ratios.values()) == pytest.approx(1)
    spans = [
        (spans.start_ns - job.begin_ns(rank), spans.duration_ns)
        for rank, spans in found.by_rank.items()
    ]
    start = np.concatenate([each for each, _ in spans])
    length = np.concatenate([each for _, each in spans])
    order = np.argsort(start, kind="stable")
    gaps = start[order][1:] - (start + length)[order][:-1]
    assert start.min() == 0
    assert np.abs(gaps).max() <= 2
    assert (start + length).max() == pytest.approx(job.extent.length_ns, rel=0.02)


def test_the_path_is_the_second_row_of_a_rank(job: OpenTrace) -> None:
    rank = max(job.path.by_rank, key=lambda number: len(job.path.by_rank[number].start_ns))
    titles = [row.title for row in job.rank(rank).layout.rows]
    assert titles[:2] == [SUMMARY, PATH]
    flame = job.icicle(rank, 0, job.extent.length_ns)
    assert PATH not in flame.names and SUMMARY not in flame.names


def test_a_collective_is_shown_with_the_rank_that_came_last() -> None:
    assert owners(np.array([-1, 3, -1, -1, 5, -1])).tolist() == [3, 3, 3, 3, 5, 5]


def test_what_is_too_large_says_so(
    traces: tuple[Trace, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "SPANS_LIMIT", 10)
    found = path_of(job_of(traces), {})
    assert (found.by_rank, found.missing) == ({}, "more than 10 spans")


def test_ranks_are_shown_on_one_clock(traces: tuple[Trace, ...]) -> None:
    """A clock that is a second ahead moves nothing on the timeline."""
    from dataclasses import replace

    ahead = 1_000_000_000
    first, *others = traces
    spans = replace(first.spans, start_ns=first.spans.start_ns + ahead)
    steps = replace(first.steps, start_ns=first.steps.start_ns + ahead)
    moved = (replace(first, spans=spans, steps=steps), *others)
    before, after = (_opened(each) for each in (traces, moved))
    assert after.offset_ns[first.rank] - after.offset_ns[others[0].rank] == pytest.approx(
        ahead, abs=100_000
    )
    assert after.extent.length_ns == pytest.approx(before.extent.length_ns, abs=100_000)
    old, new = (each.search("flash", first.rank).hits[0].start_ns for each in (before, after))
    assert new == pytest.approx(old, abs=100_000)


def _opened(traces: tuple[Trace, ...]) -> OpenTrace:
    from pilotlight.analysis import Analysis
    from pilotlight.insights.verdicts import Diagnosis

    return OpenTrace("0", "job", Analysis(job_of(traces), Diagnosis((), ()), ()))
