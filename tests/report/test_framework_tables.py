"""What adapters told, on the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from pilotlight.report.framework_tables import print_frameworks
from pilotlight.report.frameworks import Frameworks


def shown(facts: dict[int, dict[str, object]]) -> list[str]:
    out = io.StringIO()
    told = Frameworks((), (), (), (), (), (), facts)
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


def test_nothing_told_is_nothing_said() -> None:
    assert shown({}) == []
