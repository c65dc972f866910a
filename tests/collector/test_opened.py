"""Findings over their life: which are the same, and how they survive the collector."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from tests.collector.conftest import until

from pilotlight.collector.collector import Collector
from pilotlight.collector.config import Config, Watch
from pilotlight.collector.watch.nodes import silent_nodes
from pilotlight.collector.watch.opened import Register, opened_from
from pilotlight.collector.watch.rank import RecentRank
from pilotlight.collector.watch.recent import RecentJob
from pilotlight.insights.finding import Finding
from pilotlight.store.place import parse_place
from pilotlight.store.store import Store

SECOND = 1_000_000_000
HANG = Finding(
    rule="A33", cause="hang", title="The job hangs: rank 1 is missing", rank=1, place="ranks 1",
    evidence=("no step for 60 s",), fix="look", gain_low_ratio=1.0, gain_high_ratio=1.0,
    confidence="high",
)  # fmt: skip
SPIKES = replace(HANG, rule="A34", cause="irregular", title="Some steps are long", place="steps")


def job(heard_s: dict[int, float] | None = None) -> RecentJob:
    heard = heard_s or dict.fromkeys(range(4), 100.0)
    ranks = {
        rank: RecentRank(f"node{rank // 2}", "agent", heard_ns=int(at_s * SECOND))
        for rank, at_s in heard.items()
    }
    return RecentJob("default", "job", ranks=ranks)


@pytest.mark.parametrize("finding", [HANG, SPIKES])
def test_a_finding_that_a_restart_recalls_is_the_one_that_is_found_again(finding: Finding) -> None:
    register = Register()
    (before,) = register.update(job(), [finding], 100 * SECOND) or register.update(
        job(), [finding], 110 * SECOND
    )
    after = Register({one.key: one for one in [opened_from(before.row())]})
    (again,) = after.update(job(), [finding], 120 * SECOND)
    assert (again.id, len(after.open)) == (before.id, 1)


def test_a_slow_step_is_one_finding_whichever_rank_is_the_slowest_in_it() -> None:
    register = Register()
    for now_s, rank in ((100, 0), (106, 1), (112, 0)):
        register.update(job(), [replace(SPIKES, rank=rank)], now_s * SECOND)
    assert len(register.open) == 1


def test_each_node_that_has_gone_silent_is_a_finding() -> None:
    quiet = job({0: 100.0, 1: 100.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 10.0})
    register = Register()
    opened = register.update(quiet, silent_nodes(quiet, 101 * SECOND), 101 * SECOND)
    assert [one.nodes for one in opened] == [("node1",), ("node2",)]
    assert [one.ranks for one in opened] == [(2, 3), (4, 5)]


def test_a_finding_of_a_job_that_never_comes_back_closes(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path / "store"))
    hour_ago_ns = time.time_ns() - 3600 * SECOND
    register = Register()
    (left,) = register.update(job(), [HANG], hour_ago_ns)
    (fresh,) = register.update(RecentJob("default", "other"), [HANG], time.time_ns())
    with Store(place) as store:
        store.insert_rows("findings", [left.row(), fresh.row()])
    collector = Collector(place, Config(watch=Watch(every_s=0.1)))
    until(lambda: collector.watcher.counts["closed"])
    still_open = [one.id for one in collector.watcher.open_findings()]
    rows = collector.store.select(
        "SELECT state FROM findings FINAL WHERE id = {id:String}", {"id": left.id}
    )
    collector.close()
    assert still_open == [fresh.id] and rows == [("closed",)]


def test_what_all_ranks_have_is_one_finding_of_no_rank() -> None:
    register = Register()
    waits = replace(SPIKES, cause="loader", place="all ranks")
    for now_s, rank in ((100, 0), (106, 1), (112, 0)):
        register.update(job(), [replace(waits, rank=rank)], now_s * SECOND)
    assert [one.ranks for one in register.open.values()] == [()]
