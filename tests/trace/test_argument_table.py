"""Arguments keep the kind that Kineto gives them, whatever others write under their names."""

from __future__ import annotations

import pytest

from pilotlight.trace.argument_table import ArgumentTable


def kept(key: str, *values: float | str) -> list[float]:
    table = ArgumentTable()
    for row, value in enumerate(values):
        table.add(row, key, value)
    return [
        number for argument in table.arguments().values() for number in argument.values.tolist()
    ]


def test_a_real_number_that_is_whole_at_first_keeps_those_that_follow() -> None:
    assert kept("est. achieved occupancy %", 50, 12.5) == [50.0, 12.5]


def test_a_whole_number_written_as_a_real_one_is_kept() -> None:
    assert kept("registers per thread", 32.0, 40) == [32, 40]


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63), 1e300, float("inf"), float("nan"), "many"])
def test_what_cannot_be_the_number_that_is_meant_is_left_out(value: float | str) -> None:
    assert kept("Seq", value, 7) == [7]


def test_a_number_is_no_text() -> None:
    assert kept("grid", 7) == []
