"""torch.compile with the adapter beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

import pilotlight.probe
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind

pytest.importorskip("torch")

TARGETS = Path(__file__).parents[2] / "targets"


def test_compilations_recompilations_and_graph_breaks_are_told(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    # The program compiles whole graphs: a patch in the compiler's way would make it fail.
    folder = tmp_path / "recording"
    program = [sys.executable, str(TARGETS / "torch_compiled.py")]
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", *program)
    assert done.returncode == 0 and "compiled" in done.stdout, done.stderr
    recording = Recording.open(folder)
    spans, marks = recording.detail("spans"), recording.detail("marks")
    names = recording.names
    compiled = [
        names.texts[int(number)]
        for number, kind in zip(
            names.find(spans["process"], spans["name"]), spans["kind"], strict=True
        )
        if kind == SpanKind.COMPILE
    ]
    told = [names.texts[int(n)] for n in names.find(marks["process"], marks["name"])]
    assert any(name.startswith("compile forward (torch_compiled.py:") for name in compiled)
    guards = [text for text in told if text.startswith("recompile forward")]
    assert "tensor 'x' size mismatch at index 0. expected 4, actual 6" in guards[0]
    assert any(text.startswith("graph break: ") and "print" in text for text in told)
    # Nothing of ours was compiled, and no patch that came and went made it compile again.
    own = {path.name for path in Path(pilotlight.probe.__file__).parent.rglob("*.py")}
    own.add("weakref.py")  # the standard library's, where a hook of ours called it
    assert [name for name in compiled if name.partition("(")[2].partition(":")[0] in own] == []
    assert sum(name.startswith("compile breaks_and_saves ") for name in compiled) == 1
