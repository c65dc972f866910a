"""The function that holds a rank up, from its samples and those of the others."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from pilotlight.collector.watch.rank import RecentRank
from pilotlight.collector.watch.recent import RecentJob
from pilotlight.collector.watch.where import Locator, most_apart
from pilotlight.insights.finding import Finding
from pilotlight.store.place import parse_place
from pilotlight.store.store import Store

LOOP, LOAD, DECODE = "<module> (train.py:40)", "load (data.py:7)", "decode (png.py)"
OTHER_LINE = "<module> (train.py:52)"
BACKWARD = "Tensor.backward (torch/_tensor.py)"
WATCH = "_serve (probe/errands.py)"
USUAL = [((LOOP,), 400), ((LOOP, BACKWARD), 600), ((WATCH,), 1000)]


def test_of_a_function_and_what_it_calls_the_caller_is_named() -> None:
    late = [((LOOP,), 400), ((LOOP, BACKWARD), 100), ((LOOP, LOAD, DECODE), 500), ((WATCH,), 1000)]
    place = most_apart(late, [USUAL, USUAL])
    assert place is not None
    assert (place.frame, place.ratio, place.others_ratio) == (LOAD, 0.5, 0.0)


def test_what_a_function_does_itself_is_told_apart_from_what_it_calls() -> None:
    late = [((LOOP,), 300), ((OTHER_LINE,), 600), ((LOOP, BACKWARD), 100), ((WATCH,), 1000)]
    place = most_apart(late, [USUAL, USUAL])
    assert place is not None
    assert (place.frame, place.ratio, place.others_ratio) == (f"{OTHER_LINE} itself", 0.9, 0.4)


def test_the_line_is_the_one_that_the_others_are_not_in() -> None:
    busy = [((LOOP,), 700), ((WATCH,), 1000)]
    late = [((LOOP,), 600), ((OTHER_LINE, BACKWARD), 400), ((WATCH,), 1000)]
    place = most_apart(late, [busy, busy])
    assert place is not None and place.frame == BACKWARD
    late = [((LOOP,), 600), ((OTHER_LINE,), 400), ((WATCH,), 1000)]
    place = most_apart(late, [busy, busy])
    assert place is not None and place.frame == OTHER_LINE
    assert place.source == "train.py:52 <module>"


def test_frames_of_an_older_agent_have_no_line() -> None:
    place = most_apart([(("old (a.py)",), 900)], [[(("else (b.py)",), 900)]])
    assert place is not None
    assert (place.frame, place.source) == ("old (a.py)", "")


def test_nobody_to_compare_with_is_no_place() -> None:
    assert most_apart(USUAL, []) is None
    assert most_apart([], [USUAL]) is None


def test_a_straggler_says_which_function_it_is_in(tmp_path: Path) -> None:
    now_ns = time.time_ns()
    job = RecentJob("default", "job", told_ns=now_ns)
    job.ranks = {rank: RecentRank("node", "agent") for rank in range(3)}
    finding = Finding(
        "A26", "straggler", "Rank 1 holds up all others", 1, "rank 1", ("late", "nothing"),
        "look", 0.3, 0.4, "high",
    )  # fmt: skip
    with Store(parse_place(str(tmp_path / "store"))) as store:
        for rank in job.ranks:
            mine = (LOOP, LOAD) if rank == 1 else (LOOP, BACKWARD)
            for number, (frames, spent_ns) in enumerate([((LOOP,), 5 * 10**9), (mine, 5 * 10**9)]):
                name = 100 + number + 10 * (rank == 1)
                who = {"tenant": "default", "job": "job", "attempt": 0, "node": "node"}
                at = {"rank": rank, "time_ns": now_ns - 30 * 10**9, "kind": 2, "state": 1}
                sums = {"count": 1, "total_ns": spent_ns, "min_ns": 0, "max_ns": 0}
                store.insert_rows("windows", [{**who, **at, "name": name, **sums}])
                said = {"id": name, "kind": 2, "text": "\n".join(frames), "seen_ns": now_ns}
                store.insert_rows("names", [{"tenant": "default", **said}])
        located = Locator(store, Counter()).located(job, finding)
    assert located.evidence == ("late", f"50.0 % of its time in {LOAD}, the others 0.0 %")
    assert located.fix == f"look at what {LOAD} does on this rank alone"
    assert located.place == "rank 1, from data.py:7 load"
