"""Rules of other packages: a real small one on the path, with its metadata as pip leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.insights.telling import simulated

from pilotlight.trace.kineto_writer import write_kineto

RULE = """
from pilotlight.insights.finding import Finding, Rule, Verdict

def check(job):
    finding = Finding("X01", "short", "Few steps", job.ranks[0].rank, "steps",
                      (f"{job.step_count} steps",), "trace more", 0.1, 0.2, "low")
    return Verdict((finding,))

def fail(job):
    raise ValueError("no luck")

rule = Rule("X01", "short", check, explains=("A25",))
failing = Rule("X02", "failing", fail)
other = "text"
"""
ENTRIES = """[pilotlight.insights]
short = few_steps:rule
failing = few_steps:failing
other = few_steps:other
absent = no_such_module:rule
"""


def test_rules_of_a_package_are_used_and_broken_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "few_steps.py").write_text(RULE)
    metadata = tmp_path / "few_steps-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: few-steps\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    write_kineto(simulated(ranks=1)[0], tmp_path / "rank0.json")
    result = subprocess.run(
        [sys.executable, "-m", "pilotlight", "analyze", tmp_path / "rank0.json", "--json"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert "X01" in {finding["rule"] for finding in found["findings"]}
    missing = {row["rule"]: row["missing"] for row in found["not_checked"]}
    assert "ValueError: no luck" in missing["X02"]
    assert "no Rule" in missing["other"]
    assert "No module named" in missing["absent"]
