"""The warning of a fork beside threads, as Python 3.12 and later give it, on any Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARN = """
import os, sys, threading, warnings
from pilotlight.probe import fork_warning
def warn():
    text = f"This process (pid={os.getpid()}) is multi-threaded, use of fork() may lead to worse"
    warnings.warn_explicit(text, DeprecationWarning, "program.py", 1)
def told():
    fork_warning.expect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fork_warning.expect()
        warn()
    return len(caught)
"""


def printed(program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PILOTLIGHT", "1")
    words = [sys.executable, "-c", WARN + program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def test_with_no_thread_but_ours_there_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed("print(told())", monkeypatch) == "0\n"


def test_beside_a_thread_of_the_program_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "stop = threading.Event(); threading.Thread(target=stop.wait).start()\n"
    assert printed(f"{program}print(told()); stop.set()", monkeypatch) == "1\n"


def test_beside_a_thread_that_began_since_the_fork_was_expected_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = """
stop = threading.Event()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fork_warning.expect()
    threading.Thread(target=stop.wait).start()
    warn()
print(len(caught)); stop.set()
"""
    assert printed(program, monkeypatch) == "1\n"


def test_no_filter_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
before = list(warnings.filters)
fork_warning.expect(); warn()
print(warnings.filters == before)
fork_warning.expect(); fork_warning.forget()
print(warnings.filters == before)
"""
    assert printed(program, monkeypatch) == "True\nTrue\n"


def test_other_warnings_are_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fork_warning.expect()
    warnings.warn("old", DeprecationWarning)
print(len(caught))
"""
    assert printed(program, monkeypatch) == "1\n"
