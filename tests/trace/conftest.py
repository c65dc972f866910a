"""Where the real traces are; `chrome_reference` and `example` as modules for these tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
_HERE = Path(__file__).parent

for _name, _file in (
    ("example", _HERE.parent / "recording" / "example.py"),
    ("chrome_reference", _HERE / "chrome_reference.py"),
):
    if _name not in sys.modules:
        _spec = importlib.util.spec_from_file_location(_name, _file)
        assert _spec is not None and _spec.loader is not None
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])


@pytest.fixture
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the folder of real traces, ../shared/data, is absent")
    return SHARED
