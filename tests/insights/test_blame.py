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


def test_a_device_far_slower_than_any_samples_make_it_is_named_beside_them() -> None:
    faults = (Fault("length_imbalance", 0, 2.0), Fault("slow_gpu", 5, 3.0))
    found = diagnose(job_of(simulate(JobShape(ranks=16, layers=4, steps=7), faults))).findings
    assert (found[0].cause, found[0].rank) == ("slow_gpu", 5)


def test_a_rank_late_for_its_loader_is_no_straggler_besides() -> None:
    """Of two stages that also stop after every operation: what else it is late for is 1.5 %."""
    shape = JobShape(
        ranks=2, steps=7, layers=2, pipeline=2, micro_batches=4, ranks_per_node=4,
        gemm_us=70.61932067696061, attention_us=49.94013580330375,
        elementwise_us=7.3532257178008855, norm_us=8.464131717067955,
        backward_ratio=1.7129700316782173, optimizer_us=122.11997791732917,
        collective_us=31.47721721476326, transfer_us=3.894379850630923,
        tensor_us=1.4220997348234297, exchange_us=1.4220997348234297,
        input_copy_us=23.71828158579504, loader_us=9.514609412189126,
        host_op_us=4.6870433020047635, launch_us=3.4328217026218484,
        kernel_jitter_ratio=0.012000878918438198, device_spread_ratio=0.0021048847949717885,
        counters=True, gpu="NVIDIA B200", seed=88430057,
    )  # fmt: skip
    faults = (Fault("sync", 0, 1.5), Fault("storage", 1, 1.5))
    found = diagnose(job_of(simulate(shape, faults))).findings
    assert {finding.cause for finding in found[:2]} == {"sync", "loader"}
    assert "straggler" not in [finding.cause for finding in found]


def test_a_late_host_of_one_rank_is_told_beside_a_slow_device_of_another() -> None:
    shape = JobShape(ranks=8, steps=9, layers=8, experts=8, gemm_us=159, attention_us=108, seed=5)
    faults = (Fault("cpu_contention", 0, 2.5), Fault("throttle", 2, 1.9))
    found = diagnose(job_of(simulate(shape, faults))).findings
    assert {("A02", 0), ("A23", 2)} <= {(finding.rule, finding.rank) for finding in found}
    assert any("on the other ranks" in text for finding in found for text in finding.evidence)
