from __future__ import annotations

import io
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from example import write_head
from job import EVIL, write_job

from pilotlight.export.chrome import write_chrome
from pilotlight.recording.recording import Recording


def trace(folder: Path) -> list[dict[str, Any]]:
    out = io.BytesIO()
    write_chrome(Recording.open(folder), out)
    events: list[dict[str, Any]] = json.loads(out.getvalue(), parse_float=Decimal)["traceEvents"]
    return events


def slices_by_track(events: list[dict[str, Any]]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    titles = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], titles[event["pid"], event["tid"]]].append(event)
    return tracks


def test_processes_are_named_by_rank(tmp_path: Path) -> None:
    events = trace(write_job(tmp_path))
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {100: "rank 0", 101: "rank 1"}


def test_ranges_keep_their_times_to_the_nanosecond(tmp_path: Path) -> None:
    tracks = slices_by_track(trace(write_job(tmp_path)))
    found = [(e["name"], e["ts"], e["dur"]) for e in tracks[100, "MainThread"]]
    assert found[:2] == [
        ("forward", Decimal("10.000"), Decimal("0.600")),
        (EVIL, Decimal("10.100"), Decimal("0.200")),
    ]
    assert ("open (never closed)", Decimal("12.700"), Decimal("0.100")) in found


def test_a_range_that_overlaps_has_a_track_of_its_own(tmp_path: Path) -> None:
    tracks = slices_by_track(trace(write_job(tmp_path)))
    assert [e["name"] for e in tracks[100, "MainThread (2)"]] == ["overlap"]


def test_steps_collections_and_losses_have_tracks(tmp_path: Path) -> None:
    tracks = slices_by_track(trace(write_job(tmp_path)))
    assert [e["name"] for e in tracks[101, "steps"]] == ["step 0", "step 1", "step 2"]
    assert [e["dur"] for e in tracks[101, "garbage collection"]] == [Decimal("0.050")]
    assert [e["name"] for e in tracks[101, "lost records"]] == ["9 records lost: the ring was full"]


def test_counters_and_marks_are_events(tmp_path: Path) -> None:
    events = [event for event in trace(write_job(tmp_path)) if event["pid"] == 100]
    values = [event["args"]["value"] for event in events if event["ph"] == "C"]
    assert values == [Decimal("0.5"), Decimal("-0.5"), Decimal("-1.5")]
    marks = [(event["name"], event["args"]["value"]) for event in events if event["ph"] == "i"]
    assert marks == [("epoch", -4), ("exit", 0)]


def test_samples_are_slices_of_their_own_track(tmp_path: Path) -> None:
    tracks = slices_by_track(trace(write_job(tmp_path)))
    names = [event["name"] for event in tracks[100, "MainThread (sampled)"]]
    assert names[:3] == ["main", "forward", EVIL]


def test_ids_fit_in_32_bits_and_are_of_one_track(tmp_path: Path) -> None:
    events = trace(write_job(tmp_path))
    titles = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert len(titles) == len(set(titles))
    assert max(tid for _, tid in titles) < 2**31


def test_an_empty_recording_gives_an_empty_trace(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    assert trace(tmp_path) == []
