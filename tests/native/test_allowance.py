from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path


def test_stacks_get_what_adapters_leave_of_the_jobs_time(
    program: Callable[[str, str], Path], run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run(program("allowance_test", "g++"))
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "all hold"
