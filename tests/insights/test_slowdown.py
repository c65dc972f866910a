from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pilotlight.errors import FormatError
from pilotlight.insights.slowdown import slowdown
from pilotlight.model.pipeline import pipeline_of
from pilotlight.trace.oprows import OperationRows, read_operation_rows

pytest.importorskip("pyarrow")


def rows_of(slow_rank: int | None, steps: int = 3) -> OperationRows:
    """Two stages of two data ranks: forward, transfer, backward, reduce-scatter."""
    kinds = (
        "backward-compute",
        "forward-compute",
        "forward-recv",
        "forward-send",
        "grads-reduce-scatter",
    )
    rows = []
    for step in range(steps):
        leave = 0
        ends = []
        for data in range(2):
            first, second = data, 2 + data
            factor = 2 if slow_rank == first else 1
            sent = 10_000_000 * factor
            rows.append((data, 0, first, step, 0, 0, sent, 1))
            rows.append((data, 1, second, step, 0, 0, sent + 1_000_000, 2))
            rows.append((data, 0, first, step, 0, sent, 1_000_000, 3))
            factor = 2 if slow_rank == second else 1
            rows.append((data, 1, second, step, 0, sent + 1_000_000, 20_000_000 * factor, 0))
            ends.append((data, second, sent + 1_000_000 + 20_000_000 * factor))
        leave = max(end for _, _, end in ends) + 5_000_000
        for data, rank, end in ends:
            rows.append((data, 1, rank, step, 0, end, leave - end, 4))
    columns = np.array(rows, np.int64).T
    return OperationRows("x", *columns[:7], columns[7], kinds)


def test_alike_ranks_have_no_slowdown_and_replay_exactly() -> None:
    report = slowdown(pipeline_of(rows_of(None)))
    assert report.slowdown_ratio == pytest.approx(1)
    assert report.replay_error_ratio == pytest.approx(0)
    assert report.culprit is None


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_slow_rank_is_named(rank: int) -> None:
    report = slowdown(pipeline_of(rows_of(rank)))
    assert report.replay_error_ratio == pytest.approx(0)
    assert report.culprit is not None
    assert report.culprit.rank == rank


def test_the_real_job_is_slowed_by_its_first_rank(shared_data: Path) -> None:
    rows = read_operation_rows(shared_data / "stragglers" / "trace-AR.parquet")
    report = slowdown(pipeline_of(rows))
    assert report.slowdown_ratio == pytest.approx(1.973, rel=0.01)
    assert report.replay_error_ratio <= 0.02
    assert report.culprit is not None
    assert (report.culprit.rank, report.culprit.data_rank, report.culprit.stage) == (0, 0, 0)
    assert report.culprit.gain_ratio == pytest.approx(1 - 23.446 / 46.336, rel=0.02)
    assert report.worst_ranks_share == pytest.approx(1.0, abs=0.02)
    assert report.last_stage_share == pytest.approx(0.0, abs=0.02)
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
