"""Full traces that the collector asks for: what the process that takes them is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from pilotlight.agent import tracing


def test_what_traces_shall_hold_besides_reaches_the_process_that_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def run(words: Sequence[str], said: IO[str], agree: tracing.Agree) -> tuple[int, str]:
        told.extend(words)
        return 1, ""

    monkeypatch.setattr(tracing, "_run", run)
    assert tracing.add_traces(tmp_path, "job", [3], 2, ["shapes"], lambda _: None) == []
    assert "--shapes" in told and "--stacks" not in told
    assert told[told.index("--steps") + 1] == "2" and told[-2:] == ["--", "job"]
    assert (tmp_path / tracing.TRACE_PROBLEM).read_text() == "some ranks are missing\n"
