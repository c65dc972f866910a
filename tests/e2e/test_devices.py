"""GPUs that do not exist, read by a real agent through a simulated driver, up to the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent.counters.conftest import Orders, compiled

from pilotlight.export.chrome import write_chrome
from pilotlight.recording.recording import Recording
from pilotlight.report.report import report_of

STEPS = """
import sys, time, pilotlight
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pilotlight.step()
    time.sleep(0.02)
"""


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    library = compiled("nvml.c", "now/libnvidia-ml.so.1", "-shared", "-fPIC")
    made = Orders(tmp_path / "orders")
    made("devices 2", "set 0 throttle 4")
    monkeypatch.setenv("PILOTLIGHT_SIM_NVML", str(made.path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    return made


def run(seconds: float, while_it_runs: Callable[[], None] = lambda: None) -> None:
    command = [sys.executable, "-c", STEPS, str(seconds)]
    with subprocess.Popen(
        [sys.executable, "-m", "pilotlight", "run", "-q", "--name", "job", "--", *command]
    ) as job:
        while_it_runs()
        assert job.wait(60) == 0


def recorded(world: Path) -> Recording:
    return Recording.open(world / "data" / "recordings" / "job")


def top() -> dict[str, object]:
    asked = [sys.executable, "-m", "pilotlight", "top", "--once", "--json"]
    for _ in range(50):
        ended = subprocess.run(asked, capture_output=True, text=True)
        if ended.returncode == 0:
            found: dict[str, object] = json.loads(ended.stdout)["devices"]
            return found
        time.sleep(0.1)
    raise AssertionError(ended.stderr)


def test_gpus_and_host_are_in_the_recording_the_report_and_the_exports(
    world: Path, orders: Orders, tmp_path: Path
) -> None:
    run(3.2, lambda: (time.sleep(1.5), orders("devices 2", "set 0 throttle 4", "xid 1 1 31"))[1])
    recording = recorded(world)
    report = report_of(recording)
    found = {(one.device, one.name): one for one in report.devices.values}
    assert found["gpu0", "power"].mean == 400 and found["gpu0", "power"].count >= 2
    assert found["gpu1", "tensor_active"].mean == 40
    assert found["host", "cpu"].count >= 1
    assert [(e.device, e.name, e.value) for e in report.devices.events] == [("gpu1", "xid", 31)]
    (held,) = report.devices.throttling
    assert (held.device, held.reason, held.ratio) == ("gpu0", "power limit", 1.0)
    with (tmp_path / "trace.json").open("wb") as out:
        write_chrome(recording, out)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {event["name"]: event["args"].get("value") for event in events if event["pid"] == 0}
    assert named["gpu0 power [W]"] == 400
    assert "gpu1 xid 31: a kernel touched memory that is not mapped" in named


def test_a_call_that_blocks_or_a_lost_gpu_does_not_hold_up_the_job_or_the_other_counters(
    world: Path, orders: Orders
) -> None:
    seen: list[dict[str, object]] = []

    def trouble() -> None:
        time.sleep(1.5)
        orders("lost 0", "block nvmlDeviceGetPowerUsage 60000")
        time.sleep(6.5)
        seen.append(top())

    began = time.monotonic()
    run(10, trouble)
    assert time.monotonic() - began < 16
    (nvml,) = [one for one in seen[0]["sources"] if one["name"] == "nvml"]  # type: ignore[attr-defined]
    assert nvml["state"] == "blocked" and "has not returned" in nvml["detail"]
    report = report_of(recorded(world))
    assert sum(steps.count for steps in report.steps) > 200
    host = [one.count for one in report.devices.values if (one.device, one.name) == ("host", "cpu")]
    assert host[0] >= 5


def test_the_report_names_the_gpus(world: Path, orders: Orders) -> None:
    run(2.2)
    shown = subprocess.run(
        [sys.executable, "-m", "pilotlight", "report", str(recorded(world).path)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    assert "GPUs (means)" in shown and "400 W" in shown
    assert "gpu0: clocks held 100 % of the time by power limit" in shown
