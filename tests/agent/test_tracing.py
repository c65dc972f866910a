"""Full traces that the collector asks for: what the process that takes them is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from pilotlight.agent import tracing
from pilotlight.capture.agree import RankSteps
from pilotlight.capture.manifest import Captured, CaptureManifest
from pilotlight.capture.request import Answered, CaptureRequest


def add(place: Path, detail: Sequence[str], told: list[object]) -> list[RankSteps]:
    return tracing.add_traces(place, "job", [3], 2, detail, lambda _: None, told.append)


def test_how_far_ranks_are_and_what_became_of_each_reaches_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profiler that is done may have written nothing."""
    process = {
        "pid": 1, "world_size": 2, "role": "rank", "how": "kineto", "file": None, "steps": 5,
        "start_ns": None, "stacks": None, "flight_recorder": None,
    }  # fmt: skip
    done = {**process, "rank": 0, "state": "done", "reason": None}
    hung = {**process, "rank": 1, "state": "failed", "reason": "it has not polled for 19 s"}
    manifest = CaptureManifest(
        job="job",
        created_ns=1,
        request=CaptureRequest("job", None),
        first_step=None,
        processes=tuple(Captured(Answered.from_json(one), "n", None) for one in (done, hung)),
        skew_ns=None,
        same_steps=None,
        problems=(),
    )
    asked = {"rank": 0, "state": "asked", "why": ""}
    lines = [json.dumps({"progress": [asked]})] * 2 + [json.dumps(json.loads(manifest.to_json()))]
    script = f"import sys; sys.stdout.write({chr(10).join(lines)!r})"
    monkeypatch.setattr(tracing, "_CAPTURE", [sys.executable, "-c", script])
    told: list[object] = []
    assert add(tmp_path, [], told) == []
    assert told == [
        [asked],
        [
            {"rank": 0, "state": "failed", "why": "its trace has nothing in it"},
            {"rank": 1, "state": "failed", "why": "it has not polled for 19 s"},
        ],
    ]


def test_what_traces_shall_hold_besides_reaches_the_process_that_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def run(
        words: Sequence[str], said: IO[str], agree: tracing.Agree, tell: tracing.Tell
    ) -> tuple[int, str]:
        told.extend(words)
        return 1, ""

    monkeypatch.setattr(tracing, "_run", run)
    assert add(tmp_path, ["shapes"], []) == []
    assert "--shapes" in told and "--stacks" not in told
    assert told[told.index("--steps") + 1] == "2" and told[-2:] == ["--", "job"]
    assert (tmp_path / tracing.TRACE_PROBLEM).read_text() == "some ranks are missing\n"
