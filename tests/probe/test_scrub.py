"""Commands without their secrets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.probe.scrub import without_secrets

SECRET = "hunter2hunter2"
SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    "command",
    [
        ["--api-key=hunter2hunter2", "--password", SECRET],
        ["--wandb_key", SECRET, "--auth=hunter2hunter2", "--pw", SECRET],
        ["-e", "WANDB_API_KEY=hunter2hunter2"],
        ["HF_TOKEN=hunter2hunter2", "env", "aws.secret_access_key=hunter2hunter2"],
        ["--db", "postgres://ann:hunter2hunter2@db/metrics", "https://hunter2hunter2@git/x"],
        ["--url", "https://host/data?part=1&token=hunter2hunter2&x=2"],
        ["--url", "https://host/data?part=1;sig=1&access_key=hunter2hunter2"],
        ["-H", "Authorization: Bearer hunter2hunter2"],
        ["-H", "authorization: basic hunter2hunter2"],
        ["--config", '{"lr": 1, "password": "hunter2hunter2", "x": 2}'],
        ["--config", "{'api_key': 'hunter2hunter2 hunter2hunter2'}"],
        ["--override", "lr=1,db.password=hunter2hunter2,steps=3"],
        ["-c", "import os; os.environ['HF_TOKEN'] = 'hunter2hunter2'; import train"],
        ["-c", 'login(token="hunter2hunter2")'],
        ["hf_hunter2hunter2abc", "--x", "ghp_hunter2hunter2abc", "sk-hunter2hunter2-abc"],
        ["x=AKIAhunter2hunter2", "plk_0011_hunter2hunter2", "eyJhunter2hunter2.hunter2hunter2.c"],
        ["--password=hunter2hunter2 with spaces, commas hunter2hunter2"],
        ["a" * 250 + " token=hunter2hunter2"],
        ["--PassPhrase", SECRET, "--private-key=hunter2hunter2"],
    ],
)
def test_no_secret_is_shown(command: list[str]) -> None:
    shown = without_secrets(["python", "train.py", *command, "--lr=3"])
    assert "hunter2" not in " ".join(shown)
    assert "***" in " ".join(shown) or len(shown[2]) == 256
    assert shown[:2] == ["python", "train.py"] and shown[-1] == "--lr=3"


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "train", "--lr=3", "--data", "s3://bucket/path", "--epochs", "4"],
        ["--tokenizer", "gpt2", "--tokenizer-path=/data/tok", "--author", "ann"],
        ["https://host:8080/x?y=1", "--keep", "3", "--monkey=4", "desk-lamp-and-more"],
    ],
)
def test_what_is_no_secret_stays(command: list[str]) -> None:
    assert without_secrets(command) == command


def test_a_long_command_is_cut() -> None:
    shown = without_secrets(["a" * 10_000] * 1000)
    assert len(shown) == 25 and max(map(len, shown)) == 256


@given(st.lists(st.text(max_size=300), max_size=30))
def test_any_command_is_shown_within_bounds(command: list[str]) -> None:
    shown = without_secrets(command)
    assert len(shown) <= 25 and all(len(one) <= 300 for one in shown)


def test_an_ordinary_command_costs_no_import() -> None:
    code = "import sys; sys.modules.pop('re', None)\n"
    code += "from pilotlight.probe.scrub import without_secrets\n"
    code += "without_secrets(['python', 'train.py', '--lr=3'])\nassert 're' not in sys.modules"
    assert subprocess.run([sys.executable, "-S", "-c", code], cwd=SOURCE).returncode == 0
