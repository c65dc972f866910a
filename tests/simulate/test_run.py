from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.cli.main import main
from pilotlight.errors import FormatError, UsageError
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.hang import find_culprits
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import CONDITIONS, FAULTS, TWINS, Fault, parse_fault
from pilotlight.simulate.hang import HANGS, hung_dumps, parse_hangs
from pilotlight.simulate.job import JobShape, shape_of
from pilotlight.simulate.run import simulate, step_us
from pilotlight.trace.flight_recorder import read_dumps
from pilotlight.trace.kineto_writer import write_kineto
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Kind

SHAPE = JobShape(ranks=4, steps=8, layers=6)
DEEP = JobShape(ranks=8, steps=5, layers=4, pipeline=4, micro_batches=8, collective_us=100)
DIVIDED = JobShape(
    ranks=16,
    steps=4,
    layers=4,
    pipeline=2,
    tensor=2,
    micro_batches=2,
    tensor_us=3,
    collective_us=60,
)
EXPERTS = JobShape(ranks=8, steps=6, layers=4, experts=4, exchange_us=3, collective_us=60)
SHAPES = (SHAPE, DEEP, DIVIDED, EXPERTS)
OF_NETWORKS = ("slow_network", "slow_link", "slow_nic")


def shape_for(kind: str) -> JobShape:
    return next(shape for shape in SHAPES if Fault(kind, 2).suits(shape))


def test_the_same_seed_gives_the_same_job() -> None:
    first, second = simulate(SHAPE), simulate(SHAPE)
    for a, b in zip(first, second, strict=True):
        assert (a.spans.start_ns == b.spans.start_ns).all()
        assert a.names == b.names


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([kind for kind in sorted(FAULTS) if Fault(kind).suits(SHAPE)]),
    st.integers(0, 3),
    st.floats(1, 3),
    st.integers(0, 99),
)
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


@pytest.mark.parametrize("kind", sorted(set(FAULTS) - {"launch", *OF_NETWORKS}))
def test_a_fault_makes_the_step_longer(kind: str) -> None:
    shape = shape_for(kind)
    faulty = step_us(simulate(shape, (Fault(kind, 2, 1.5),)))
    assert faulty > 1.04 * step_us(simulate(shape))


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_a_plain_fault_is_diagnosed_with_its_rank(kind: str) -> None:
    shape = shape_for(kind)
    fault = Fault(kind, 2, 12.0 if kind in OF_NETWORKS else 1.5)
    finding = diagnose(job_of(simulate(shape, (fault,)))).findings[0]
    assert finding.cause == fault.cause_in(shape)
    if fault.is_of_one_rank:
        assert finding.rank == 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_without_faults_raises_no_alarm(shape: JobShape) -> None:
    assert diagnose(job_of(simulate(shape))).findings == ()


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", ["slow_gpu", "slow_host"])
def test_a_rank_at_fault_is_found_with_skewed_clocks_and_lost_events(
    condition: str, kind: str
) -> None:
    fault = Fault(kind, 1, 1.5)
    finding = diagnose(job_of(simulate(SHAPE, (fault, Fault(condition))))).findings[0]
    assert (finding.cause, finding.rank) == (fault.cause_in(SHAPE), 1)


def test_a_pipeline_without_faults_has_the_bubble_of_theory() -> None:
    shape = JobShape(
        ranks=4, steps=3, layers=4, pipeline=4, micro_batches=8, transfer_us=0.1, loader_us=0.1,
        input_copy_us=0.1, optimizer_us=0.1, kernel_jitter_ratio=0, device_spread_ratio=0,
    )  # fmt: skip
    ideal = shape.device_step_us * (1 + 3 / 8)
    assert step_us(simulate(shape)) == pytest.approx(ideal, rel=0.02)


@pytest.mark.parametrize("kind", HANGS)
@pytest.mark.parametrize("seed", range(5))
def test_the_ranks_behind_a_simulated_hang_are_named_and_no_others(kind: str, seed: int) -> None:
    dumps, truth = hung_dumps(kind, 8, np.random.default_rng(seed))
    assert {culprit.rank for culprit in find_culprits(dumps).culprits} == set(truth)


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
    "text",
    ["", "x", "slow_gpu:rank=9", "slow_gpu:rank=a", "slow_gpu:y=2", "gc:x=0.5", "moe_skew:rank=1"],
)
def test_a_wrong_fault_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_fault(text, SHAPE)


def test_a_fault_is_parsed() -> None:
    assert parse_fault("slow_gpu:rank=3,x=1.2", SHAPE) == Fault("slow_gpu", 3, 1.2)


@pytest.mark.parametrize(
    "values",
    [
        {"rank": 3},
        {"ranks": 0},
        {"steps": "many"},
        {"ranks": 10**8},
        {"gemm_us": -1.0},
        {"pipeline": 3},
        {"layers": 5, "pipeline": 2},
        {"experts": 3},
        {"steps": 2.5},
    ],
)
def test_a_wrong_job_names_the_setting(values: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"job\.toml: ") as caught:
        shape_of(json.loads(json.dumps(values)), "job.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", HANGS)
def test_a_job_can_be_made_to_hang(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.toml").write_text("ranks = 4\nsteps = 3\nlayers = 2\n")
    job, out = str(tmp_path / "job.toml"), str(tmp_path / "out")
    assert main(["simulate", job, "-o", out, "--fault", f"hang_{kind}:rank=2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["hang"] == {"kind": kind, "ranks": [2]}
    found = read_dumps(tmp_path / "out" / "dumps")
    assert not found.problems
    assert [culprit.rank for culprit in find_culprits(found.dumps).culprits] == [2]


@pytest.mark.parametrize(
    "faults",
    [
        ["hang_x"],
        ["hang_missing:rank=4"],
        ["hang_missing:rank=-1"],
        ["hang_missing:x=2"],
        ["hang_missing:rank=1", "hang_partial:rank=2"],
        ["hang_missing:rank=0", "hang_missing:rank=1", "hang_missing:rank=2"],
    ],
)
def test_hangs_that_cannot_be_are_refused(faults: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_hangs(faults, 4)
