from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pilotlight


def written(path: Path, factor: int) -> Path:
    """Kernels in so many times the unit of their calls."""
    base = 1_700_000_000_000
    events: list[dict[str, Any]] = []
    for i in range(5):
        begin = base + 100 * i
        args = {"correlation": i + 1}
        events += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
             "ts": begin, "dur": 5, "args": args},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
             "ts": (begin + 10) * factor, "dur": 80 * factor, "args": args},
        ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_kernels_in_another_unit_than_their_calls_are_told(tmp_path: Path) -> None:
    found = pilotlight.analyze(written(tmp_path / "a.json", 1000))
    (problem,) = found.problems
    assert str(tmp_path / "a.json") in str(problem) and "nanoseconds" in str(problem)


def test_one_clock_is_no_problem(tmp_path: Path) -> None:
    assert pilotlight.analyze(written(tmp_path / "a.json", 1)).problems == ()
