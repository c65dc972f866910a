"""Makes `example` of tests/recording importable here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_file = Path(__file__).parents[1] / "recording" / "example.py"
_spec = importlib.util.spec_from_file_location("example", _file)
assert _spec is not None and _spec.loader is not None
if "example" not in sys.modules:
    sys.modules["example"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["example"])
