"""What the collector remembers of the latest steps."""

from __future__ import annotations

import numpy as np

from pilotlight.collector.watch.look import found_in
from pilotlight.collector.watch.rank import MOST_STEPS, RecentRank
from pilotlight.collector.watch.recent import RecentJob
from pilotlight.collector.watch.shared_steps import spread
from pilotlight.insights.online import diagnose_windows
from pilotlight.ship.wire import PARTS, WAIT_KNOWN

MS = 1_000_000
EVERY = 32
KNOWN = 1 << PARTS.index("compute_ns") | 1 << PARTS.index("communication_ns")


def reducing_rank(own_ms: int, steps: int, also: int = 0) -> RecentRank:
    """Steps of 300 ms; what a rank waits in its backward is told of every 32nd, and of every one
    that `also` divides; else it is taken for compute."""
    rank = RecentRank("node", "agent")
    for step in range(steps):
        wait_ns = (300 - own_ms) * MS
        is_told = step % EVERY == 0 or bool(also and step % also == 0)
        parts = dict.fromkeys(PARTS, 0)
        parts["compute_ns"] = 10 * MS + (0 if is_told else wait_ns)
        parts["communication_ns"] = wait_ns if is_told else 0
        known = KNOWN | (WAIT_KNOWN if is_told else 0)
        row = [step, step * 300 * MS, 300 * MS, *parts.values(), parts["communication_ns"], known]
        rank.add(np.array([row], np.int64))
    return rank


def test_steps_whose_communication_is_told_are_kept_for_longer_and_compared() -> None:
    job = RecentJob("default", "job")
    job.ranks = {rank: reducing_rank(290 if rank == 1 else 150, 25 * EVERY) for rank in range(3)}
    assert len(job.ranks[0].rows) == MOST_STEPS and len(job.ranks[0].told) == 25
    found = diagnose_windows(job.windows(), told=job.told_windows(is_short=False)).findings
    assert [(one.cause, one.rank) for one in found] == [("straggler", 1)]
    assert diagnose_windows(job.windows()).findings == ()


def test_ranks_are_compared_in_steps_that_all_of_them_tell() -> None:
    job = RecentJob("default", "job")
    job.ranks = {
        rank: reducing_rank(290 if rank == 1 else 150, 12 * EVERY, also=50 if rank == 1 else 0)
        for rank in range(2)
    }
    windows = job.told_windows(is_short=True)
    assert (
        windows is not None
        and [list(one.step) for one in windows] == [[step * EVERY for step in range(4, 12)]] * 2
    )
    found = diagnose_windows(job.windows(), told=windows).findings
    assert [(one.cause, one.rank) for one in found] == [("straggler", 1)]


def test_ranks_of_nodes_that_tell_at_different_times_are_compared_in_what_both_have_told() -> None:
    """Steps of 20 ms: what the second node told last is 8 s older, 400 steps."""
    job = RecentJob("default", "job")
    for rank in range(4):
        job.ranks[rank] = RecentRank(f"node{rank // 2}", "agent")
        for batch in range(6):
            first = batch * 500 + (100 if rank < 2 else -300)
            steps = np.arange(max(0, first), first + 500)
            own = np.where(steps > 1500, 12, 10) * MS if rank == 1 else np.full(len(steps), 10 * MS)
            rows = np.zeros((len(steps), len(PARTS) + 5), np.int64)
            rows[:, 0], rows[:, 1], rows[:, 2] = steps, steps * 20 * MS, 20 * MS
            rows[:, 3 + PARTS.index("compute_ns")] = own
            rows[:, 3 + PARTS.index("communication_ns")] = 20 * MS - own
            rows[:, -1] = (1 << len(PARTS)) - 1 | WAIT_KNOWN
            job.ranks[rank].add(rows)
    assert {len(one.step) for one in job.short_windows()} == {20}
    assert [(one.cause, one.rank) for one in found_in(job, None)] == [("slow_gpu", 1)]


def test_steps_of_a_second_are_compared_as_soon_as_all_nodes_have_told_them() -> None:
    """The second node is 9 steps behind: the last 20 of each would have 11 in common."""
    job = RecentJob("default", "job")
    for rank in range(4):
        job.ranks[rank] = RecentRank(f"node{rank // 2}", "agent")
        steps = np.arange(100 if rank < 2 else 91)
        own = np.where((steps > 70) & (rank == 1), 900, 600) * MS
        rows = np.zeros((len(steps), len(PARTS) + 5), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = steps, steps * 1000 * MS, 1000 * MS
        rows[:, 3 + PARTS.index("compute_ns")] = own
        rows[:, 3 + PARTS.index("communication_ns")] = 1000 * MS - own
        rows[:, -1] = (1 << len(PARTS)) - 1 | WAIT_KNOWN
        job.ranks[rank].add(rows)
    short = diagnose_windows(job.short_windows()).findings
    assert [(one.cause, one.rank) for one in short] == [("slow_gpu", 1)]


def test_ranks_that_tell_all_their_steps_are_compared_in_all() -> None:
    job = RecentJob("default", "job")
    job.ranks = {rank: reducing_rank(150, 1) for rank in range(3)}
    assert job.told_windows(is_short=True) is None


def test_a_slow_step_in_the_middle_of_a_batch_is_noticed_once() -> None:
    job = RecentJob("default", "job", ranks={0: RecentRank("node", "agent")})
    rows = np.zeros((40, len(PARTS) + 5), np.int64)
    rows[:, 1] = np.arange(40) * 100 * MS
    rows[:, 2] = 100 * MS
    rows[25, 2] = 200 * MS
    job.ranks[0].add(rows)
    assert job.slow_ranks(1.5) == [0]
    job.looked()
    assert job.slow_ranks(1.5) == []


def test_of_fast_steps_some_of_the_last_ten_seconds_are_looked_at_each_once() -> None:
    random = np.random.default_rng(3)
    for spread_ns in (1, 10**8, 10**10, 10**12):
        rows = np.zeros((200, len(PARTS) + 5), np.int64)
        rows[:, 0], rows[:, 1] = np.arange(200), np.sort(random.integers(0, spread_ns, 200))
        steps = spread({0: rows}, rows[:, 0], 20)
        assert len(set(steps.tolist())) == 20 and steps[-1] == 199
    rows[:, 1] = np.arange(200) * 100 * MS
    steps = spread({0: rows}, rows[:, 0], 20)
    assert steps[0] in range(98, 101), "100 steps of 100 ms are 10 s"


def test_a_rank_that_is_slow_for_a_moment_of_fast_steps_is_not_blamed() -> None:
    """For 2 s of steps of 10 ms: all of the last 200 steps, a fifth of the last 10 s."""
    job = RecentJob("default", "job")
    steps = np.arange(3000)
    for rank in range(4):
        job.ranks[rank] = RecentRank("node", "agent")
        own = np.where((steps >= 2800) & (rank == 1), 8, 5) * MS
        rows = np.zeros((len(steps), len(PARTS) + 5), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = steps, steps * 10 * MS, 10 * MS
        rows[:, 3 + PARTS.index("compute_ns")] = own
        rows[:, 3 + PARTS.index("communication_ns")] = 10 * MS - own
        rows[:, -1] = (1 << len(PARTS)) - 1 | WAIT_KNOWN
        for batch in np.split(rows, 3):
            job.ranks[rank].add(batch)
    assert [one for one in found_in(job, None) if one.rank is not None] == []
