from __future__ import annotations

from pathlib import Path

import numpy as np
from example import Process, write_chunk, write_example, write_head

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import WINDOW_NS, WindowKind
from pilotlight.report.coverage import coverage_of
from pilotlight.report.flame import Flame, flame_of, function_times
from pilotlight.report.report import report_of

MS = 1_000_000


def sample(process: Process, stack: int, weight_ms: int, thread: int = 7, state: int = 1) -> None:
    at = 10_000 + MS * len(process.tables.get("samples", []))
    process.add("samples", thread, stack, state, 0, at, weight_ms * MS)


def flame(folder: Path, *processes: Process) -> Flame:
    recording = Recording.open(write_example(folder, *processes))
    return flame_of(recording, coverage_of(recording))


def times_by_path(found: Flame) -> dict[tuple[str, ...], tuple[int, int]]:
    self_ns = found.self_ns(np.ones(found.entry_node.size, bool))
    total_ns = found.total_ns(self_ns)
    paths: list[tuple[str, ...]] = [()]
    for node in range(1, found.parents.size):
        name = found.functions[int(found.function_of[node])].name
        paths.append((*paths[int(found.parents[node])], name))
    return {
        path: (int(self_ns[node]) // MS, int(total_ns[node]) // MS)
        for node, path in enumerate(paths)
        if total_ns[node]
    }


def test_self_and_total_over_processes_and_lines(tmp_path: Path) -> None:
    first, second = Process(0), Process(1)
    sample(first, first.stack("main", "forward", line=10), 10)
    sample(first, first.stack("main", "forward", line=11), 20)
    sample(first, first.stack("main"), 5)
    sample(second, second.stack("main", "forward", line=12), 40)
    assert times_by_path(flame(tmp_path, first, second)) == {
        (): (0, 75),
        ("main",): (5, 75),
        ("main", "forward"): (70, 70),
    }


def test_functions_of_one_name_in_two_files_stay_apart(tmp_path: Path) -> None:
    process = Process(0)
    sample(process, process.stack("run", file="a.py"), 1)
    sample(process, process.stack("run", file="b.py"), 2)
    found = function_times(flame(tmp_path, process), frozenset(["thread 7"]))
    assert [(row.function, row.file, row.self_ns) for row in found] == [
        ("run", "b.py", 2 * MS),
        ("run", "a.py", MS),
    ]


def test_a_recursive_function_counts_its_total_once(tmp_path: Path) -> None:
    process = Process(0)
    sample(process, process.stack("f", "g", "f", "f"), 10)
    sample(process, process.stack("f", "g"), 1)
    found = {
        row.function: row
        for row in function_times(flame(tmp_path, process), frozenset(["thread 7"]))
    }
    assert (found["f"].self_ns, found["f"].total_ns) == (10 * MS, 11 * MS)
    assert (found["g"].self_ns, found["g"].total_ns) == (MS, 11 * MS)


def test_functions_are_those_of_the_threads_asked_for(tmp_path: Path) -> None:
    process = Process(0)
    process.add("threads", 7, process.name("MainThread"))
    sample(process, process.stack("train"), 10, state=1)
    sample(process, process.stack("train"), 5, state=2)
    sample(process, process.stack("wait"), 500, thread=8, state=2)
    (train,) = function_times(flame(tmp_path, process), frozenset(["MainThread"]))
    assert (train.function, train.self_ns, train.running_ns) == ("train", 15 * MS, 10 * MS)
    assert train.samples == 2


def test_threads_of_one_name_are_one(tmp_path: Path) -> None:
    first, second = Process(0), Process(1)
    for process, thread in ((first, 7), (second, 9)):
        process.add("threads", thread, process.name("loader"))
        sample(process, process.stack("read"), 3, thread=thread)
    found = flame(tmp_path, first, second)
    assert [found.threads[number] for number in found.entry_thread.tolist()] == ["loader"] * 2
    assert found.entry_process.tolist() == [0, 1]


def test_the_main_thread_before_the_detail_is_known_by_where_it_begins(tmp_path: Path) -> None:
    """Ten of eleven windows are sums: a long job is told by all of them, not by its last minute."""
    process = Process(0)
    train = process.stack("<module>", "train")
    loader = process.stack("Thread._bootstrap", "load", file="threading.py")
    process.add("threads", 7, process.name("MainThread"))
    end_ns = 11 * WINDOW_NS
    process.add("samples", 7, train, 1, 0, end_ns - 5, 10 * MS)
    write_head(tmp_path, first_chunk=2, last_chunk=2)
    known = {name: process.tables[name] for name in ("frames", "stacks")}
    sums = [
        (0, number * WINDOW_NS, WindowKind.SAMPLE, 1, stack, 100, 1000 * MS, 10 * MS, 10 * MS)
        for number in range(11)
        for stack in (train, loader)
    ]
    write_chunk(tmp_path / "windows", {**known, "windows": sums})
    write_chunk(tmp_path / "detail" / "000002", process.tables)
    report = report_of(Recording.open(tmp_path))
    assert report.functions_of_threads == ("MainThread",)
    by_name = {one.function: one.total_ns for one in report.functions}
    assert by_name["train"] == by_name["<module>"] == 11 * 1000 * MS
    assert "load" not in by_name
