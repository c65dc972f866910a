from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.cli.main import main

JOB = "ranks = 2\nsteps = 8\nlayers = 4\n"


def test_the_first_line_is_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, traces = tmp_path / "job.toml", tmp_path / "traces"
    job.write_text(JOB)
    assert main(["simulate", str(job), "-o", str(traces), "--fault", "loader:x=3"]) == 0
    capsys.readouterr()
    assert main(["analyze", str(traces)]) == 0
    answer = " ".join(capsys.readouterr().out.split()).partition(").")[0]
    assert answer.startswith("Step ")
    assert "device busy" in answer
    assert "data loader" in answer
