"""An analysis as a notebook shows it: by IPython's own formatters."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.insights.telling import simulated

import pilotlight
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


def test_what_is_wrong_with_the_input_is_shown_too(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"traceEvents": [{"ph": "X", "na')
    shown, _ = formatters.DisplayFormatter().format(pilotlight.analyze(tmp_path))
    assert "broken.json" in shown["text/html"]
    assert "broken.json" in shown["text/plain"]
