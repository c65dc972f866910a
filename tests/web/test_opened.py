"""What the page is told of a trace that was opened."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from tests.insights.conftest import Script

from pilotlight.analysis import Analysis
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.trace.trace import Counters, Trace
from pilotlight.web.activity import Activity, activities
from pilotlight.web.opened import COUNTERS_LISTED, OpenTrace


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


def test_what_all_ranks_have_is_not_said_to_be_of_one() -> None:
    def late(rank: int) -> Trace:
        story = Script(rank)
        for _ in range(4):
            story.step(lambda: [story.host("aten::mul", 90).launch("gemm", 50) for _ in range(9)])
        return story.trace()

    job = job_of([late(rank) for rank in range(3)])
    told = OpenTrace("0", "job", Analysis(job, diagnose(job), ())).answer.headline
    assert ": on all ranks the host launches too late (" in told


def counted(rank: int, names: tuple[str, ...], values: list[float]) -> Trace:
    """Each of the counters has all of the values."""
    trace = Script(rank).host("aten::mm", 10).trace()
    first, each = len(trace.names), len(values)
    return replace(
        trace,
        names=(*trace.names, *names),
        counters=Counters(
            np.tile(trace.spans.start_ns[0] + np.arange(each), len(names)),
            np.repeat(np.arange(first, first + len(names)), each).astype(np.uint32),
            np.tile(np.array(values, np.float64), len(names)),
        ),
    )


def test_what_a_node_counts_is_told_by_one_of_its_ranks_and_what_is_left_out_is_counted() -> None:
    twice = job_of([counted(0, ("host load", "loss"), [1, 2]), counted(1, ("host load",), [1, 2])])
    told = OpenTrace("0", "job", Analysis(twice, diagnose(twice), ())).answer
    assert [(line.rank, line.name) for line in told.counters] == [(0, "host load"), (0, "loss")]
    assert told.counters_left_out == 0
    many = job_of([counted(0, tuple(f"c{i}" for i in range(COUNTERS_LISTED + 5)), [1, 2])])
    told = OpenTrace("0", "job", Analysis(many, diagnose(many), ())).answer
    assert (len(told.counters), told.counters_left_out) == (COUNTERS_LISTED, 5)


def test_a_trace_without_a_device_is_told_its_step() -> None:
    story = Script()
    for _ in range(3):
        story.step(lambda: story.host("aten::mm", 500) and None)
    job = job_of([story.trace()])
    told = OpenTrace("0", "job", Analysis(job, diagnose(job), ())).answer.headline
    assert re.fullmatch(r"Step 5\d\d µs, no device activity: only the host .*", told), told


def test_a_trace_without_steps_is_said_to_have_none_and_gains_are_of_its_time() -> None:
    story = Script()
    for _ in range(20):
        story.host("aten::mul", 900).launch("gemm", 100)
    job = job_of([story.trace()])
    told = OpenTrace("0", "job", Analysis(job, diagnose(job), ())).answer.headline
    assert re.fullmatch(
        r"No step is marked; device busy 1\d.\d % of [\d.]+ ms: .* \(worth .* of that time\)\.",
        told,
    ), told


def test_reductions_on_the_cpu_have_the_colour_of_communication() -> None:
    trace = Script().host("gloo:all_reduce", 100).host("c10d::allreduce_", 10).trace()
    shown = {trace.names[n]: a for n, a in zip(trace.spans.name, activities(trace), strict=True)}
    assert shown["gloo:all_reduce"] == Activity.COMMUNICATION
    assert shown["c10d::allreduce_"] == Activity.HOST


def test_a_trace_of_jax_is_not_told_to_record_shapes_with_torch(traces: tuple[Trace, ...]) -> None:
    job = job_of([replace(trace, format="xplane") for trace in traces])
    missing = OpenTrace("0", "jax", Analysis(job, diagnose(job), ())).roofline(None, None).missing
    assert "XPlane" in missing and "record_shapes" not in missing
