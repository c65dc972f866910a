from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from pilotlight.agent.checkup import AGAIN_NS, FIRST_NS, Check, Checkup, checks_of

LONGEST_S = 60.0


def printing(text: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", f"print({text!r}); raise SystemExit(1)")


def taken(checkup: Checkup) -> list[Check]:
    deadline = time.monotonic() + LONGEST_S
    while (found := checkup.take()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_the_doctor_is_asked_a_while_after_the_start_and_told_once() -> None:
    check = {"what": "clock", "state": "limited", "detail": "hpet", "fix": "reboot"}
    checkup = Checkup(0, printing(json.dumps({"checks": [check]})))
    checkup.tick(FIRST_NS - 1)
    assert checkup.take() is None
    checkup.tick(FIRST_NS)
    assert taken(checkup) == [check]
    checkup.tick(FIRST_NS + AGAIN_NS - 1)
    assert checkup.take() is None
    checkup.tick(FIRST_NS + AGAIN_NS)
    assert taken(checkup) == [check]


@pytest.mark.parametrize("output", ["", "no JSON", "[]", '{"checks": [{"state": "fine"}]}'])
def test_a_doctor_that_says_something_else_is_said_to(output: str) -> None:
    checkup = Checkup(0, printing(output))
    checkup.tick(FIRST_NS)
    (check,) = taken(checkup)
    assert (check["what"], check["state"]) == ("doctor", "limited")
    assert check["detail"].startswith("it did not answer")


def test_a_doctor_that_is_not_there_is_said_to() -> None:
    checkup = Checkup(0, ("/nothing/of/this/name",))
    checkup.tick(FIRST_NS)
    assert taken(checkup)[0]["state"] == "limited"


def test_what_is_told_is_bounded() -> None:
    rows = [{"what": "x" * 999, "state": "ok", "detail": "y" * 9999, "fix": ""}] * 500
    found = checks_of(json.dumps({"checks": rows}).encode())
    assert len(found) == 64
    assert all(len(check["what"]) == 200 and len(check["detail"]) == 500 for check in found)


def test_the_doctor_does_not_outlive_the_agent(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    program = (
        f"import os, time; open({str(said)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(100)"
    )
    checkup = Checkup(0, (sys.executable, "-S", "-c", program))
    checkup.tick(FIRST_NS)
    deadline = time.monotonic() + LONGEST_S
    while not (said.exists() and said.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    checkup.close()
    assert taken(checkup)[0]["state"] == "limited"
    assert not Path(f"/proc/{int(said.read_text())}").exists()


def test_what_the_agent_set_for_itself_is_no_word_about_the_node() -> None:
    rows = [
        {"what": "environment", "state": "limited", "detail": "PILOTLIGHT=0: the probe is off"},
        {"what": "clock", "state": "ok", "detail": "tsc", "fix": ""},
    ]
    found = checks_of(json.dumps({"checks": rows}).encode())
    assert [check["what"] for check in found] == ["clock"]
