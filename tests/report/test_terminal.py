from __future__ import annotations

import io
from pathlib import Path

import pytest
from example import Process, write_chunk, write_example, write_head
from rich.cells import cell_len
from rich.console import Console

from pilotlight.recording.processes import ProcessEnd, ProcessStart, append_event
from pilotlight.recording.recording import Recording
from pilotlight.report.report import report_of
from pilotlight.report.terminal import print_report, short_file

MS = 1_000_000
S = 1000 * MS


def shown(folder: Path, width: int) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    print_report(report_of(Recording.open(folder)), console)
    return out.getvalue()


def busy(folder: Path) -> Path:
    process = Process(0)
    process.add("threads", 100, process.name("MainThread"))
    for number in range(30):
        length = 400 * MS if number == 20 else 40 * MS
        process.add("steps", 100, number, (number + 1) * S, length)
        process.add("spans", 100, process.name("forward"), 1, 0, (number + 1) * S, 20 * MS)
        process.add("spans", 100, 0, 2, 0, (number + 1) * S, 2 * MS)
        process.add(
            "samples", 100, process.stack("main", "évil\x1b[31m"), 1, 0, (number + 1) * S, MS
        )
        process.add("counters", 100, process.name("loss"), (number + 1) * S, 0.5)
        process.add("sampler", (number + 1) * S, 100, 100, 0, 0, 3 * MS, 10 * MS)
    process.add("gaps", 0, 1, 5 * S, 6 * S, 321)
    return write_example(folder, process)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    text = shown(busy(tmp_path), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_the_answer_comes_first_and_every_part_follows(tmp_path: Path) -> None:
    text = shown(busy(tmp_path), 120)
    assert text.startswith("A step takes 40.0 ms (30 steps)")
    for part in ("Steps", "Where the time goes", "Ranges", "Threads", "Counters", "Processes"):
        assert f"\n{part}" in text
    assert "321 records between" in text and "the ring was full" in text
    assert "0.300 % of a core at most" in text


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    text = shown(busy(tmp_path), 120)
    assert "\x1b" not in text
    assert "évil\\u001b[31m" in text


def test_numbers_keep_their_width_on_a_narrow_terminal(tmp_path: Path) -> None:
    assert "40.0 ms" in shown(busy(tmp_path), 60)


@pytest.mark.parametrize("width", [60, 120])
def test_a_long_command_hides_no_other_column(tmp_path: Path, width: int) -> None:
    write_head(tmp_path, ranks=0, last_chunk=1)
    identity = {"job": "example", "rank": 3, "command": ["python", "-c", "x" * 300]}
    append_event(tmp_path, ProcessStart(0, 4711, 5, "", 1, 2, (1, 0), identity))
    append_event(tmp_path, ProcessEnd(0, "died", 90 * S, exit_code=-9))
    lines = shown(tmp_path, width).splitlines()
    place = lines.index(next(line for line in lines if line.startswith("Processes")))
    assert lines[place + 1].split() == ["rank", "pid", "lived", "sampled", "end", "command"]
    assert lines[place + 2].split()[:3] == ["3", "4711", "90.0"]
    assert "SIGKILL" in lines[place + 2] and lines[place + 2].rstrip().endswith("…")


def test_an_empty_recording_says_so(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    text = shown(tmp_path, 80)
    assert text.startswith("No process was recorded: no Python with pilotlight")
    assert "Processes" not in text
    assert "nothing: no record was lost" in text
    assert "not measured" in text


def test_files_are_shown_from_their_package_on() -> None:
    assert short_file("/x/lib/site-packages/torch/nn/linear.py") == "torch/nn/linear.py"
    assert short_file("/home/me/job/train.py") == "job/train.py"
    assert short_file("train.py") == "train.py"


def test_what_is_known_in_part_is_marked_where_it_stands(tmp_path: Path) -> None:
    write_head(tmp_path, first_chunk=2, last_chunk=2)
    names = {"names": [(0, 8, "forward")]}
    window = (0, 0, 1, 0, 8, 10, 50 * MS, 5 * MS, 5 * MS)
    histogram = (0, 0, 1, 8, 160, 10)
    write_chunk(tmp_path / "windows", {**names, "windows": [window], "histograms": [histogram]})
    span = (0, 100, 8, 1, 0, 25 * S, 5 * MS)
    write_chunk(tmp_path / "detail" / "000002", {**names, "spans": [span]})
    (line,) = [line for line in shown(tmp_path, 120).splitlines() if line.startswith("forward")]
    assert "≥ " in line and line.count("~") == 2


def test_a_process_whose_stacks_could_not_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0, last_chunk=1)
    reason = "stacks can be read on Python 3.10 to 3.14 only"
    for number in range(2):
        append_event(tmp_path, ProcessStart(number, 4711 + number, 5, "", 1, 2, (1, 0), {}))
        append_event(tmp_path, ProcessEnd(number, "exit", 90 * S, exit_code=0, off=reason))
    text = " ".join(shown(tmp_path, 120).split())
    assert f"no stacks of 2 processes (pid 4711 and others): {reason}" in text
    assert "nothing: no record was lost" not in text


def test_who_calls_what_takes_the_time_is_shown(tmp_path: Path) -> None:
    process = Process(0)
    process.add("threads", 7, process.name("MainThread"))
    for place, leaf in enumerate(("forward", "backward")):
        stack = process.stack("<module>", "a", "b", "train", leaf)
        process.add("samples", 7, stack, 1, 0, 10_000 + place, S)
    lines = [line.split() for line in shown(write_example(tmp_path, process), 120).splitlines()]
    place = lines.index(["Who", "calls", "it", "(5", "%", "and", "more)"])
    assert lines[place + 1] == ["total", "self", "calls", "file"]
    assert lines[place + 2][:-1] == ["100", "%", "0", "%", "<module>", "›", "…", "›", "train"]
    assert {row[4] for row in lines[place + 3 : place + 5]} == {"forward", "backward"}
