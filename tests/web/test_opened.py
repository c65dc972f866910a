"""What the page is told of a trace that was opened."""

from __future__ import annotations

import re

from tests.insights.conftest import Script

from pilotlight.analysis import Analysis
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.web.opened import OpenTrace


def test_steps_of_a_host_far_ahead_are_as_long_as_their_parts_and_the_headline_say() -> None:
    """The host queues each step in 100 µs, the device takes 1,000."""
    story = Script()
    for _ in range(4):
        story.step(lambda: [story.launch("gemm", 100.0) for _ in range(10)] and None)
    job = job_of([story.trace()])
    told = OpenTrace("0", "job", Analysis(job, diagnose(job), ())).answer
    (rank,) = told.ranks
    assert [round(step.duration_ns, -4) for step in rank.steps] == [1_000_000] * 4
    assert told.step_ns is not None and round(told.step_ns, -4) == 1_000_000


def test_the_headline_names_the_rank_to_blame_and_how_busy_it_is(job: OpenTrace) -> None:
    """Rank 2 of 4 waits for its loader; the mean of all hides it."""
    assert re.fullmatch(
        r"Step .+ ms, device busy [\d.]+ %, that of rank 2 [\d.]+ %:"
        r" on rank 2 the device waits for the data loader \(worth .+ of the step\)\.",
        job.answer.headline,
    ), job.answer.headline
