"""Which rank is to blame, and for what, where several causes look alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.insights.telling import first, is_silent, simulated

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate


def test_a_slow_host_is_named_beside_the_loader_of_another_rank() -> None:
    shape = JobShape(ranks=8, pipeline=4, micro_batches=4, layers=4, steps=8)
    faults = (Fault("slow_host", 3, 3.0), Fault("storage", 2, 2.0))
    worst, second = diagnose(job_of(simulate(shape, faults))).findings[:2]
    assert (worst.cause, worst.rank) == ("straggler", 3)
    assert (second.cause, second.rank) == ("loader", 2)


def test_a_slow_device_does_not_explain_that_another_rank_is_late() -> None:
    faults = (Fault("slow_gpu", 1, 1.3), Fault("slow_host", 3, 1.5))
    found = diagnose(job_of(simulate(JobShape(ranks=6, layers=6, steps=6), faults))).findings
    assert ("straggler", 3) in [(finding.cause, finding.rank) for finding in found]


def test_of_two_ranks_the_slower_device_is_named() -> None:
    assert first(*simulated("slow_gpu", 1, 1.2, ranks=2)) == ("slow_gpu", 1)


def test_of_two_ranks_the_later_host_is_named() -> None:
    assert first(*simulated("slow_host", 1, 1.3, ranks=2)) == ("straggler", 1)


def test_of_three_ranks_the_others_are_compared_without_the_straggler() -> None:
    """Each of the others has it for a half of its peers, and yet they wait alike."""
    assert first(*simulated("slow_host", 2, 1.3, ranks=3)) == ("straggler", 2)
    assert is_silent("A26", *simulated(ranks=3))


def test_a_rank_that_is_slow_by_turns_is_no_slow_device() -> None:
    # Of these lengths one rank has the longest in most steps, by chance.
    shape = JobShape(ranks=4, steps=8, layers=6, seed=96214)
    found = diagnose(job_of(simulate(shape, (Fault("length_imbalance", 3, 1.5),)))).findings
    assert [finding.cause for finding in found] == ["imbalance"]


def test_launches_that_vary_on_their_own_are_no_imbalance() -> None:
    shape = JobShape(ranks=8, pipeline=2, micro_batches=2, layers=4, steps=8, gemm_us=200,
                     attention_us=30, kernel_jitter_ratio=0.08)  # fmt: skip
    assert is_silent("A29", *simulate(shape))


def test_a_wait_that_the_profiler_lost_makes_no_straggler() -> None:
    traces = simulate(JobShape(ranks=8, pipeline=4, micro_batches=4, layers=4, steps=7))
    # Its peers seem to wait for the rank that has lost the longest wait of a step.
    trace = traces[7]
    spans = trace.spans
    waits = spans.duration_ns * trace.name_mask(["SendRecv" in name for name in trace.names])
    lost = replace(trace, spans=spans.take(np.arange(len(spans)) != waits.argmax()))
    assert is_silent("A26", *traces[:7], lost)
