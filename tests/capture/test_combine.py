"""The captures of several nodes as one."""

from __future__ import annotations

from pathlib import Path

from pilotlight.capture.combine import NodePart, combine
from pilotlight.capture.manifest import Captured, CaptureManifest, Step, read_capture, write_capture
from pilotlight.capture.request import DONE, Answered

HOUR_NS = 3_600_000_000_000
STEP_NS = 50_000_000
SINCE_NS = 1_800_000_000_000_000_000


def part(folder: Path, rank: int, first: int, offset_ns: int, first_step: int | None) -> NodePart:
    """A node with one rank, whose clock is that much behind."""
    answered = Answered(rank, rank, 2, "rank", "kineto", DONE, None, None, 9, None, None, None)
    steps = tuple(
        Step(number, SINCE_NS + number * STEP_NS - offset_ns, STEP_NS)
        for number in range(first, first + 4)
    )
    window_ns = (SINCE_NS - offset_ns, SINCE_NS + 10 * STEP_NS - offset_ns)
    process = Captured(answered, "?", f"rank{rank}.json.gz", 0, window_ns, 9, steps)
    place = folder / f"node{rank}" / "traces"
    place.mkdir(parents=True)
    write_capture(place, CaptureManifest("job", 1, {}, first_step, (process,)))
    return NodePart(f"node{rank}", place, offset_ns)


def test_all_traces_are_named_from_one_folder_on_one_clock(tmp_path: Path) -> None:
    parts = [part(tmp_path, 0, 5, 0, 5), part(tmp_path, 1, 5, HOUR_NS, 5)]
    manifest = combine(parts, tmp_path, True, {}, ["node2: away"])
    assert [p.file for p in manifest.processes] == [
        "node0/traces/rank0.json.gz",
        "node1/traces/rank1.json.gz",
    ]
    assert (manifest.first_step, manifest.same_steps, manifest.skew_ns) == (5, True, 0)
    assert manifest.processes[0].steps == manifest.processes[1].steps
    assert manifest.processes[1].offset_ns == HOUR_NS
    assert manifest.problems == ("node2: away",)
    write_capture(tmp_path, manifest)
    assert read_capture(tmp_path).processes == manifest.processes


def test_of_captures_by_time_the_steps_are_those_that_all_have(tmp_path: Path) -> None:
    parts = [part(tmp_path, 0, 5, 0, None), part(tmp_path, 1, 4, HOUR_NS, None)]
    manifest = combine(parts, tmp_path, None, {}, ())
    numbers = [[step.number for step in p.steps] for p in manifest.processes]
    assert numbers == [[5, 6, 7], [5, 6, 7]]
    assert manifest.same_steps is True
