"""Makes `example` of tests/recording and `job` of this folder importable."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent

for _name, _file in (
    ("example", _HERE.parent / "recording" / "example.py"),
    ("job", _HERE / "job.py"),
):
    if _name not in sys.modules:
        _spec = importlib.util.spec_from_file_location(_name, _file)
        assert _spec is not None and _spec.loader is not None
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])
