from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.ship.frame import frame_text, split_line, with_line


def test_a_frame_says_function_file_and_line() -> None:
    assert frame_text("Net.forward", "/home/me/net/model.py", 42) == "Net.forward (net/model.py:42)"
    assert frame_text("run", "train.py", 0) == "run (train.py)"


@given(st.text(min_size=1), st.integers(1, 10**9 - 1))
def test_a_line_is_split_off_and_put_back(function: str, line: int) -> None:
    lined = frame_text(function, "a/b.py", line)
    assert split_line(lined) == (frame_text(function, "a/b.py", 0), line)
    assert with_line(*split_line(lined)) == lined


@pytest.mark.parametrize(
    "name", ["f (a.py)", "(other)", "kernel<(int)4>(float*, T::x)", "", "k(a:12)", "<frozen x>:3"]
)
def test_what_has_no_line_stays_as_it_is(name: str) -> None:
    assert split_line(name) == (name, 0)
