"""Batches on the agent's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.ship.outbox import Outbox
from pilotlight.ship.target import outbox_folder


def test_batches_leave_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, 1 << 20)
    for sequence in (1, 2, 3):
        outbox.put(5, sequence, 10, b"x")
    first = outbox.oldest()
    assert first is not None and first.sequence == 1
    outbox.done(first)
    second = outbox.oldest()
    assert second is not None and second.sequence == 2


def test_the_next_agent_finds_what_a_killed_one_left(tmp_path: Path) -> None:
    Outbox(tmp_path, 1 << 20).put(5, 1, 10, b"abc")
    (tmp_path / "half.new").write_bytes(b"torn")
    again = Outbox(tmp_path, 1 << 20)
    waiting = again.oldest()
    assert waiting is not None and again.read(waiting) == b"abc" and again.size_bytes == 3


def test_beyond_its_limit_the_oldest_goes_and_is_counted(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, 250)
    for sequence in range(1, 5):
        outbox.put(5, sequence, 10, bytes(100))
    assert len(outbox) == 2 and outbox.size_bytes == 200
    assert (outbox.lost.batches, outbox.lost.rows) == (2, 20)
    assert outbox.lowest(5, 9) == 3


def test_the_agent_keeps_its_name(tmp_path: Path) -> None:
    assert Outbox(tmp_path, 1).agent_id() == Outbox(tmp_path, 1).agent_id()


def test_a_refused_batch_is_kept_aside_and_counted(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, 1 << 20)
    outbox.put(5, 1, 10, b"x")
    waiting = outbox.oldest()
    assert waiting is not None
    outbox.put_aside(waiting)
    assert outbox.oldest() is None and outbox.lost.rows == 10
    assert len(list((tmp_path / "aside").iterdir())) == 1


def test_machines_that_share_a_home_have_an_outbox_each(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Path("/run/user/1000/pilotlight")
    monkeypatch.setenv("PILOTLIGHT_NODE", "node1")
    first = outbox_folder(runtime)
    assert outbox_folder(runtime) == first
    monkeypatch.setenv("PILOTLIGHT_NODE", "node2")
    assert outbox_folder(runtime) != first
