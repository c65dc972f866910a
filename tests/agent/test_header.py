"""What a batch says of a job's processes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pilotlight.agent.header import _gpu, known_facts
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
    assert _gpu(one, gpus) == expected  # type: ignore[arg-type]


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
