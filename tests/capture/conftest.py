"""`jobs` is the module beside this file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

for _name, _file in (
    ("capture_jobs", Path(__file__).with_name("jobs.py")),
    ("polling_client", Path(__file__).parents[1] / "kineto" / "client.py"),
):
    _spec = importlib.util.spec_from_file_location(_name, _file)
    assert _spec is not None and _spec.loader is not None
    if _name not in sys.modules:
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])
