from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.insights.telling import first, is_silent, only, simulated, verdict, with_counters

DEEP = {"pipeline": 4, "micro_batches": 8, "layers": 4, "ranks": 8}


def test_a_network_card_that_all_slow_links_share_is_named_by_its_rank() -> None:
    assert first(*simulated("slow_nic", 4, 12.0, **DEEP)) == ("slow_link", 4)


def test_a_slow_group_is_named_by_its_ranks() -> None:
    shape = {"ranks": 16, "pipeline": 2, "tensor": 2, "micro_batches": 2, "tensor_us": 4.0}
    finding = only("A27", *simulated("slow_link", 5, 12.0, **shape))
    assert finding.rank is None
    assert finding.place == "between ranks 1, 3, 5, 7"


def test_equal_links_are_no_finding() -> None:
    assert is_silent("A27", *simulated(**DEEP))


def test_one_group_alone_cannot_be_compared() -> None:
    assert "three groups" in verdict("A27", *simulated()).missing


@pytest.mark.parametrize(("gb_per_s", "found"), [(13.0, True), (6.0, False), (60.0, False)])
def test_copies_at_the_speed_of_the_link_saturate_it(
    script: Any, gb_per_s: float, found: bool
) -> None:
    story = script()
    for _ in range(4):
        story.launch("Memcpy HtoD (Pinned -> Device)", 100, category="gpu_memcpy")
        story.events[-1]["args"]["bytes"] = int(100_000 * gb_per_s)
        story.launch("gemm_tensorop", 200)
    assert bool(verdict("A12", story.trace()).findings) is found


def test_half_the_speed_in_each_direction_at_once_does_not_saturate_the_link(script: Any) -> None:
    story = script()
    for _ in range(4):
        for name in ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"):
            story.launch(name, 100, category="gpu_memcpy")
            copy = story.events[-1]
            copy["args"]["bytes"] = 700_000
        copy["ts"], copy["tid"] = copy["ts"] - 100, 8
        story.launch("gemm_tensorop", 200)
    assert not verdict("A12", story.trace()).findings


def test_a_link_that_counts_errors_is_a_risk() -> None:
    traces = list(simulated())
    quiet = [with_counters(t, {"gpu0 nvlink_crc_errors": [7, 7]}) for t in traces]
    assert is_silent("A24", *quiet)
    quiet[2] = with_counters(traces[2], {"gpu0 nvlink_crc_errors": [7, 90]})
    finding = only("A24", *quiet)
    assert (finding.rank, finding.is_risk) == (2, True)
    assert "error counters" in verdict("A24", *traces).missing


def test_many_small_messages_that_nothing_hides_are_found() -> None:
    shape = {"ranks": 4, "bucket_layers": 1, "layers": 4, "gemm_us": 5.0, "attention_us": 5.0}
    traces = simulated(
        "slow_network",
        0,
        30.0,
        **shape,
        collective_us=3.0,
        optimizer_us=5.0,
        elementwise_us=1.0,
        norm_us=1.0,
    )
    assert np.max([m.bytes for m in traces[0].detail.messages.kinds]) < 1 << 20
    assert verdict("A31", *traces).findings
    assert is_silent("A31", *simulated())
