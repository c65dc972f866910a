"""Whose functions answer where the time goes."""

from __future__ import annotations

from pilotlight.report.threads import (
    StateTimes,
    ThreadTimes,
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
    assert waiting_launchers(threads, frozenset([1, 2])) == {0}


def test_a_launcher_of_a_process_that_runs_is_left_out_though_nobody_has_a_rank() -> None:
    threads = (thread("MainThread", 10, 990, process=0), thread("MainThread", 900, 100, process=1))
    assert waiting_launchers(threads, frozenset()) == {0}


def test_where_all_wait_nobody_is_left_out() -> None:
    threads = (thread("MainThread", 10, 990, process=0), thread("MainThread", 20, 980, process=1))
    assert waiting_launchers(threads, frozenset()) == frozenset()
