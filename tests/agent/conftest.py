"""`producer` and `running` are the modules beside this file."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotlight.runtime import Runtime, runtime

for _name in ("producer", "running"):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).with_name(f"{_name}.py"))
    assert _spec is not None and _spec.loader is not None
    if _name not in sys.modules:
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])

from running import RunningAgent  # noqa: E402

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, world: Path) -> Runtime:
    """Where the agent of this test will be."""
    paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("PILOTLIGHT", "0")
    return runtime()


@pytest.fixture
def agent(place: Runtime) -> Iterator[RunningAgent]:
    running = RunningAgent(place)
    running.start()
    yield running
    said = running.stop()
    assert said == "", said
