"""What the documentation says of tests is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = {
    page: found
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if (found := re.findall(r"`(tests/[a-z0-9_/]+\.py)::([a-z0-9_]+)`", page.read_text()))
}


def test_the_pages_about_faults_name_tests() -> None:
    assert {"faults.md", "gpu.md", "operations.md", "security.md"} <= {page.name for page in NAMED}


@pytest.mark.parametrize("page", NAMED, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED[page]
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text()
    ]
    assert not missing
