from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pilotlight.trace.reader import read_traces
from pilotlight.trace.recorded import is_recording
from pilotlight.trace.trace import Kind


@pytest.fixture
def example() -> ModuleType:
    """The module that the tests of recordings write theirs with."""
    path = Path(__file__).parents[1] / "recording" / "example.py"
    if "example" not in sys.modules:
        spec = importlib.util.spec_from_file_location("example", path)
        assert spec is not None and spec.loader is not None
        sys.modules["example"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["example"])
    return sys.modules["example"]


def test_a_recording_is_read_as_a_trace(example: ModuleType, tmp_path: Path) -> None:
    process = example.Process(0)
    process.add("threads", 100, process.name("main"))
    process.add("spans", 100, process.name("forward"), 1, 0, 2_000, 500)
    process.add("spans", 100, 0, 2, 0, 3_000, 400)
    process.add("counters", 100, process.name("loss"), 2_500, 0.5)
    for step in range(3):
        process.add("steps", 100, step, 1_000 * step, 900)
    folder = example.write_example(tmp_path / "recording", process)
    assert is_recording(folder)
    found = read_traces([folder])
    assert found.problems == ()
    (trace,) = found.traces
    assert [trace.names[n] for n in trace.spans.name] == ["forward", "Python GC"]
    assert list(trace.spans.kind) == [Kind.ANNOTATION, Kind.GC]
    assert list(trace.steps.number) == [0, 1, 2]
    assert [trace.names[n] for n in trace.counters.name] == ["loss"]
    assert list(trace.counters.value) == [0.5]


def test_a_recording_of_nothing_is_one_problem(example: ModuleType, tmp_path: Path) -> None:
    found = read_traces([example.write_example(tmp_path / "recording")])
    assert "without spans" in str(found.problems[0])


def test_a_damaged_manifest_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    found = read_traces([tmp_path])
    assert found.traces == ()
    (problem,) = found.problems
    assert str(tmp_path) in str(problem)
