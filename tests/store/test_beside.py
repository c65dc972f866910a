"""Questions beside each other."""

from __future__ import annotations

import threading

import pytest

from pilotlight.errors import StoreError
from pilotlight.store.store import Store


def test_questions_beside_each_other_are_asked_at_the_same_time(store: Store) -> None:
    both = threading.Barrier(2, timeout=60)
    asked = [store.beside(both.wait) for _ in range(2)]
    assert sorted(one.result(60) for one in asked) == [0, 1]


def test_a_question_within_one_never_waits_for_a_thread(store: Store) -> None:
    def nested(depth: int) -> int:
        return 0 if depth == 0 else 1 + store.beside(lambda: nested(depth - 1)).result()

    asked = [store.beside(lambda: nested(5)) for _ in range(10)]
    assert [one.result(60) for one in asked] == [5] * 10


def test_each_thread_has_its_own_client(store: Store) -> None:
    asked = [store.beside(lambda: store.select("SELECT 1")) for _ in range(20)]
    assert [one.result(60) for one in asked] == [[(1,)]] * 20


def test_a_question_that_fails_says_so_where_its_answer_is_wanted(store: Store) -> None:
    asked = store.beside(lambda: store.beside(lambda: store.select("SELECT nothing")).result())
    with pytest.raises(StoreError, match="nothing"):
        asked.result(60)
