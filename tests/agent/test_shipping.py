"""When an agent sends a batch."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pilotlight.agent.parts import StepParts
from pilotlight.agent.shipment import Batchful, JobShipment, ProcessShipment
from pilotlight.agent.shipping import Shipping
from pilotlight.ship.definitions import Definitions
from pilotlight.ship.target import Target


def test_ticks_that_are_a_little_early_or_late_do_not_put_off_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed: list[int] = []
    target = Target("http://127.0.0.1:9", tmp_path)
    shipping = Shipping(target, "node", 0)
    monkeypatch.setattr("pilotlight.agent.checkup.Checkup.tick", lambda self, now_ns: None)
    monkeypatch.setattr(shipping, "_seal", lambda jobs, clock, governor, now: sealed.append(now))
    job: Any = object()
    clock: Any = None
    for tick in range(1, 103):
        shipping.tick([job], clock, clock, tick * 990_000_000)
    shipping.sender.stop(0)
    shipping.requests.stop()
    assert len(sealed) == int(100 / target.batch_s)


@pytest.mark.parametrize("steps", [10_000, 10_001])
def test_a_batch_is_sent_before_its_time_when_there_is_enough_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    sealed: list[int] = []
    shipping = Shipping(Target("http://127.0.0.1:9", tmp_path, batch_s=300.0), "node", 0)
    monkeypatch.setattr("pilotlight.agent.checkup.Checkup.tick", lambda self, now_ns: None)
    monkeypatch.setattr(shipping, "_seal", lambda jobs, clock, governor, now: sealed.append(now))
    parts = StepParts(Definitions())
    told = array("q", range(steps)).tobytes()
    columns = {"step": told, "start_ns": told, "duration_ns": told}
    parts.add({"steps": (steps, columns)})
    process: Any = SimpleNamespace(parts=parts)
    job: Any = SimpleNamespace(name="job")
    nothing: Any = None
    shipping._shipments["job"] = JobShipment(job, processes={0: process})
    shipping.tick([job], nothing, nothing, 1_000_000_000)
    shipping.sender.stop(0)
    shipping.requests.stop()
    assert len(sealed) == (steps > 10_000)


def test_stacks_of_our_own_thread_are_not_sent_as_the_job_s(tmp_path: Path) -> None:
    stacks = {1: "_serve (probe/errands.py:63)\n_listen (probe/errands.py:93)", 2: "f (train.py:9)"}
    process: Any = SimpleNamespace(definitions=SimpleNamespace(stack=stacks.get), stack="")
    job: Any = SimpleNamespace(name="job")
    shipment, made = JobShipment(job, processes={0: process}), Batchful()
    rows = {
        "process": ("I", [0, 0]), "start_ns": ("q", [0, 0]), "id": ("I", [1, 2]),
        "kind": ("B", [2, 2]), "state": ("B", [0, 0]), "count": ("Q", [9, 1]),
        "total_ns": ("q", [90, 10]), "min_ns": ("q", [1, 1]), "max_ns": ("q", [1, 1]),
    }  # fmt: skip
    columns = {name: array(code, values).tobytes() for name, (code, values) in rows.items()}
    shipment._take_windows(made, columns, 0)
    assert [text for _, text in made.texts.values()] == ["f (train.py:9)"]
    assert [row[6] for row in made.windows] == [10]
    assert process.stack == "f (train.py:9)"


def test_collectives_of_which_only_the_start_is_known_have_no_time() -> None:
    process: Any = SimpleNamespace(pid=os.getpid())
    shipment = ProcessShipment(process)
    rows = {
        "flags": ("B", [1, 3, 0]), "name": ("I", [0] * 3), "group": ("I", [0] * 3),
        "world_size": ("I", [2] * 3), "start_ns": ("q", [0] * 3), "wait_ns": ("q", [0, 5, 0]),
        "duration_ns": ("q", [1, 20, 300]), "bytes": ("q", [1000] * 3), "sequence": ("Q", [0] * 3),
    }  # fmt: skip
    shipment._collectives(
        {name: array(code, values).tobytes() for name, (code, values) in rows.items()}
    )
    (sums,) = shipment.traffic.values()
    assert (sums.count, sums.bytes, sums.total_ns, sums.wait_ns) == (3, 3000, 320, 5)


def test_losses_of_a_job_with_the_name_of_an_earlier_one_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipping = Shipping(Target("http://127.0.0.1:9", tmp_path), "node", 0)
    monkeypatch.setattr(shipping, "_seal", lambda *_: None)
    nothing: Any = None

    def losses(dropped: int) -> list[object]:
        recorder = SimpleNamespace(rows_dropped=0, windows=SimpleNamespace(rows_dropped=0))
        job: Any = SimpleNamespace(
            name="job", recorder=recorder, ended_dropped=dropped, processes={}
        )
        found = shipping._losses(job, JobShipment(job), 1)
        shipping.job_ended(job, nothing, nothing, 0)
        return [one["count"] for one in found]

    assert losses(1000) == [1000]
    assert losses(10) == [10]
    assert shipping._records_dropped() == 1010
    shipping.sender.stop(0)
    shipping.requests.stop()
