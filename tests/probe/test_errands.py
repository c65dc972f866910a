"""The thread that waits to be asked: only where a framework is, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PILOTLIGHT": "1", **environment},
    )


def test_without_a_framework_nothing_is_imported_and_no_thread_starts() -> None:
    ended = run(
        "import sys, os\n"
        "from pilotlight.probe import errands\n"
        "print('torch' in sys.modules, 'socket' in sys.modules, errands._watch in sys.meta_path)"
    )
    assert ended.stdout.split() == ["False", "False", "True"], ended.stderr


def test_the_job_does_not_see_the_thread_in_its_own_list(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("")
    ended = run(
        "import sys, threading, time\n"
        "import jax\n"
        "from pilotlight.probe import errands\n"
        "time.sleep(0.3)\n"
        "print(threading.active_count(), errands._watch in sys.meta_path)",
        PYTHONPATH=str(tmp_path),
    )
    assert ended.stdout.split() == ["1", "False"], ended.stderr
    assert ended.stderr == ""


def test_a_framework_that_does_not_exist_fails_as_always() -> None:
    ended = run("import sys; sys.path[:] = []\nimport torch")
    assert ended.returncode == 1
    assert "ModuleNotFoundError: No module named 'torch'" in ended.stderr
