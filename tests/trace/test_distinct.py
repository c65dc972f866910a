from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.trace import distinct
from pilotlight.trace.trace import NONE


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), max_size=20), st.booleans())
def test_rows_are_grouped_by_all_columns_with_and_without_sorting(
    rows: list[tuple[int, int]], sorted_too: bool
) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    limit, distinct.MOST_FLAGS = distinct.MOST_FLAGS, 2 if sorted_too else 1000
    firsts, group = distinct.distinct(*columns)
    distinct.MOST_FLAGS = limit
    assert [rows[firsts[number]] for number in group] == rows
    assert len(firsts) == len(set(rows))
    assert all(rows.index(rows[first]) == first for first in firsts)


@given(st.lists(st.integers(-1, 9), max_size=12), st.lists(st.integers(-1, 9), max_size=12))
def test_a_wanted_value_is_at_its_last_place(known: list[int], wanted: list[int]) -> None:
    last = {value: place for place, value in enumerate(known)}
    found = distinct.places(np.array(known, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [last.get(value, NONE) for value in wanted]
