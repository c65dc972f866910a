from __future__ import annotations

import pytest

from pilotlight.insights.kernel import Category, category, communication_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all-reduce.1", "allreduce"),
        ("all-gather-start.3", "allgather"),
        ("reduce-scatter.2", "reducescatter"),
        ("all-to-all.4", "alltoall"),
        ("collective-permute-done", "collectivepermute"),
    ],
)
def test_collectives_of_a_tpu_are_communication(name: str, kind: str) -> None:
    assert category(name) is Category.COMMUNICATION
    assert communication_kind(name) == kind


def test_fusions_of_a_tpu_are_what_xla_says_they_are() -> None:
    assert category("fusion.7 (convolution fusion)") is Category.CONVOLUTION
    assert category("fusion.9 (loop fusion)") is Category.ELEMENTWISE
    assert category("fusion.9") is Category.OTHER
