from __future__ import annotations

from typing import Any

import pytest

from pilotlight.insights.job import job_of
from pilotlight.insights.recorded_graph import recorded_graph
from pilotlight.insights.repair import repaired_ns
from pilotlight.insights.shorter import shorter_kernels


def test_what_kernels_lose_is_taken_from_all_of_their_name(script: Any) -> None:
    story = script()
    for _ in range(4):
        story.launch("slow", 1000).launch("other", 500)
    job = job_of([story.trace()])
    (view,) = job.ranks
    number = view.trace.names.index("slow")
    remedy = shorter_kernels(view, {number: 1_000_000.0})
    assert remedy.kernels == (("slow", 0.75),)
    graph = recorded_graph(job)
    saved = graph.total_ns(graph.duration_ns) - repaired_ns(graph, [remedy])
    assert saved == pytest.approx(1_000_000)


def test_kernels_cannot_lose_more_than_they_take(script: Any) -> None:
    (view,) = job_of([script().launch("k", 10).trace()]).ranks
    number = view.trace.names.index("k")
    assert shorter_kernels(view, {number: 1e9}, (0,)).kernels == (("k", 0.0),)
