from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.recording.example import Process, write_chunk, write_head

from pilotlight.recording.recording import Recording


def paths(folder: Path, *stacks: list[tuple[str, str]]) -> list[list[str]]:
    """The stacks, each as (function, file) from the outermost on, as a reader sees them."""
    process = Process(0)
    ids = []
    for frames in stacks:
        stack = 0
        for function, file in frames:
            stack = process.call(stack, function, file)
        ids.append(stack)
    write_head(folder)
    write_chunk(folder / "detail" / "000001", process.tables)
    tree = Recording.open(folder).calls
    nodes = tree.find(np.zeros(len(ids), np.uint32), np.array(ids, np.uint32))
    return [[frame.function for frame in tree.path(node)] for node in nodes.tolist()]


OWN = "/site-packages/pilotlight/probe/annotate.py"


def test_our_wrapper_between_two_functions_of_the_user_is_left_out(tmp_path: Path) -> None:
    found = paths(tmp_path, [("main", "train.py"), ("called", OWN), ("load", "train.py")])
    assert found == [["main", "load"]]


def test_a_stack_that_ends_in_our_wrapper_keeps_it(tmp_path: Path) -> None:
    found = paths(
        tmp_path,
        [("main", "train.py"), ("called", OWN)],
        [("main", "train.py"), ("called", OWN), ("load", "train.py")],
    )
    assert found == [["main", "called"], ["main", "load"]]
