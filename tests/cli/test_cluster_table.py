"""Tables of the verbs that ask a collector: no part of a row is left out, however narrow."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from pilotlight.cli import query
from pilotlight.cli.query import Query

EVIDENCE = "2 of 20 steps, the longest 457 ms against 68.0 ms; " * 4
ANSWER = {
    "columns": ["job", "rule", "severity", "count()", "evidence"],
    "rows": [["nightly", "A34", "warning", 1, EVIDENCE]],
    "is_cut": False,
}


class _Asked:
    is_partial = False

    def __init__(self, args: Namespace) -> None:
        pass

    def post(self, path: str, content: object) -> Any:
        return ANSWER


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(query, "Asking", _Asked)

    def ask() -> str:
        Query().run(Namespace(sql="SELECT", limit=10, json=False))
        return capsys.readouterr().out

    return ask


def test_on_a_narrow_terminal_every_cell_is_whole(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    lines = said().splitlines()
    assert max(map(len, lines)) <= 72
    assert lines[1].split()[:4] == ["nightly", "A34", "warning", "1"]
    told = "".join(line[lines[0].index("evidence") :].strip() for line in lines[1:])
    assert told.replace(" ", "") == EVIDENCE.replace(" ", "")


def test_a_file_has_a_line_a_row(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    title, row = said().splitlines()
    assert row.rstrip().endswith(EVIDENCE.strip())
    assert row.index("warning") == title.index("severity")
