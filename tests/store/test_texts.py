"""What a question reads of a store that remembers the names of a year."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.store.conftest import fill

from pilotlight.simulate.fleet import FleetJob
from pilotlight.store import queries
from pilotlight.store.queries import Reader, last
from pilotlight.store.queries.profiles import profile_sums
from pilotlight.store.store import Store
from pilotlight.web.compare import compare

OTHERS = 400_000
QUESTIONS: Mapping[str, Callable[[Reader, queries.Span], object]] = {
    "kernels": lambda reader, span: queries.kernels(reader, "job", span),
    "stacks": lambda reader, span: queries.stacks(reader, "job", span),
    "stacks of ranks": lambda reader, span: queries.rank_stacks(reader, "job", span, [0, 1]),
    "phases": lambda reader, span: queries.phases(reader, "job", span).phases_ns,
    "profiles": lambda reader, span: profile_sums(reader.store, span).rows,
    "comparison": lambda reader, span: compare(reader, "job", span, "job", span).kernels,
}


def test_names_of_other_jobs_are_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, FleetJob("job", 1, 2), 3)
    span = last(600 * 10**9)
    before = {what: ask(Reader(store), span) for what, ask in QUESTIONS.items()}
    store.command(
        "INSERT INTO names SELECT 'default', cityHash64(number), 2, 'other', "
        f"toUnixTimestamp64Nano(now64(9)) FROM numbers({OTHERS})"
    )
    whole = Store.select
    few = {"max_rows_to_read": OTHERS // 10}
    monkeypatch.setattr(
        Store, "select", lambda self, sql, values=None, _=None: whole(self, sql, values, few)
    )
    for what, ask in QUESTIONS.items():
        assert before[what], what
        assert ask(Reader(store), span) == before[what], what


def test_a_stack_that_was_never_told_is_left_out_and_a_kernel_shown_by_its_number(
    store: Store,
) -> None:
    fill(store, FleetJob("job", 1, 1), 2)
    span = last(600 * 10**9)
    store.command("TRUNCATE TABLE names")
    assert queries.stacks(Reader(store), "job", span) == []
    assert {one.name[0] for one in queries.kernels(Reader(store), "job", span)} == {"?"}
