"""What a batch says of a job's processes."""

from __future__ import annotations

import subprocess
import time
from types import SimpleNamespace

import pytest

from pilotlight.agent.counters.source import Counter
from pilotlight.agent.device_shipment import DeviceShipment
from pilotlight.agent.header import _bounded, _gpu, job_facts, known_facts
from pilotlight.agent.pidfd import process_start_time
from pilotlight.agent.process import began_ns
from pilotlight.agent.shipment import JobShipment


def test_facts_of_frameworks_are_plain_values_by_name() -> None:
    identity = {
        "python": "3.11.7",
        "container": None,
        "facts": {
            "torch.version": "2.13.0",
            "torch.tf32_matmul": True,
            "torch.threads": 8,
            "torch.environment": ["NCCL_DEBUG=INFO", "OMP_NUM_THREADS=1"],
        },
    }
    assert known_facts(identity, ["NVIDIA H100 80GB HBM3"] * 8) == {
        "python": "3.11.7",
        "torch.version": "2.13.0",
        "torch.tf32_matmul": True,
        "torch.threads": 8,
        "env NCCL_DEBUG": "INFO",
        "env OMP_NUM_THREADS": "1",
        "gpus": "8 x NVIDIA H100 80GB HBM3",
    }


def test_facts_are_bounded_whatever_a_process_says() -> None:
    many = known_facts({"facts": {f"x{n}": ["y" * 1000] for n in range(1000)}}, [])
    assert len(many) == 100 and max(len(str(value)) for value in many.values()) == 200
    assert known_facts({"facts": "rubbish"}, []) == {}


@pytest.mark.parametrize(
    ("local_rank", "gpus", "expected"),
    [(1, ["H100"] * 2, 1), (2, ["H100"] * 2, -1), (0, [], -1), (None, ["H100"], -1)],
)
def test_a_rank_has_a_gpu_where_its_node_has_one_for_it(
    local_rank: int | None, gpus: list[str], expected: int
) -> None:
    one = SimpleNamespace(process=SimpleNamespace(identity={"local_rank": local_rank}))
    assert _gpu(one, gpus, None) == expected  # type: ignore[arg-type]


def test_the_driver_knows_better_who_has_which_gpu() -> None:
    """Two jobs of one node: the second has GPUs 4 to 7, and a rank 0 of its own."""
    devices = DeviceShipment()
    listed = [("gpu0", 100, 4e9), ("gpu4", 200, 5e9), ("gpu0", 200, 1e6), ("gpu5", 999, 1e9)]
    windows = [
        (Counter(gpu, f"memory_of_pid_{pid}", "B"), 0, 1, size, size, size)
        for gpu, pid, size in listed
    ]
    devices.add(windows, [], {})
    held = devices.held_by([100, 200, 300])
    ranks = {pid: SimpleNamespace(pid=pid, identity={"local_rank": 0}) for pid in (100, 200, 300)}
    found = {
        pid: _gpu(SimpleNamespace(process=rank), ["H100"] * 8, held)  # type: ignore[arg-type]
        for pid, rank in ranks.items()
    }
    assert found == {100: 0, 200: 4, 300: -1}
    assert devices.held_by([1, 2]) is None, "pids of another namespace say nothing"
    devices.add([(Counter("gpu4", "processes", ""), 0, 1, 0.0, 0.0, 0.0)], [], {})
    assert devices.held_by([100, 200]) == {100: 0, 200: 0, 999: 5}, "200 has left gpu4"


def test_a_launcher_that_outlives_its_ranks_does_not_tell_of_them() -> None:
    shipment = JobShipment(job=SimpleNamespace(name="job"))  # type: ignore[arg-type]
    rank = {"role": "rank", "rank": 0, "attempt": 2, "facts": {"torch.version": "2.13.0"}}
    for identities in ([{"role": "main"}], [{"role": "main"}, rank], [{"role": "main"}], []):
        shipment.processes = {
            index: SimpleNamespace(process=SimpleNamespace(identity=identity))  # type: ignore[misc]
            for index, identity in enumerate(identities)
        }
        shipment._identify()
    assert shipment.identity == rank


def test_a_process_is_as_old_as_the_kernel_says_whenever_its_agent_came() -> None:
    now_ns = time.monotonic_ns()
    child = subprocess.Popen(["sleep", "60"])
    try:
        start_time = process_start_time(child.pid)
        assert start_time is not None
        late_ns = now_ns + 10_000_000_000
        assert abs(began_ns(start_time, late_ns) - now_ns) < 500_000_000
    finally:
        child.kill()
        child.wait()
    assert began_ns(0, now_ns) == began_ns(1 << 62, now_ns) == now_ns


def test_one_process_that_says_too_much_does_not_have_the_batch_refused() -> None:
    assert _bounded({"group": 2**64 - 1, "x" * 300: -5}) == {"group": 1 << 62, "x" * 200: 0}


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ([("main", 0, -9)], ("failed", 0, 9)),
        ([("main", 0, 3)], ("failed", 3, 0)),
        ([("main", 0, None)], ("finished", 0, 0)),
        ([("rank", 0, 0), ("rank", 0, -11), ("rank", 0, 0)], ("failed", 0, 11)),
        # A launcher knows better: it has started its ranks again.
        ([("rank", 0, 1), ("rank", 1, 0), ("main", 0, 0)], ("finished", 0, 0)),
        ([("rank", 0, 1), ("rank", 1, 0)], ("finished", 0, 0)),
        ([("child", 0, -15), ("rank", 0, 0)], ("finished", 0, 0)),
    ],
)
def test_a_job_that_nobody_waits_for_ended_as_its_processes_did(
    ends: list[tuple[str, int, int | None]], told: tuple[str, int, int]
) -> None:
    manifest = SimpleNamespace(created_ns=1, command=["python"])
    job = SimpleNamespace(name="job", outcome=None, recorder=SimpleNamespace(manifest=manifest))
    shipment = JobShipment(job)  # type: ignore[arg-type]
    for role, attempt, code in ends:
        process = SimpleNamespace(identity={"role": role, "attempt": attempt})
        shipment.ended(SimpleNamespace(process=process, exit_code=code))  # type: ignore[arg-type]
    facts = job_facts(shipment, True, 1, [])
    assert (facts["state"], facts["exit_code"], facts["signal"]) == told
