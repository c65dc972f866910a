from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.report import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (41_234_567, "41.2 ms"),
        (999_499_999, "999 ms"),
        (999_600_000, "1.00 s"),
        (99_990_000_000, "100 s"),
        (125_000_000_000, "2 min 5 s"),
        (7_260_000_000_000, "2 h 1 min"),
        (-1_500_000, "-1.50 ms"),
    ],
)
def test_durations_have_three_digits_and_a_unit(ns: int, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0, "0 %"), (0.0043, "0.430 %"), (0.882, "88.2 %"), (0.9996, "100 %")]
)
def test_shares_are_per_cent(ratio: float, text: str) -> None:
    assert units.share(ratio) == text


def test_sizes_values_and_counts() -> None:
    assert (units.size(512), units.size(41_200_000)) == ("512 B", "41.2 MB")
    assert (units.value(2.5), units.value(12345.6), units.value(3e12)) == (
        "2.50",
        "12,346",
        "3.00e+12",
    )
    assert units.count(1234567) == "1,234,567"


@given(st.floats(1e-3, 999.4))
def test_three_digits_are_near_and_three(number: float) -> None:
    text = units.three_digits(number)
    assert float(text) == pytest.approx(number, rel=0.006, abs=5e-7)
    assert len(text.replace(".", "").lstrip("0")) in (2, 3, 4)


@given(st.text())
def test_printable_text_cannot_steer_a_terminal(text: str) -> None:
    shown = units.printable(text)
    assert "\x1b" not in shown and "\n" not in shown and "\u202e" not in shown
    assert all(letter.isprintable() or letter.isspace() for letter in shown)
