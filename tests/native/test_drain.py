"""native/drain's arithmetic, tested in C++ (native/tests/drain_test.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_ticks_and_sums_are_what_they_are_documented_to_be(
    program: Callable[[str, str], Path], run: Callable[..., Any]
) -> None:
    done = run(program("drain_test", "g++"))
    assert done.returncode == 0, done.stderr
    assert "ticks_of_now_and_of_long_ago_lie_on_the_same_clock" in done.stdout.splitlines()
