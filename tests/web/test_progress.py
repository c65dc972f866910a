from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the page needs pilotlight[server]")
from pilotlight.store.queries import CaptureRow
from pilotlight.web.progress import (
    GIVEN_UP_NS,
    is_settling,
    problems_of,
    settled_nodes,
    settling_nodes,
)


def row(state: str, problem: str = "", nodes: tuple[str, ...] = ("a", "b")) -> CaptureRow:
    return CaptureRow(
        "job", 0, "1f", "user", "me", "", state, problem, (0, 1), nodes, 0, 1, 0, 1, 9, 1, 5
    )


def test_why_each_node_failed_is_found_in_one_text() -> None:
    problem = "a: the disk: full; or so; b: did not answer in time"
    assert problems_of(row("failed", problem)) == {
        "a": "the disk: full; or so",
        "b": "did not answer in time",
    }
    assert problems_of(row("stored")) == {}


def test_a_capture_that_a_restart_forgot_says_so() -> None:
    nodes = settled_nodes(row("requested"), {"a": [0], "b": [1]}, {})
    assert [node.state for node in nodes] == ["failed", "failed"]
    assert "started anew" in nodes[0].why


def test_a_partial_capture_has_both() -> None:
    stored, failed = settled_nodes(row("partial", "b: no job"), {"a": [0, 2]}, {"a": 77})
    assert (stored.state, stored.bytes, stored.ranks) == ("stored", 77, [0, 2])
    assert (failed.state, failed.why, failed.ranks) == ("failed", "no job", [])


def test_between_the_last_part_and_its_row_a_capture_is_on_its_way() -> None:
    """The desk forgets it first: it must not be said to have failed, which a page would believe."""
    requested = row("requested")
    assert is_settling(requested, requested.requested_ns + GIVEN_UP_NS - 1)
    assert not is_settling(requested, requested.requested_ns + GIVEN_UP_NS)
    assert not is_settling(row("stored"), requested.requested_ns)
    stored, asked = settling_nodes(requested, {"a": [0]}, {"a": 77})
    assert (stored.state, asked.state, asked.why) == ("stored", "asked", "")
