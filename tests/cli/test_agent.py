from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pilotlight.cli.agent import Agent, parse_bytes
from pilotlight.cli.main import command_of
from pilotlight.errors import UsageError


def test_the_verb_is_known() -> None:
    assert isinstance(command_of("agent"), Agent)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("256MB", 256 << 20), ("1.5g", 3 << 29), ("2 GiB", 2 << 30), ("8k", 8192)],
)
def test_sizes_are_read_as_people_write_them(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "many", "-1MB", "1TB", "1e9", "0x10"])
def test_what_is_no_size_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("budget", ["1kB", "lots"])
def test_a_budget_that_makes_no_sense_is_refused(budget: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pilotlight", "agent", "--budget", budget],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("pilotlight agent: ") and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_agent_says_where_it_listens_and_goes_when_told(world: Path, number: int) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-m", "pilotlight", "agent", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stdout is not None
    said = json.loads(agent.stdout.readline())
    assert said == {"pid": agent.pid, "folder": os.environ["PILOTLIGHT_RUNTIME_DIR"]}
    assert sorted(path.name for path in (world / "run").iterdir()) == [
        "agent.lock",
        "client.sock",
        "errand.sock",
        "kineto",
        "probe.sock",
    ]
    agent.send_signal(number)
    rest, errors = agent.communicate(timeout=20)
    assert (agent.returncode, rest, errors) == (0, "", "")
    assert list((world / "run").iterdir()) == []
