"""`client` is the module beside this file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "polling_client", Path(__file__).with_name("client.py")
)
assert _spec is not None and _spec.loader is not None
if "polling_client" not in sys.modules:
    sys.modules["polling_client"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["polling_client"])
