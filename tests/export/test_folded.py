from __future__ import annotations

import io
from pathlib import Path

from example import write_head
from job import write_job

from pilotlight.export.folded import write_folded
from pilotlight.recording.recording import Recording


def lines(folder: Path) -> list[str]:
    out = io.BytesIO()
    write_folded(Recording.open(folder), out)
    return out.getvalue().decode().splitlines()


def test_a_line_holds_a_stack_and_its_microseconds(tmp_path: Path) -> None:
    assert lines(write_job(tmp_path)) == [
        'rank 0;MainThread;main;a:b "c" </script> é 1',
        "rank 0;MainThread;main;forward 1",
        "rank 0;loader;read 0",
        'rank 1;MainThread;main;a:b "c" </script> é 1',
        "rank 1;MainThread;main;forward 1",
        "rank 1;loader;read 0",
    ]


def test_an_empty_recording_gives_no_line(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    assert lines(tmp_path) == []
