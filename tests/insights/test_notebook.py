"""An analysis as a notebook shows it: by IPython's own formatters."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.insights.telling import simulated

import pilotlight
from pilotlight.analysis import Analysis
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.insights.tables import TABLES
from pilotlight.trace.kineto_writer import write_kineto

formatters = pytest.importorskip("IPython.core.formatters")


def test_a_notebook_shows_findings_and_a_shell_a_line_of_each(tmp_path: Path) -> None:
    for trace in simulated("loader", 1, 1.5, ranks=2, steps=4, layers=2):
        write_kineto(trace, tmp_path / f"rank{trace.rank}.json")
    shown, _ = formatters.DisplayFormatter().format(pilotlight.analyze(tmp_path))
    assert "<h3>The device waits for the data loader</h3>" in shown["text/html"]
    assert "Not checked" in shown["text/html"]
    lines = shown["text/plain"].splitlines()
    assert lines[0] == "Analysis of 2 traces, 2 ranks with device activity"
    assert "A08 The device waits for the data loader (rank" in lines[1]
    assert len(shown["text/plain"]) < 1000


def test_each_table_is_a_data_frame_that_has_its_columns_also_without_rows(tmp_path: Path) -> None:
    (trace,) = simulated(ranks=1, steps=3, layers=2)
    write_kineto(trace, tmp_path / "rank0.json")
    found = pilotlight.analyze(tmp_path)
    for name in TABLES:
        frame, rows = found.frame(name), found.table(name)
        assert len(frame) == len(rows), name
        assert tuple(frame.columns) == TABLES[name].columns, name
        assert all(tuple(row) == TABLES[name].columns for row in rows), name
    assert not found.table("communication") and "waiting_ns" in found.frame("communication")


def test_what_all_ranks_share_is_shown_without_a_rank() -> None:
    shape = {"ranks": 16, "steps": 4, "pipeline": 2, "tensor": 2, "micro_batches": 4}
    job = job_of(simulated("slow_link", 2, 12.0, **shape))
    found = Analysis(job, diagnose(job), ())
    assert any(finding.rank is None for finding in found.diagnosis.findings)
    assert "None" not in found._repr_html_() + repr(found)


def test_what_is_wrong_with_the_input_is_shown_too(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"traceEvents": [{"ph": "X", "na')
    shown, _ = formatters.DisplayFormatter().format(pilotlight.analyze(tmp_path))
    assert "broken.json" in shown["text/html"]
    assert "broken.json" in shown["text/plain"]
