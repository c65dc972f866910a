from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.agent.disk import DiskBudget

MB = 1 << 20
MINUTE_NS = 60_000_000_000


class Pile:
    """A recording whose chunks are (since_ns, bytes); the last one is open."""

    def __init__(self, *chunks: tuple[int, int]) -> None:
        self.chunks = list(chunks)

    @property
    def disk_bytes(self) -> int:
        return sum(size for _, size in self.chunks)

    @property
    def oldest_ns(self) -> int | None:
        return self.chunks[0][0] if len(self.chunks) > 1 else None

    def drop_oldest(self) -> bool:
        if len(self.chunks) < 2:
            return False
        del self.chunks[0]
        return True


def test_the_oldest_chunk_of_all_recordings_goes_first() -> None:
    old, new = Pile((1, 5 * MB), (4, MB)), Pile((2, 5 * MB), (3, 5 * MB), (5, MB))
    DiskBudget(12 * MB).enforce([new, old], 10)
    assert old.chunks == [(4, MB)]
    assert new.chunks == [(3, 5 * MB), (5, MB)]


def test_open_chunks_are_never_dropped() -> None:
    piles = [Pile((1, 50 * MB)), Pile((2, 50 * MB))]
    DiskBudget(MB).enforce(piles, 10)
    assert [len(pile.chunks) for pile in piles] == [1, 1]


def test_a_full_disk_shrinks_the_limit_and_a_quiet_minute_lets_it_grow() -> None:
    budget = DiskBudget(64 * MB)
    pile = Pile((1, 8 * MB), (2, 8 * MB), (3, 8 * MB))
    assert budget.make_room([pile], 0)
    assert budget.limit_bytes == 16 * MB and budget.shrunk == 1
    budget.enforce([pile], MINUTE_NS)
    assert budget.limit_bytes == 16 * MB
    for minutes in (2, 4, 6, 8):
        budget.enforce([pile], minutes * MINUTE_NS)
    assert budget.limit_bytes == 64 * MB


def test_a_full_disk_with_nothing_to_drop_makes_no_room() -> None:
    budget = DiskBudget(64 * MB)
    assert not budget.make_room([Pile((1, MB))], 0)
    assert budget.limit_bytes == 64 * MB


@given(
    piles=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 8 * MB)), min_size=1, max_size=6),
        max_size=4,
    ),
    budget_bytes=st.integers(MB, 64 * MB),
)
def test_whatever_is_there_ends_within_the_budget_or_has_only_open_chunks(
    piles: list[list[tuple[int, int]]], budget_bytes: int
) -> None:
    recordings = [Pile(*sorted(chunks)) for chunks in piles]
    DiskBudget(budget_bytes).enforce(recordings, 10)
    within = sum(recording.disk_bytes for recording in recordings) <= budget_bytes
    assert within or all(len(recording.chunks) == 1 for recording in recordings)
