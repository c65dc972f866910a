"""Steps of the host, and those that the device runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.insights.telling import first, only, verdict

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of


def queueing_host(script: Any, steps: int = 4) -> Any:
    """The host queues each step in 100 µs, the device takes 1,000."""
    story = script()
    for _ in range(steps):
        story.step(lambda: [story.launch("gemm", 100.0) for _ in range(10)] and None)
    return story.trace()


def test_steps_of_a_host_far_ahead_are_those_of_the_device(script: Any) -> None:
    (view,) = job_of([queueing_host(script)]).ranks
    assert [round(row.window_ns, -4) for row in view.steps] == [1_000_000] * 4
    assert all(row.compute_ns > 0.99 * row.window_ns for row in view.steps)


def test_what_the_device_is_behind_is_not_the_last_steps(script: Any) -> None:
    """Each step begins with a copy on a stream of its own, which does not wait for the kernels."""
    story = script()
    for number in range(1, 6):
        begin = story.host_us
        story.step(lambda: [story.launch("gemm", 100.0) for _ in range(10)] and None)
        call = {"correlation": 1000 + number}
        story.span("cuda_runtime", "cudaMemcpyAsync", begin + 0.1, 1.0, **call)
        story.span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", begin + 2, 5.0, **call)
        story.events[-1]["tid"] = 20
    (view,) = job_of([story.trace()]).ranks
    assert [round(row.window_ns, -4) for row in view.steps] == [1_000_000] * 5


def test_steps_that_overlap_go_by_their_begins(script: Any) -> None:
    """A copy of the second step ends after all of the third."""
    story = script()
    for number in range(1, 5):
        begin = story.host_us
        story.step(lambda: [story.launch("gemm", 100.0) for _ in range(10)] and None)
        if number == 2:
            story.span("cuda_runtime", "cudaMemcpyAsync", begin + 0.1, 1.0, correlation=1000)
            copy = "Memcpy DtoH (Device -> Pinned)"
            story.span("gpu_memcpy", copy, story.device_us, 1500.0, correlation=1000)
            story.events[-1]["tid"] = 20
    (view,) = job_of([story.trace()]).ranks
    assert [round(row.window_ns, -4) for row in view.steps] == [1_000_000] * 4


def test_steps_of_a_host_that_waits_stay_as_they_are(script: Any) -> None:
    story = script()
    for _ in range(4):
        story.step(lambda: story.launch("gemm", 100.0).synchronize())
    trace = story.trace()
    (view,) = job_of([trace]).ranks
    assert np.array_equal(view.trace.steps.start_ns, trace.steps.start_ns)


def test_what_a_host_does_before_its_first_kernel_is_part_of_the_step(script: Any) -> None:
    story = script()
    story.step(
        lambda: story.host("preprocess", 5000.0).launch("softmax_forward", 1000.0).synchronize()
    )
    (view,) = job_of([story.trace()]).ranks
    (row,) = view.steps
    assert sum(row.idle_by_cause_ns.values()) == row.idle_ns
    finding = only("A02", story.trace())
    assert finding.gain_high_ratio > 0.8
    assert finding.place == "preprocess"


def test_the_host_is_repaired_on_all_ranks_that_it_holds_up(script: Any) -> None:
    traces = []
    for rank in range(3):
        story = script(rank, 3)
        for _ in range(4):
            story.step(lambda story=story: story.host("op", 800.0).launch("gemm", 100.0))
        traces.append(story.trace())
    assert first(*traces)[0] == "host"
    (remedy,) = verdict("A02", *traces).findings[0].remedies
    assert remedy.ranks == (0, 1, 2)


def test_an_idle_device_is_told_though_no_wait_explains_it(script: Any) -> None:
    """The gaps begin in a blocking call, but without it the host would be as late."""
    story = script()
    for _ in range(4):
        story.step(lambda: story.launch("gemm", 100.0).synchronize().host("verify", 900.0))
    (finding, *_) = diagnose(job_of([story.trace()])).findings
    assert (finding.cause, finding.place) == ("host", "verify")
    assert finding.gain_high_ratio > 0.5
