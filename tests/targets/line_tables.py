"""Decodes the line table of every function of some large modules and compares with co_lines()."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import sampler_harness


def functions(code: types.CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from functions(constant)


checked = 0
wrong = []
for name in ("typing", "argparse", "asyncio.base_events", "dataclasses", "inspect", "decimal"):
    module = __import__(name, fromlist=["x"])
    path = Path(module.__file__)
    for code in functions(compile(path.read_text(encoding="utf-8"), str(path), "exec")):
        for start, end, line in code.co_lines():
            for offset in range(start, end, 2):
                checked += 1
                read = sampler_harness.line(
                    sys.hexversion, code.co_linetable, code.co_firstlineno, offset
                )
                if read != (line or 0):
                    wrong.append([name, code.co_name, offset, line, read])
print(json.dumps({"checked": checked, "wrong": wrong[:5]}))
