from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pilotlight.errors import FormatError
from pilotlight.insights.slowdown import slowdown
from pilotlight.model.pipeline import pipeline_of
from pilotlight.trace.oprows import OperationRows, read_operation_rows

pytest.importorskip("pyarrow")


def rows_of(
    *slow_ranks: int, slow_steps: tuple[int, ...] = (0, 1, 2), batches: int = 1
) -> OperationRows:
    """Two stages of two data ranks: forward, transfer, forward, and a reduce-scatter at the end."""
    kinds = ("forward-compute", "forward-recv", "forward-send", "grads-reduce-scatter")
    rows = []
    for step in range(3):
        slow = slow_ranks if step in slow_steps else ()
        ends = []
        for data in range(2):
            first, second = data, 2 + data
            first_ns, second_ns = (20_000_000 if r in slow else 10_000_000 for r in (first, second))
            sent = free = 0
            for batch in range(batches):
                rows.append((data, 0, first, step, batch, sent, first_ns, 0))
                sent += first_ns
                there = max(sent, free) + 1_000_000
                rows.append((data, 1, second, step, batch, free, there - free, 1))
                rows.append((data, 0, first, step, batch, sent, there - sent, 2))
                rows.append((data, 1, second, step, batch, there, second_ns, 0))
                sent, free = there, there + second_ns
            ends.append((data, second, free))
        leave = max(end for _, _, end in ends) + 5_000_000
        for data, rank, end in ends:
            rows.append((data, 1, rank, step, 0, end, leave - end, 3))
    columns = np.array(rows, np.int64).T
    return OperationRows("x", *columns[:7], columns[7], kinds)


def test_alike_ranks_have_no_slowdown_and_replay_exactly() -> None:
    report = slowdown(pipeline_of(rows_of()))
    assert report.slowdown_ratio == pytest.approx(1)
    assert report.replay_error_ratio == pytest.approx(0)
    assert report.culprit is None
    assert report.slow_stage is None


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_slow_rank_is_named(rank: int) -> None:
    report = slowdown(pipeline_of(rows_of(rank)))
    assert report.replay_error_ratio == pytest.approx(0)
    assert report.culprit is not None
    assert report.culprit.rank == rank
    assert report.slow_stage is None


def test_a_stage_with_more_work_is_named_where_no_rank_explains_it() -> None:
    report = slowdown(pipeline_of(rows_of(2, 3, batches=4)))
    assert report.culprit is None
    assert report.slow_stage is not None
    assert report.slow_stage.stage == 1
    assert report.slow_stage.gain_ratio > 0.1


def test_what_is_typical_is_that_of_all_steps() -> None:
    """Alike ranks, but in the first step all are slow."""
    report = slowdown(pipeline_of(rows_of(0, 1, 2, 3, slow_steps=(0,))))
    steps_ms = np.array([41, 21, 21]) + 5
    assert report.replayed_step_ns == pytest.approx(1e6 * steps_ms.mean())
    # Two computations after each other, which take 20, 10 and 10 ms.
    assert report.ideal_step_ns == pytest.approx(1e6 * (2 * 40 / 3 + 1 + 5))


def test_the_real_job_is_slowed_by_its_first_rank(shared_data: Path) -> None:
    rows = read_operation_rows(shared_data / "stragglers" / "trace-AR.parquet")
    report = slowdown(pipeline_of(rows))
    assert report.slowdown_ratio == pytest.approx(1.973, rel=0.005)
    assert report.replay_error_ratio <= 0.02
    assert report.culprit is not None
    assert (report.culprit.rank, report.culprit.data_rank, report.culprit.stage) == (0, 0, 0)
    assert report.culprit.gain_ratio == pytest.approx(1 - 23.446 / 46.336, rel=0.02)
    assert report.worst_ranks_share == pytest.approx(1.0, abs=0.02)
    assert {row.stage: row.share for row in report.stages}[3] == pytest.approx(0.0, abs=0.02)
    assert report.slow_stage is None
    others = [row.slowdown_ratio for row in report.ranks[1:]]
    assert max(others) < 1.05


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match="no column dp_rank"):
        read_operation_rows(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(FormatError, match="damaged parquet"):
        read_operation_rows(tmp_path / "b.parquet")
