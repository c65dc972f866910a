"""A real job through the whole path: probe, agent, collector, command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

JOB = """
import time, pilotlight
end = time.monotonic() + {seconds}
step = 0
while time.monotonic() < end:
    pilotlight.step(step)
    step += 1
    with pilotlight.annotate("work"):
        time.sleep(0.01)
"""


def pilotlight(*words: str) -> list[str]:
    return [sys.executable, "-m", "pilotlight", *words]


def ask(*words: str) -> Any:
    done = subprocess.run(pilotlight(*words, "--json"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_recorded_job_is_found_in_the_collector(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(JOB.format(seconds=4))
    serving = subprocess.Popen(
        pilotlight("serve", "--json", "--port", "0", "--store", str(tmp_path / "store")),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PILOTLIGHT": "0"},
    )
    assert serving.stdout is not None
    try:
        url = json.loads(serving.stdout.readline())["url"]
        monkeypatch.setenv("PILOTLIGHT_COLLECTOR", url)
        monkeypatch.setenv("PILOTLIGHT_CLUSTER", "lab")
        words = pilotlight("run", "-q", "--name", "nightly", "--", sys.executable, str(script))
        assert subprocess.run(words, timeout=60).returncode == 0
        deadline = time.monotonic() + 30
        while not (found := ask("jobs")) or found[0]["state"] != "finished":
            assert time.monotonic() < deadline, found
            time.sleep(0.3)
        (job,) = found
        assert (job["job"], job["cluster"], job["ranks"]) == ("nightly", "lab", 1)
        (rank,) = ask("ranks", "nightly")
        steps = ask("steps", "nightly", "--limit", "5000")
        # The step that was under way at the end has no end.
        assert sorted(row["step"] for row in steps) == list(range(rank["step"] + 1))
        assert rank["steps"] == len(steps) > 100
        assert [row["name"] for row in ask("kernels", "nightly", "--of", "ranges")] == ["work"]
        assert ask("job", "nightly")["losses"] == {}
        counted = ask("query", "SELECT count() FROM steps WHERE job = 'nightly'")
        assert counted["rows"] == [[len(steps)]]
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.wait(60)
        serving.stdout.close()
