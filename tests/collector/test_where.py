"""The function that holds a rank up, from its samples and those of the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
from pilotlight.collector.watch.rank import COLUMNS, RecentRank
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


STRAGGLER = Finding(
    "A26", "straggler", "Rank 1 holds up all others", 1, "rank 1", ("late", "nothing"),
    "look", 0.3, 0.4, "high",
)  # fmt: skip


def job_of_three(now_ns: int) -> RecentJob:
    job = RecentJob("default", "job", told_ns=now_ns)
    job.ranks = {rank: RecentRank("node", "agent") for rank in range(3)}
    return job


def spent(
    store: Store, rank: int, time_ns: int, stacks: Mapping[int, tuple[tuple[str, ...], int]]
) -> None:
    """A window of a rank: by the number of a stack its frames and seconds."""
    for name, (frames, seconds) in stacks.items():
        who = {"tenant": "default", "job": "job", "attempt": 0, "node": "node"}
        at = {"rank": rank, "time_ns": time_ns, "kind": 2, "state": 1, "name": name}
        sums = {"count": 1, "total_ns": seconds * 10**9, "min_ns": 0, "max_ns": 0}
        store.insert_rows("windows", [{**who, **at, **sums}])
        said = {"id": name, "kind": 2, "text": "\n".join(frames), "seen_ns": time_ns}
        store.insert_rows("names", [{"tenant": "default", **said}])


def test_a_straggler_says_which_function_it_is_in(tmp_path: Path) -> None:
    now_ns = time.time_ns()
    with Store(parse_place(str(tmp_path / "store"))) as store:
        for rank in range(3):
            mine = (111, (LOOP, LOAD)) if rank == 1 else (101, (LOOP, BACKWARD))
            stacks = {100: ((LOOP,), 5), mine[0]: (mine[1], 5)}
            spent(store, rank, now_ns - 30 * 10**9, stacks)
        located = Locator(store, Counter()).located(job_of_three(now_ns), STRAGGLER)
    assert located.evidence == ("late", f"50.0 % of its time in {LOAD}, the others 0.0 %")
    assert located.fix == f"look at what {LOAD} does on this rank alone"
    assert located.place == "rank 1, from data.py:7 load"


def test_what_a_rank_did_before_its_steps_explains_none_of_them(tmp_path: Path) -> None:
    now_ns = time.time_ns()
    job = job_of_three(now_ns)
    step = np.zeros((1, len(COLUMNS)), np.int64)
    step[0, 1] = now_ns - 35 * 10**9
    for one in job.ranks.values():
        one.add(step)
    imports = ("<module> (train.py:2)", "exec_module (importlib:9)")
    with Store(parse_place(str(tmp_path / "store"))) as store:
        for rank in range(3):
            first = {102: (imports, 9)} if rank == 1 else {100: ((LOOP,), 9)}
            spent(store, rank, now_ns - 40 * 10**9, first)
            mine = (111, (LOOP, LOAD)) if rank == 1 else (101, (LOOP, BACKWARD))
            stacks = {100: ((LOOP,), 5), mine[0]: (mine[1], 5)}
            spent(store, rank, now_ns - 30 * 10**9, stacks)
        located = Locator(store, Counter()).located(job, STRAGGLER)
    assert located.place == "rank 1, from data.py:7 load"


def test_a_place_that_is_not_known_yet_is_asked_for_soon(tmp_path: Path) -> None:
    now_ns = time.time_ns()
    job = job_of_three(now_ns)
    with Store(parse_place(str(tmp_path / "store"))) as store:
        locator = Locator(store, Counter())
        assert locator.located(job, STRAGGLER) == STRAGGLER
        for rank in range(3):
            stack = (LOOP, LOAD) if rank == 1 else (LOOP, BACKWARD)
            spent(store, rank, now_ns - 30 * 10**9, {100 + rank: (stack, 10)})
        job.told_ns += 6 * 10**9
        assert locator.located(job, STRAGGLER).place == "rank 1, from data.py:7 load"
