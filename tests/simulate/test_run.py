from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.errors import FormatError, UsageError
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import FAULTS, TWINS, Fault, parse_fault
from pilotlight.simulate.job import JobShape, shape_of
from pilotlight.simulate.run import simulate, step_us
from pilotlight.trace.kineto_writer import write_kineto
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Kind

SHAPE = JobShape(ranks=4, steps=6, layers=6)


def test_the_same_seed_gives_the_same_job() -> None:
    first, second = simulate(SHAPE), simulate(SHAPE)
    for a, b in zip(first, second, strict=True):
        assert (a.spans.start_ns == b.spans.start_ns).all()
        assert a.names == b.names


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(FAULTS)), st.integers(0, 3), st.floats(1, 3), st.integers(0, 99))
def test_spans_of_a_stream_never_overlap_and_all_ranks_leave_a_collective_together(
    kind: str, rank: int, factor: float, seed: int
) -> None:
    shape = JobShape(ranks=4, steps=3, layers=3, seed=seed)
    ends = []
    for trace in simulate(shape, (Fault(kind, rank, factor),)):
        device = trace.of_kind(Kind.KERNEL, Kind.MEMCPY)
        for lane in np.unique(device.lane):
            mine = device.take(device.lane == lane)
            order = np.argsort(mine.start_ns, kind="stable")
            assert (mine.start_ns[order][1:] >= mine.end_ns[order][:-1]).all()
        collectives = trace.of_kind(Kind.KERNEL)
        nccl = np.array([trace.names[n].startswith("nccl") for n in collectives.name])
        ends.append(collectives.end_ns[nccl])
    assert all((row == ends[0]).all() for row in ends)


@pytest.mark.parametrize("kind", sorted(set(FAULTS) - {"launch", "slow_link"}))
def test_a_fault_makes_the_step_longer(kind: str) -> None:
    faulty = step_us(simulate(SHAPE, (Fault(kind, 2, 1.5),)))
    assert faulty > 1.1 * step_us(simulate(SHAPE))


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_a_plain_fault_is_diagnosed_with_its_rank(kind: str) -> None:
    factor = 12.0 if kind == "slow_link" else 1.5
    fault = Fault(kind, 2, factor)
    finding = diagnose(job_of(simulate(SHAPE, (fault,)))).findings[0]
    assert finding.cause == fault.cause
    if fault.is_of_one_rank:
        assert finding.rank == 2


@pytest.mark.parametrize("kind", TWINS)
def test_a_harmless_change_raises_no_alarm(kind: str) -> None:
    assert diagnose(job_of(simulate(SHAPE, (Fault(kind, 0, 1.3),)))).findings == ()


def test_written_files_give_the_same_diagnosis_as_the_simulation(tmp_path: Path) -> None:
    traces = simulate(SHAPE, (Fault("slow_gpu", 1, 1.3),))
    for trace in traces:
        write_kineto(trace, tmp_path / f"rank{trace.rank}.json.gz")
    found = read_traces([tmp_path])
    assert found.problems == ()
    direct = diagnose(job_of(traces)).findings
    read_back = diagnose(job_of(found.traces)).findings
    assert [(f.rule, f.rank) for f in read_back] == [(f.rule, f.rank) for f in direct]
    for a, b in zip(direct, read_back, strict=True):
        assert a.gain_high_ratio == pytest.approx(b.gain_high_ratio)


@pytest.mark.parametrize(
    "text", ["", "x", "slow_gpu:rank=9", "slow_gpu:rank=a", "slow_gpu:y=2", "gc:x=0.5"]
)
def test_a_wrong_fault_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_fault(text, ranks=4)


def test_a_fault_is_parsed() -> None:
    assert parse_fault("slow_gpu:rank=3,x=1.2", ranks=4) == Fault("slow_gpu", 3, 1.2)


@pytest.mark.parametrize(
    "values", [{"rank": 3}, {"ranks": 0}, {"steps": "many"}, {"ranks": 10**8}, {"gemm_us": -1.0}]
)
def test_a_wrong_job_names_the_setting(values: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"job\.toml: ") as caught:
        shape_of(json.loads(json.dumps(values)), "job.toml")
    assert "\n" not in str(caught.value)
