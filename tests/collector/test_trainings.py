"""Simulated trainings through what the collector does with their batches; bench/comparing.py has
many more of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotlight.collector.watch.look import found_in
from pilotlight.collector.watch.opened import Register
from pilotlight.collector.watch.recent import RecentJob, take_in
from pilotlight.simulate.training import Training
from pilotlight.store.batch import Clock, decode

EPOCH_NS = 1_700_000_000_000_000_000
DEVICES = Training(0, lasts_s=150.0, slow_from_s=80.0, evaluates_every=90, saves_every=60)
HOSTS = Training(
    0,
    ranks=4,
    ranks_per_node=2,
    step_s=0.05,
    lasts_s=150.0,
    slow_from_s=80.0,
    sees_devices=False,
    jitter_ratio=0.08,
    drift_ratio=0.03,
    spikes_ratio=0.01,
)


def blamed(training: Training) -> list[tuple[int | None, float]]:
    """Who is said to hold up the others, and how long after the fault began."""
    jobs: dict[tuple[str, str], RecentJob] = {}
    register, found = Register(), []
    since_ns = EPOCH_NS + training.slow_from_ns()
    for when_ns, body in training.batches(EPOCH_NS):
        take_in(jobs, decode("default", body, Clock(), when_ns))
        (job,) = jobs.values()
        for one in register.update(job, found_in(job, job.told_ns), when_ns):
            if one.opened_ns == when_ns and "holds up" in one.finding.title:
                found.append((one.finding.rank, (when_ns - since_ns) / 1e9))
    return found


@pytest.mark.parametrize("training", [DEVICES, HOSTS], ids=["devices", "hosts"])
@pytest.mark.parametrize("seed", range(3))
def test_healthy_trainings_have_no_straggler(training: Training, seed: int) -> None:
    assert blamed(replace(training, seed=seed)) == []


@pytest.mark.parametrize("training", [DEVICES, HOSTS], ids=["devices", "hosts"])
@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_a_slow_rank_is_found_although_agents_are_not_in_step(
    training: Training, factor: float
) -> None:
    ((rank, delay_s),) = blamed(replace(training, seed=5, slow_rank=1, slow_factor=factor))
    assert rank == 1 and 0 < delay_s < 30
