from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from example import write_head
from job import EVIL, write_job

from pilotlight.export.speedscope import SCHEMA, write_speedscope
from pilotlight.recording.recording import Recording


def profile(folder: Path) -> dict[str, Any]:
    out = io.BytesIO()
    write_speedscope(Recording.open(folder), out)
    read: dict[str, Any] = json.loads(out.getvalue())
    return read


def test_every_thread_is_a_sampled_profile(tmp_path: Path) -> None:
    file = profile(write_job(tmp_path))
    assert file["$schema"] == SCHEMA
    assert [one["name"] for one in file["profiles"]] == [
        *("rank 0 MainThread", "rank 0 loader", "rank 1 MainThread", "rank 1 loader")
    ]
    for one in file["profiles"][::2]:
        assert (one["type"], one["unit"], one["startValue"]) == ("sampled", "nanoseconds", 0)
        assert len(one["samples"]) == len(one["weights"]) == 6
        assert one["endValue"] == sum(one["weights"]) == 3_000


def test_samples_are_paths_of_frames_from_the_outermost(tmp_path: Path) -> None:
    file = profile(write_job(tmp_path))
    frames = file["shared"]["frames"]
    paths = [[frames[n]["name"] for n in one] for one in file["profiles"][0]["samples"]]
    assert paths[:2] == [["main", "forward"], ["main", EVIL]]
    assert frames[file["profiles"][0]["samples"][0][0]] == {
        "name": "main",
        "file": "train.py",
        "line": 10,
    }


def test_an_empty_recording_has_no_profiles(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    assert profile(tmp_path)["profiles"] == []
