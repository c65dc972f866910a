"""What the documentation says of tests is true."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pilotlight.simulate.fault import FAULTS, TWINS
from pilotlight.simulate.hang import HANG_FAULTS
from pilotlight.simulate.job import JobShape

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


def test_every_setting_of_a_simulated_job_is_described_with_its_default() -> None:
    page = (ROOT / "docs/simulate.md").read_text()
    for field in dataclasses.fields(JobShape):
        default = f"{field.default:g}" if field.type in ("int", "float") else str(field.default)
        default = default.lower() if field.type == "bool" else default
        assert f"\n| `{field.name}` | {default} |" in page


def test_every_fault_of_a_simulated_job_is_described() -> None:
    page = (ROOT / "docs/simulate.md").read_text()
    assert [kind for kind in (*FAULTS, *HANG_FAULTS) if f"\n| `{kind}` | " not in page] == []
    assert [kind for kind in TWINS if f"`{kind}` (" not in page] == []
