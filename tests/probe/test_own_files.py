"""The probe's thread has open files of its own, and the job's are the job's alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "targets" / "files_of_the_job.py"


def test_the_probe_neither_keeps_the_jobs_files_open_nor_gives_up_its_locks() -> None:
    ended = subprocess.run([sys.executable, TARGET], capture_output=True, text=True, timeout=60)
    assert ended.stdout.splitlines() == ["own table True", "end of file True", "locked True"]
    assert (ended.returncode, ended.stderr) == (0, "")
