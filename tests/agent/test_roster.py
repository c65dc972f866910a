from __future__ import annotations

from pathlib import Path

from pilotlight.agent.roster import Roster
from pilotlight.recording.processes import ProcessEnd, ProcessStart, read_processes


def start(segment: str) -> ProcessStart:
    return ProcessStart(0, 1, 2, segment, 3, 4, (1, 0), {"rank": 0})


def test_processes_are_numbered_and_a_known_segment_keeps_its_number(tmp_path: Path) -> None:
    roster = Roster(tmp_path)
    assert [roster.start(start(segment)) for segment in "aba"] == [0, 1, 0]
    assert roster.count == 2


def test_a_next_agent_goes_on_with_those_that_have_not_ended(tmp_path: Path) -> None:
    roster = Roster(tmp_path)
    for segment in "abc":
        roster.start(start(segment))
    roster.end("b", ProcessEnd(1, "died", 9))
    with (tmp_path / "processes.jsonl").open("a") as stream:
        stream.write('{"process": 3, "event": "sta')
    after = Roster(tmp_path)
    assert [process.segment for process in after.running] == ["a", "c"]
    assert after.start(start("c")) == 2
    assert after.start(start("d")) == 3
    processes, _ = read_processes(tmp_path)
    assert [process.start.segment for process in processes] == ["a", "b", "c", "d"]


def test_lines_that_the_disk_does_not_take_are_written_later_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    roster = Roster(folder)
    roster.start(start("a"))
    roster.end("a", ProcessEnd(0, "exit", 9))
    folder.mkdir()
    roster.retry()
    ((process,), warnings) = read_processes(folder)
    assert process.end is not None and process.end.how == "exit" and warnings == []


def test_after_the_folder_was_removed_the_running_ones_are_written_again(tmp_path: Path) -> None:
    roster = Roster(tmp_path)
    for segment in "ab":
        roster.start(start(segment))
    roster.end("a", ProcessEnd(0, "exit", 9))
    (tmp_path / "processes.jsonl").unlink()
    roster.rewrite()
    roster.retry()
    ((process,), _) = read_processes(tmp_path)
    assert process.start.segment == "b"
