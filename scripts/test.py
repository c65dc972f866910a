"""All tests by three workers; the few that fail, once more with nothing beside them.

The tests start agents, jobs, compilers and browsers on the cores that they run on, and wait for
them a third of the time: hence one worker more than the two cores of a small machine. One that
passes alone is named as unsteady and does not fail the whole. Tests of memory orders and hostile
segments get no second chance: what they find may show itself seldom.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

MOST_AGAIN = 5
NEVER_AGAIN = "tests/native/"


def pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments]).returncode


def failed(report: Path) -> list[str]:
    """The names of tests that failed, as pytest takes them."""
    cases = xml.parse(report).getroot().iter("testcase")
    return [
        f"{case.get('file')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pl-tests-") as folder:
        report = Path(folder, "report.xml")
        written = (f"--junitxml={report}", "-o", "junit_family=xunit1")
        code = pytest("-n", "3", "--dist", "loadfile", "--durations", "10", *written)
        if code != 1:
            return code
        names = failed(report)
    if len(names) > MOST_AGAIN or any(name.startswith(NEVER_AGAIN) for name in names):
        return code
    print(f"{len(names)} failed; once more, alone:", *names, sep="\n  ", flush=True)
    code = pytest(*names)
    if code == 0:
        print("unsteady, passed only alone:", *names, sep="\n  ")
    return code


if __name__ == "__main__":
    sys.exit(main())
