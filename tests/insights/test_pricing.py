from __future__ import annotations

import pytest
from tests.insights.telling import simulated, verdict

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate, step_us

SHAPE = JobShape(ranks=4, steps=8, layers=6)


@pytest.mark.parametrize(
    "kind",
    [
        "loader", "gc", "recompile", "slow_gpu", "throttle", "slow_host", "cpu_contention", "sync",
        "length_imbalance",
    ],
)  # fmt: skip
def test_the_high_end_of_a_gain_is_what_the_job_without_the_fault_gains(kind: str) -> None:
    faults = (Fault(kind, 1, 1.4),)
    found = diagnose(job_of(simulate(SHAPE, faults)))
    true = 1 - step_us(simulate(SHAPE)) / step_us(simulate(SHAPE, faults))
    assert found.findings[0].gain_high_ratio == pytest.approx(true, rel=0.12)
    assert "replay" in found.pricing


def test_gains_together_are_less_than_their_sum() -> None:
    faults = (Fault("loader", 0, 1.3), Fault("slow_gpu", 1, 1.3))
    found = diagnose(job_of(simulate(SHAPE, faults)))
    gains = [finding.gain_high_ratio for finding in found.findings if finding.remedies]
    assert len(gains) == 2 and found.joint_gain_ratio is not None
    assert max(gains) < found.joint_gain_ratio < sum(gains)


def test_without_findings_nothing_is_replayed() -> None:
    assert diagnose(job_of(simulated(layers=6))).joint_gain_ratio is None


def test_a_call_that_drains_the_device_hides_no_other_cause() -> None:
    faults = (Fault("storage", 1, 1.8), Fault("allocation", 0, 1.02))
    found = diagnose(job_of(simulate(SHAPE, faults))).findings[0]
    true = 1 - step_us(simulate(SHAPE, faults[1:])) / step_us(simulate(SHAPE, faults))
    assert (found.cause, found.rank) == ("loader", 1)
    assert found.gain_high_ratio == pytest.approx(true, rel=0.12)


def test_without_calls_for_memory_the_optimizer_still_waits_for_the_gradients() -> None:
    faults = (Fault("allocation", 0, 1.1),)
    found = diagnose(job_of(simulate(SHAPE, faults))).findings[0]
    true = 1 - step_us(simulate(SHAPE)) / step_us(simulate(SHAPE, faults))
    assert found.cause == "allocation"
    assert found.gain_high_ratio == pytest.approx(true, rel=0.12)


def test_a_stage_with_more_work_gains_between_sharing_and_losing_it() -> None:
    shape = JobShape(ranks=4, steps=5, layers=4, pipeline=4, micro_batches=8, transfer_us=5)
    faults = (Fault("stage_imbalance", 1, 1.5),)
    found = diagnose(job_of(simulate(shape, faults))).findings[0]
    true = 1 - step_us(simulate(shape)) / step_us(simulate(shape, faults))
    assert found.gain_high_ratio == pytest.approx(true, rel=0.1)
    assert found.gain_low_ratio == pytest.approx(0.75 * found.gain_high_ratio)


def test_without_waiting_no_more_is_gained_than_the_idle_time_after_it() -> None:
    traces = simulate(SHAPE, (Fault("loader", 0, 1.3), Fault("sync", 0, 1.05)))
    found = {finding.rule: finding for finding in diagnose(job_of(traces)).findings}
    idle = max(finding.gain_high_ratio for finding in verdict("A03", *traces).findings)
    assert 0 < found["A03"].gain_high_ratio <= idle
    assert next(iter(found)) == "A08"


def test_a_cause_that_gains_little_explains_no_other() -> None:
    shape = JobShape(
        ranks=16, steps=5, pipeline=2, tensor=2, micro_batches=4, gemm_us=132, attention_us=117
    )
    faults = (Fault("slow_link", 10, 12.0), Fault("slow_host", 9, 1.5))
    found = diagnose(job_of(simulate(shape, faults))).findings
    true = 1 - step_us(simulate(shape, faults[:1])) / step_us(simulate(shape, faults))
    assert (found[0].cause, found[0].rank) == ("straggler", 9)
    assert found[0].gain_high_ratio == pytest.approx(true, rel=0.2)
