from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path


def test_the_gpu_governor_keeps_its_ceiling_and_tells_the_truth(
    program: Callable[[str, str], Path], run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run(program("governor_test", "g++"))
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "all hold"
