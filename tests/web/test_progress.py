from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the page needs pilotlight[server]")
from pilotlight.store.queries import CaptureRow
from pilotlight.web.progress import problems_of, settled_nodes


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
