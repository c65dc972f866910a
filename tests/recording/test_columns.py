from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.recording.columns import group, join_batches
from pilotlight.recording.decoder import Batch
from pilotlight.recording.schema import Column, Table

NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(-1, 2**40), NUMBERS), max_size=60))
def test_groups_are_the_different_rows_in_order(rows: list[tuple[int, int, int, int]]) -> None:
    columns = [np.array([row[n] for row in rows], np.int64) for n in range(4)]
    found, position = group(*columns)
    different = sorted(set(rows))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == different
    assert [different[place] for place in position.tolist()] == rows


def test_columns_too_wide_for_one_key_are_still_told_apart() -> None:
    rows = 3000
    columns = [np.random.default_rng(seed).permutation(rows) for seed in range(8)]
    found, position = group(*columns)
    assert found[0].size == rows
    assert all(
        (column[position] == given).all() for column, given in zip(found, columns, strict=True)
    )


def test_a_name_with_a_zero_in_it_can_be_asked_for() -> None:
    data = b"a\0bc"
    batch = Batch(2, {"text": data, "text:offsets": np.array([0, 3, 4], "<i4").tobytes()})
    columns, problems = join_batches(Table("names", (Column("text", "utf8"),)), [batch])
    assert columns.texts["text"] == ["a\ufffdb", "c"] and not problems
