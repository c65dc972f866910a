from __future__ import annotations

import re
from pathlib import Path

from pilotlight.analysis import TABLES
from pilotlight.insights.catalogue import RULES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "insights" / "coverage.md").read_text()


def test_every_rule_and_table_is_listed() -> None:
    listed = re.findall(r"^\| (A\d\d\w?) \| (\w+) \|", PAGE, re.MULTILINE)
    assert listed == [(rule.identity, rule.cause) for rule in RULES]
    assert not [name for name in TABLES if name != "findings" and f"`{name}`" not in PAGE]


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 60
    texts = {file: (ROOT / file).read_text() for file, _ in named}
    assert not [name for file, name in named if f"def {name}(" not in texts[file]]
