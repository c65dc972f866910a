"""torchrun with gloo: collectives of all ranks, matched by group and sequence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import RunPilotlight

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import CollectiveFlag

pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def _collectives(recording: Recording) -> list[tuple[int, str, str, int, int, int, int, int]]:
    rows = recording.detail("collectives")
    ranks = {each.start.process: each.rank for each in recording.processes}
    names = recording.names
    return sorted(
        (
            int(ranks[int(process)] or 0),
            names.texts[int(names.find(np.array([process]), np.array([name]))[0])],
            names.texts[int(names.find(np.array([process]), np.array([group]))[0])],
            int(sequence),
            int(size),
            int(flags),
            int(duration),
            int(wait),
        )
        for process, name, group, sequence, size, flags, duration, wait in zip(
            *(
                rows[column]
                for column in (
                    "process", "name", "group", "sequence", "bytes", "flags", "duration_ns",
                    "wait_ns",
                )
            ),
            strict=True,
        )
    )  # fmt: skip


def test_the_reductions_of_ddp_match_and_show_who_is_waited_for(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    program = [str(ROOT / "examples" / "torch_ddp.py"), "--steps", "20", "--slow-rank", "1"]
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", *TORCHRUN, *program)
    assert done.returncode == 0, done.stderr
    found = _collectives(Recording.open(folder))
    reductions = [row for row in found if row[1] == "ddp.all_reduce"]
    by_rank = [[row[1:5] for row in reductions if row[0] == rank] for rank in (0, 1)]
    assert by_rank[0] == by_rank[1]
    assert [row[2] for row in by_rank[0]] == list(range(1, 21))
    # 256 x 256 and 256 x 10 weights with their biases, in float32.
    assert {row[3] for row in by_rank[0]} == {4 * (256 * 256 + 256 + 256 * 10 + 10)}
    waits = [sum(row[7] for row in reductions if row[0] == rank) for rank in (0, 1)]
    # Rank 1 sleeps 5 ms before each backward, so rank 0 waits for it that much longer.
    assert waits[0] - waits[1] > 20 * 3_000_000
    losses = [row for row in found if row[1] == "all_reduce" and row[0] == 0]
    assert len(losses) == 2 and all(row[5] & CollectiveFlag.WAIT_KNOWN for row in losses)


def test_how_many_reductions_there_were_is_told_also_of_those_after_the_last_that_is(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    program = [str(ROOT / "examples" / "torch_ddp.py"), "--steps", "75"]
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", *TORCHRUN, *program)
    assert done.returncode == 0, done.stderr
    done = pilotlight_cli("report", str(folder), "--json")
    told = json.loads(done.stdout)["frameworks"]["collectives"]
    assert [row["count"] for row in told if row["operation"] == "ddp.all_reduce"] == [75, 75]


def test_synchronous_and_asynchronous_collectives_are_told_apart(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    program = str(ROOT / "tests" / "targets" / "torch_collectives.py")
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", *TORCHRUN, program)
    assert done.returncode == 0, done.stderr
    found = _collectives(Recording.open(folder))
    mine = [row for row in found if row[0] == 0]
    others = [row for row in found if row[0] == 1]
    matched = ("all_gather", "all_reduce", "barrier", "broadcast", "reduce_scatter")
    assert [r[1:5] for r in mine if r[1] in matched] == [r[1:5] for r in others if r[1] in matched]
    flags = {row[1]: row[5] for row in mine if row[4] == 4 * 1000}
    assert flags["all_reduce"] & CollectiveFlag.ASYNCHRONOUS
    assert flags["broadcast"] == CollectiveFlag.WAIT_KNOWN
    never_waited = [row for row in mine if row[4] == 4 * 7]
    assert [row[5] for row in never_waited] == [CollectiveFlag.ASYNCHRONOUS]
    assert {row[2] for row in mine} > {"0 default_pg"}
    assert {row[1] for row in found if row[4] == 4 * 5} == {"send", "recv"}


def test_who_is_waited_for_shows_also_where_buffers_are_broadcast_before_the_forward(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    program = str(ROOT / "tests" / "targets" / "torch_buffers.py")
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", *TORCHRUN, program)
    assert done.returncode == 0, done.stderr
    # Mean and variance of 64 channels, and the count of batches.
    size = 4 * 64 + 4 * 64 + 8
    found = [row for row in _collectives(Recording.open(folder)) if row[1] == "broadcast"]
    by_rank = [[row[1:5] for row in found if row[0] == rank] for rank in (0, 1)]
    assert by_rank[0] == by_rank[1]
    assert [row[3] for row in by_rank[0]].count(size) >= 20
    waits = [sum(row[7] for row in found if row[0] == rank) for rank in (0, 1)]
    assert waits[0] - waits[1] > 20 * 3_000_000


def test_sharded_training_tells_its_gathers_and_scatters(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    program = str(ROOT / "tests" / "targets" / "torch_fsdp.py")
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", *TORCHRUN, program)
    assert done.returncode == 0, done.stderr
    recording = Recording.open(folder)
    operations = {row[1] for row in _collectives(recording)}
    assert {"all_gather", "reduce_scatter"} <= operations
    steps = recording.detail("steps")
    assert np.unique(steps["process"], return_counts=True)[1].tolist() == [5, 5]
