"""What adapters told, on the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from pilotlight.report.framework_tables import print_frameworks
from pilotlight.report.frameworks import Frameworks, SpanTimes


def shown(facts: dict[int, dict[str, object]], loaders: int = 0) -> list[str]:
    out = io.StringIO()
    work = tuple(SpanTimes(process, "loader.fetch", 25, 10**9, 10**8) for process in range(loaders))
    told = Frameworks((), work, (), (), (), (), facts)
    print_frameworks(told, lambda process: f"rank {process}", Console(file=out, width=100))
    return [line.strip() for line in out.getvalue().splitlines() if line.strip()]


def test_a_fact_on_which_all_that_tell_it_agree_is_said_once() -> None:
    # A worker that ended within a second has told its version only.
    facts = {0: {"version": "2.13", "threads": 4}, 1: {"version": "2.13"}, 2: {"threads": 4}}
    assert shown(facts) == ["About the job", "version: 2.13", "threads: 4"]


def test_a_fact_that_differs_is_said_of_each() -> None:
    assert shown({0: {"tf32": True}, 1: {"tf32": False}}) == [
        "About the job",
        "rank 0: tf32: True",
        "rank 1: tf32: False",
    ]


def test_how_many_loaders_are_left_out_is_said() -> None:
    title, *lines = shown({}, loaders=7)
    assert title == "Loading, compiling, waiting for devices"
    assert lines[0] == "rank 0: loader.fetch, 25 times, 1.00 s"
    assert lines[-1] == "and 3 more like it, see --json" and len(lines) == 5


def test_a_long_name_hides_no_number() -> None:
    out = io.StringIO()
    module = SpanTimes(0, "model.layers.0." * 30, 7, 7_000_000, 1_000_000)
    told = Frameworks((module,), (), (), (), (), (), {})
    print_frameworks(told, lambda process: f"rank {process}", Console(file=out, width=80))
    assert "…  rank 0      7  7.00 ms  1.00 ms" in out.getvalue()


def test_nothing_told_is_nothing_said() -> None:
    assert shown({}) == []
