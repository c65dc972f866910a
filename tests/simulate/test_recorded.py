from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotlight.analysis import analyze
from pilotlight.cli.main import main
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import CollectiveFlag, SpanKind
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.recorded import write_recording
from pilotlight.simulate.run import simulate
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Kind

JOB = "ranks = 4\nsteps = 8\nlayers = 4\nranks_per_node = 2\nseed = 9\ncounters = true\n"
FLAT = JobShape(ranks=4, steps=8, layers=6, seed=21)
STAGES = JobShape(
    ranks=8, steps=5, layers=4, pipeline=4, micro_batches=8, collective_us=100, seed=21
)


def simulated(folder: Path, *options: str) -> Path:
    (folder / "job.toml").write_text(JOB)
    out = folder / "-".join(("out", *options))
    assert main(["simulate", str(folder / "job.toml"), "-o", str(out), *options]) == 0
    return out


def test_both_formats_of_a_job_give_the_same_analysis(tmp_path: Path) -> None:
    fault = ("--fault", "slow_gpu:rank=3,x=1.3")
    written = simulated(tmp_path, *fault), simulated(tmp_path, *fault, "--format", "recording")
    kineto, recording = (analyze([folder]) for folder in written)
    top = recording.table("findings")[0]
    assert (top["rule"], top["rank"]) == ("A23", 3)
    assert top == kineto.table("findings")[0]
    assert len(recording.table("steps")) == 4 * 8
    assert recording.table("steps") == kineto.table("steps")
    assert recording.table("communication") == kineto.table("communication")


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        (FLAT, "gc"),
        (FLAT, "storage"),
        (FLAT, "recompile"),
        (FLAT, "checkpoint"),
        (FLAT, "pageable"),
        (FLAT, "dropped_events"),
        (STAGES, "slow_gpu"),
        (STAGES, "stage_imbalance"),
    ],
)
def test_a_recording_gives_the_diagnosis_of_the_simulation(
    shape: JobShape, kind: str, tmp_path: Path
) -> None:
    traces = simulate(shape, (Fault(kind, 2, 1.4),))
    write_recording("job", shape, traces, tmp_path)
    found = read_traces([tmp_path])
    assert found.problems == ()
    direct, read_back = (diagnose(job_of(each)).findings for each in (traces, found.traces))
    assert bool(direct) == (kind != "dropped_events")
    assert [(f.rule, f.rank) for f in read_back] == [(f.rule, f.rank) for f in direct]
    for a, b in zip(direct, read_back, strict=True):
        assert a.gain_high_ratio == pytest.approx(b.gain_high_ratio, abs=0.002)


def test_a_report_counts_the_steps_of_each_rank_and_says_that_they_are_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = simulated(tmp_path, "--format", "recording")
    capsys.readouterr()
    assert main(["report", str(out), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["job"], told["node"]) == ("SIMULATED-job", "SIMULATED")
    assert all(facts["simulated"] for facts in told["frameworks"]["facts"].values())
    assert [(one["process"], one["count"]) for one in told["steps"]] == [(r, 8) for r in range(4)]
    assert [one["rank"] for one in told["processes"]] == [0, 1, 2, 3]
    assert {one["phase"] for one in told["phases"]} == {"data", "optimizer", "other"}
    assert {one["coverage_ratio"] for one in told["gpu"]["processes"]} == {1.0}
    assert told["losses"]["records_dropped"] == 0
    assert main(["report", str(out)]) == 0
    assert "SIMULATED-job" in capsys.readouterr().out


def test_every_span_call_and_message_has_its_row(tmp_path: Path) -> None:
    traces = simulate(FLAT, (Fault("gc", 1, 1.4),))
    write_recording("job", FLAT, traces, tmp_path)
    recording = Recording.open(tmp_path)
    recording.load()
    assert recording.warnings == []

    def simulated_spans(*kinds: Kind) -> int:
        return sum(len(trace.of_kind(*kinds)) for trace in traces)

    spans, collectives = recording.detail("spans"), recording.detail("collectives")
    assert spans.rows == simulated_spans(Kind.OPERATOR, Kind.GC)
    collected = (spans["kind"] == SpanKind.GC).sum()
    assert collected == simulated_spans(Kind.GC) > 0
    assert recording.detail("launches").rows == simulated_spans(Kind.RUNTIME)
    assert recording.detail("activities").rows == simulated_spans(Kind.KERNEL, Kind.MEMCPY)
    assert collectives.rows == sum(len(trace.detail.messages.kind) for trace in traces)
    # Two buckets a step on each rank, the same numbers on all of them.
    for rank in range(4):
        mine = collectives["process"] == rank
        assert collectives["sequence"][mine].tolist() == list(range(1, 17))
        assert set(collectives["rank"][mine].tolist()) == {rank}
    assert (collectives["flags"] == CollectiveFlag.WAIT_KNOWN).all()
    for number in range(1, 17):
        same = collectives["sequence"] == number
        moved = collectives["duration_ns"][same] - collectives["wait_ns"][same]
        assert len(set(moved.tolist())) == 1
        assert collectives["wait_ns"][same].min() == 0


def test_a_lost_kernel_leaves_the_wait_of_the_others_unknown(tmp_path: Path) -> None:
    traces = simulate(STAGES, (Fault("dropped_events"),))
    write_recording("job", STAGES, traces, tmp_path)
    rows = Recording.open(tmp_path).detail("collectives")
    known = (rows["flags"] & CollectiveFlag.WAIT_KNOWN) != 0
    told = sum(len(trace.detail.messages.kind) for trace in traces)
    assert 0 < told - rows.rows < 0.02 * told
    assert 0 < (~known).sum() < 0.1 * rows.rows
    assert (rows["wait_ns"][~known] == 0).all()


def test_the_nodes_of_the_ranks_are_in_their_identity(tmp_path: Path) -> None:
    processes = Recording.open(simulated(tmp_path, "--format", "recording")).processes
    told = [process.start.identity for process in processes]
    assert [(one["rank"], one["local_rank"], one["node"]) for one in told] == [
        (0, 0, "SIMULATED-0"),
        (1, 1, "SIMULATED-0"),
        (2, 0, "SIMULATED-1"),
        (3, 1, "SIMULATED-1"),
    ]
    assert {one["world_size"] for one in told} == {4}


def test_no_format_is_written_over_a_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = simulated(tmp_path, "--format", "recording")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in ("kineto", "recording"):
        options = ["-o", str(out), "--format", name]
        assert main(["simulate", str(tmp_path / "job.toml"), *options]) == 2
        assert "name a" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_perfetto_opens_it(tmp_path: Path) -> None:
    out, made = simulated(tmp_path, "--format", "recording"), tmp_path / "job.pftrace"
    assert main(["export", str(out), "--format", "perfetto", "-o", str(made)]) == 0
    assert b"flash_fwd_kernel" in made.read_bytes()
