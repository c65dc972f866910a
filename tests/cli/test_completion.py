"""What a real bash offers."""

from __future__ import annotations

import subprocess

import pytest

from pilotlight.cli.completion import script
from pilotlight.cli.main import VERBS

_OFFER = """
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_pilotlight
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(*words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", script() + _OFFER, "bash", "pilotlight", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_all_verbs_are_offered_first() -> None:
    assert offered("") == list(VERBS)
    assert offered("ro") == ["roofline"]


@pytest.mark.parametrize(
    "words, expected",
    [
        (("export", "--form"), ["--format"]),
        (("export", "r", "--format", "p"), ["perfetto", "pprof"]),
        (("token", "re"), ["revoke"]),
        (("doctor", "--js"), ["--json"]),
        (("--v",), ["--version"]),
    ],
)
def test_options_and_values_are_those_of_the_verb(
    words: tuple[str, ...], expected: list[str]
) -> None:
    assert offered(*words) == expected


def test_where_a_file_belongs_the_shell_offers_files() -> None:
    assert offered("analyze", "") == []
    assert "complete -o default" in script()


def test_another_verbs_words_are_not_offered() -> None:
    assert "--steps" in offered("capture", "--")
    assert "--steps" not in offered("doctor", "--")
