"""The text of a request: by steps or by time, with the options asked for."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from pilotlight.errors import UsageError
from pilotlight.kineto.config import Options, Span, Steps, file_of, trace_configuration

FILE = PurePath("/tmp/x/rank0.json")


def keys(text: str) -> dict[str, str]:
    assert text.endswith("\n")
    return dict(line.split("=") for line in text.splitlines())


def test_steps_are_asked_for_by_their_number() -> None:
    found = keys(trace_configuration(FILE, Steps(501, 3), Options(), "7"))
    # Kineto counts from 0 and begins where the step with this number ended.
    assert found["PROFILE_START_ITERATION"] == "500"
    assert found["ACTIVITIES_ITERATIONS"] == "3"
    assert found["REQUEST_TRACE_ID"] == "7"
    assert "PROFILE_START_TIME" not in found


def test_a_time_is_asked_for_on_the_wall_clock() -> None:
    found = keys(trace_configuration(FILE, Span(1_700_000_000_000, 250), Options(), "7"))
    assert found["PROFILE_START_TIME"] == "1700000000000"
    assert found["ACTIVITIES_DURATION_MSECS"] == "250"
    assert "PROFILE_START_ITERATION" not in found


def test_options_are_passed_on() -> None:
    found = keys(trace_configuration(FILE, Steps(5, 1), Options(True, False, True), "7"))
    assert found["PROFILE_WITH_STACK"] == "true"
    assert found["PROFILE_REPORT_INPUT_SHAPES"] == "false"
    assert found["PROFILE_PROFILE_MEMORY"] == "true"


@pytest.mark.parametrize("name", ["a=b.json", "a#b.json", "a\nPROFILE_MEMORY=1.json"])
def test_a_path_that_would_break_the_text_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        trace_configuration(PurePath("/tmp") / name, Steps(5, 1), Options(), "7")


def test_the_file_carries_the_pid() -> None:
    assert file_of(FILE, 42) == PurePath("/tmp/x/rank0_42.json")
