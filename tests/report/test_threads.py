"""Whose functions answer where the time goes."""

from __future__ import annotations

from pathlib import Path

from example import Process, write_chunk, write_head

from pilotlight.recording.processes import ProcessEnd, ProcessStart, append_event
from pilotlight.recording.recording import Recording
from pilotlight.report.coverage import coverage_of
from pilotlight.report.threads import (
    StateTimes,
    ThreadTimes,
    beside_children,
    telling_threads,
    waiting_launchers,
)


def thread(name: str, running_ns: int, waiting_ns: int = 0, process: int = 0) -> ThreadTimes:
    times = StateTimes(running_ns, waiting_ns, gil_wait_ns=0, disk_ns=0, unknown_ns=0)
    return ThreadTimes(process, 1, name, name == "MainThread", 10, times)


def test_the_main_threads_tell_although_others_run_too() -> None:
    threads = (thread("loader", 900, 100), thread("MainThread", 500, 500))
    assert telling_threads(threads, 0) == {"MainThread"}


def test_where_the_main_thread_only_waits_those_that_run_tell() -> None:
    threads = (
        thread("worker a", 1000),
        thread("worker b", 400, 600),
        thread("idle", 5, 995),
        thread("pilotlight", 30, 970),
        thread("MainThread", 10, 990),
    )
    assert telling_threads(threads, 0) == {"worker a", "worker b"}


def test_a_main_thread_with_steps_tells_even_if_it_waits() -> None:
    threads = (thread("autograd", 900, 100), thread("MainThread", 10, 990))
    assert telling_threads(threads, 1) == {"MainThread"}


def test_where_nobody_runs_the_main_thread_tells() -> None:
    threads = (thread("MainThread", 10, 990), thread("idle", 5, 995))
    assert telling_threads(threads, 0) == {"MainThread"}


def test_without_a_main_thread_those_that_run_tell() -> None:
    assert telling_threads((thread("worker", 10, 990),), 0) == {"worker"}


def test_a_launcher_that_waits_for_its_ranks_is_left_out() -> None:
    threads = (
        thread("MainThread", 10, 990, process=0),
        thread("MainThread", 30, 970, process=1),
        thread("MainThread", 500, 500, process=2),
    )
    assert waiting_launchers(threads, frozenset([1, 2]), {}) == {0}


def test_a_launcher_of_a_process_that_runs_is_left_out_though_nobody_has_a_rank() -> None:
    threads = (thread("MainThread", 10, 990, process=0), thread("MainThread", 900, 100, process=1))
    assert waiting_launchers(threads, frozenset(), {}) == {0}


def test_where_all_wait_nobody_is_left_out() -> None:
    threads = (thread("MainThread", 10, 990, process=0), thread("MainThread", 20, 980, process=1))
    assert waiting_launchers(threads, frozenset(), {}) == frozenset()


def test_a_launcher_that_had_to_start_first_is_left_out() -> None:
    threads = (thread("MainThread", 400, 600, process=0), thread("MainThread", 900, 100, process=1))
    assert waiting_launchers(threads, frozenset(), {0: 0.02}) == {0}
    assert waiting_launchers(threads, frozenset(), {0: 0.7}) == frozenset()


def test_a_program_that_worked_before_it_had_children_is_no_launcher() -> None:
    threads = (thread("MainThread", 600, 400, process=0), thread("MainThread", 300, process=1))
    assert waiting_launchers(threads, frozenset(), {0: 0.02}) == frozenset()
    assert waiting_launchers(threads, frozenset([1]), {0: 0.02}) == {0}


def test_a_parent_is_watched_while_its_children_live(tmp_path: Path) -> None:
    second = 1_000_000_000
    write_head(tmp_path, ranks=0, last_chunk=1)
    lives = ((0, 50, 1, 20 * second), (1, 60, 10 * second, 15 * second))
    for number, (parent, pid, start_ns, end_ns) in enumerate(lives):
        identity = {"job": "example", "parent_pid": parent and 50}
        append_event(
            tmp_path, ProcessStart(number, pid, 5, f"{number}", start_ns, 2, (1, 0), identity)
        )
        append_event(tmp_path, ProcessEnd(number, "exit", end_ns))
    process = Process(0)
    process.add("threads", 7, process.name("MainThread"))
    for at in range(1, 20):
        state = 2 if 11 <= at <= 14 else 1
        process.add("samples", 7, process.stack("main"), state, 0, at * second, second)
    write_chunk(tmp_path / "detail" / "000001", process.tables)
    recording = Recording.open(tmp_path)
    # Of the samples at 10 to 15 s two are running ones.
    assert beside_children(recording, coverage_of(recording)) == {0: 2 / 6}
