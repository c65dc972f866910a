"""Which thread a record is told of: a ring is found by who asked last, and threads come and go."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.e2e.conftest import Job

PROGRAM = """
import os, sys, threading, pilotlight

def tell(name):
    for _ in range(3):
        with pilotlight.annotate(name): pass

# The next has the stack, and with it the thread pointer, of the one that has just ended.
for i in range(200):
    thread = threading.Thread(target=tell, args=(f"one {i}",), name=f"one {i}")
    thread.start(); thread.join()

turns = [threading.Semaphore(n == 0) for n in range(3)]
def take_turns(n):
    for _ in range(100):
        turns[n].acquire()
        with pilotlight.annotate(f"turn {n}"): pass
        turns[(n + 1) % 3].release()
threads = [threading.Thread(target=take_turns, args=(n,), name=f"turn {n}") for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()

# Told last by a thread that the child does not have, whose stack its first thread gets.
told, forked = threading.Event(), threading.Event()
def lives_in_the_parent():
    tell("parent"); told.set(); forked.wait()
threading.Thread(target=lives_in_the_parent).start()
told.wait()
if os.fork() == 0:
    thread = threading.Thread(target=tell, args=("child",))
    thread.start(); thread.join()
else:
    _, status = os.wait()
    forked.set()
    sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_every_range_is_of_the_thread_and_process_that_was_in_it(
    job: Callable[..., Job], program: Callable[[str], str]
) -> None:
    done = job(sys.executable, program(PROGRAM))
    assert done.code == 0, done.err
    spans = done.recording.detail("spans")
    thread_names = done.recording.thread_names
    keys = list(zip(spans["process"].tolist(), spans["thread"].tolist(), strict=True))
    told = list(zip(keys, done.names("spans"), strict=True))
    of_threads = [
        (thread_names[key], name) for key, name in told if name.startswith(("one", "turn"))
    ]
    assert len(of_threads) == 900
    # The kernel may give a number again: then that thread has the last of its names.
    assert sum(thread != name for thread, name in of_threads) < 10
    (child,) = {process for (process, _), name in told if name == "child"}
    assert [name for _, name in told].count("child") == 3
    assert child not in {process for (process, _), name in told if name.startswith("one")}
