from __future__ import annotations

import argparse
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pilotlight.cli.reading import ReadingBar, size_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1000", 1000), ("500M", 500 << 20), ("4G", 4 << 30), ("1.5GiB", 3 << 29), ("2kb", 2048)],
)
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "much", "-1", "1e9", "G", "1 2", "9" * 40])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size_bytes(text)


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with ReadingBar([Path("x")], quiet=False) as bar:
        bar.advance(10)
    assert capsys.readouterr().err == ""


SLOW = """
import sys, pathlib
import pilotlight.cli.reading as reading
reading.QUIET_S = float(sys.argv[1])
with reading.ReadingBar([pathlib.Path(sys.argv[2])], quiet=False) as bar:
    for _ in range(10):
        bar.advance(100)
"""


def on_a_terminal(quiet_s: float, path: Path) -> str:
    """What the program above shows on standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, str(quiet_s), str(path)],
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        shown = io.BytesIO()
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            shown.write(part)
    os.close(ours)
    assert process.returncode == 0
    return shown.getvalue().decode()


def test_a_bar_comes_only_when_reading_takes_long(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(bytes(1000))
    assert "reading" in on_a_terminal(-1, path)
    assert on_a_terminal(60, path) == ""
