"""The stacks of a process as its clients get them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilotlight.recording.schema import State

_Frame = tuple[str, str, int]
_OWN_FILE = "pilotlight/probe/errands.py"


def threads_of(found: Iterable[tuple[int, int, Sequence[_Frame]]]) -> list[dict[str, object]]:
    """JSON-able, from what `_drain.read_stacks` gives; without pilotlight's own thread."""
    return [
        {
            "thread": thread,
            "state": State(state).name.lower() if state in list(State) else "unknown",
            "frames": [
                {"function": function, "file": file, "line": line}
                for function, file, line in frames
            ],
        }
        for thread, state, frames in found
        if not (frames and frames[0][1].endswith(_OWN_FILE))
    ]
