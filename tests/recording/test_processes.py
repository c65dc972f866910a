from __future__ import annotations

from pathlib import Path

from pilotlight.recording.processes import (
    Process,
    ProcessEnd,
    ProcessStart,
    append_event,
    read_processes,
)

START = ProcessStart(0, 4711, 88, "9f", 812, 1789, (1, 0), {"rank": 3, "command": ["python", "x"]})
END = ProcessEnd(0, "died", 913, exit_code=-9, read=120, dropped=4, off="too slow")


def test_a_process_and_its_end_come_back(tmp_path: Path) -> None:
    append_event(tmp_path, START)
    append_event(tmp_path, END)
    assert read_processes(tmp_path) == ((Process(START, END),), [])


def test_rank_and_command_come_from_the_identity() -> None:
    process = Process(START, None)
    assert (process.rank, process.command) == (3, "python x")
    strange = Process(ProcessStart(0, 1, 1, "", 0, 0, (1, 0), {"rank": "x", "command": 3}), None)
    assert (strange.rank, strange.command) == (None, "")


def test_a_line_after_a_torn_one_stands_alone(tmp_path: Path) -> None:
    append_event(tmp_path, START)
    with (tmp_path / "processes.jsonl").open("ab") as stream:
        stream.write(b'{"process": 1, "ev')
    append_event(tmp_path, END)
    processes, warnings = read_processes(tmp_path)
    assert processes == (Process(START, END),)
    assert warnings == ["processes.jsonl: line 2: not JSON"]


def test_a_last_line_that_was_cut_is_named(tmp_path: Path) -> None:
    append_event(tmp_path, START)
    with (tmp_path / "processes.jsonl").open("ab") as stream:
        stream.write(b'{"process": 1, "ev')
    processes, warnings = read_processes(tmp_path)
    assert len(processes) == 1
    assert warnings == ["processes.jsonl: line 2: cut"]


def test_lines_of_nonsense_are_named_one_by_one(tmp_path: Path) -> None:
    lines = [
        "[]",
        '{"event": "start"}',
        '{"event": "end", "process": -1}',
        '{"event": "end", "process": 0, "how": "?", "time_ns": 1}',
        '{"event": "birth", "process": 0}',
        '{"event": "start", "process": 0, "pid": 1, "start_time": 1, "segment": "", '
        '"time_ns": 1, "realtime_ns": 1, "abi": [1]}',
    ]
    (tmp_path / "processes.jsonl").write_text("\n".join(lines) + "\n")
    processes, warnings = read_processes(tmp_path)
    assert processes == ()
    assert [warning.split(":")[1].strip() for warning in warnings] == [
        f"line {number}" for number in range(1, 7)
    ]
