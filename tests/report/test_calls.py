from __future__ import annotations

from pathlib import Path

from example import Process, write_example

from pilotlight.recording.recording import Recording
from pilotlight.report.calls import Call, call_tree
from pilotlight.report.coverage import coverage_of
from pilotlight.report.flame import flame_of

MS = 1_000_000


def tree(folder: Path, times: dict[tuple[str, ...], int]) -> list[Call]:
    process = Process(0)
    process.add("threads", 7, process.name("MainThread"))
    for place, (path, milliseconds) in enumerate(times.items()):
        stack = process.stack(*path)
        process.add("samples", 7, stack, 1, 0, 10_000 + place, milliseconds * MS)
    recording = Recording.open(write_example(folder, process))
    flame = flame_of(recording, coverage_of(recording))
    return call_tree(flame, frozenset({"MainThread"}), frozenset())


def test_callers_come_first_and_what_only_passes_on_shares_a_line(tmp_path: Path) -> None:
    calls = tree(
        tmp_path,
        {
            ("<module>", "main", "train", "forward", "matmul"): 500,
            ("<module>", "main", "train", "forward"): 10,
            ("<module>", "main", "train", "load"): 300,
            ("<module>", "main", "train", "log"): 20,
            ("<module>", "main", "save"): 170,
        },
    )
    assert [(call.depth, call.functions, call.total_ns // MS) for call in calls] == [
        (0, ("<module>", "main"), 1000),
        (1, ("train",), 830),
        (2, ("forward", "matmul"), 500),
        (2, ("load",), 300),
        (1, ("save",), 170),
    ]
    assert [call.self_ns // MS for call in calls] == [0, 0, 500, 300, 170]


def test_a_program_of_one_line_of_calls_has_no_tree(tmp_path: Path) -> None:
    assert tree(tmp_path, {("<module>", "main", "train"): 500}) == []


def test_a_tree_stays_short_however_wide_and_deep_it_is(tmp_path: Path) -> None:
    times = {("<module>", f"f{a}", f"g{b}", *(["h"] * 200)): 10 for a in range(8) for b in range(2)}
    assert 3 < len(tree(tmp_path, times)) <= 24
