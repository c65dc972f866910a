"""What of a GPU job goes to a collector: read from the outbox, for nobody takes it here."""

from __future__ import annotations

import time
from pathlib import Path

from tests.gpu.conftest import RunGpuJob

from pilotlight.ship.target import outbox_folder
from pilotlight.ship.wire import LAUNCHED
from pilotlight.store.batch import Batch, Clock, decode

PROGRAM = """
import pilotlight
gpu = Gpu()
def train():
    with pilotlight.annotate("layer"):
        gpu.kernel("gemm", 2_000)
for number in range(20):
    pilotlight.step(number)
    train()
    gpu.sync()
"""
NOBODY = "http://127.0.0.1:9"
LONGEST_S = 60.0


def batches_of(folder: Path) -> list[Batch]:
    """All of a job, as soon as the last one is there."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        files = sorted(folder.glob("*-*-*"))
        bodies = [file.read_bytes() for file in files if file.suffix != ".new"]
        found = [decode("default", body, Clock(), time.time_ns()) for body in bodies]
        if any(job.state == "finished" for batch in found for job in batch.header.jobs):
            return found
        time.sleep(0.1)
    raise AssertionError("the job's last batch never came")


def test_device_time_is_sent_by_the_stack_and_range_that_launched_it(
    gpu_job: RunGpuJob, world: Path
) -> None:
    done = gpu_job(PROGRAM, PILOTLIGHT_COLLECTOR=NOBODY)
    assert done.code == 0, done.err
    texts: dict[int, str] = {}
    counts: dict[int, int] = {}
    for batch in batches_of(outbox_folder(world / "run")):
        if "names" in batch.tables:
            names = batch.tables["names"]
            texts.update(zip(names["id"].tolist(), names.texts["text"], strict=True))
        if "windows" in batch.tables:
            windows = batch.tables["windows"]
            mine = windows.where(windows["kind"] == LAUNCHED)
            for name, count in zip(mine["name"].tolist(), mine["count"].tolist(), strict=True):
                counts[name] = counts.get(name, 0) + count
    paths = {tuple(texts[name].split("\n")): count for name, count in counts.items()}
    launched = {path: count for path, count in paths.items() if path[-1] == "gemm"}
    assert sum(launched.values()) == 20
    assert {path[-2] for path in launched} == {"layer"}
    assert all(any(frame.startswith("train (") for frame in path) for path in launched)
