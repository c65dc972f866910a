"""Python's warning of forks in a process with threads, where the only other thread is ours.

From 3.12 on Python counts the threads as the kernel does. Whether the program has any is its own
affair: then it is warned as ever.
"""

import os
import sys

from pilotlight import _probe
from pilotlight.probe.activate import is_about_to_exec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Pattern:
    """Stands in a filter for a regular expression. What it was there for takes it out again."""

    def match(self, text: str) -> bool:
        told = f"This process (pid={os.getpid()}) is multi-threaded, use of "
        if not text.startswith(told) or not _is_ours_alone():
            return False
        forget()  # the interpreter looks at no other filter
        return True


_FILTER = ("ignore", _Pattern(), DeprecationWarning, None, 0)


def expect() -> None:
    """Before a fork; never raises."""
    try:
        if is_about_to_exec():
            return  # of that it says nothing
        forget()
        if _is_ours_alone():
            _filters().insert(0, _FILTER)
    except Exception:
        return  # a warning too many


def forget() -> None:
    """In the child, or where no warning came; never raises."""
    try:
        if _FILTER in _filters():
            _filters().remove(_FILTER)
    except Exception:
        return


def _filters() -> "list[Any]":
    """Those that the interpreter asks. It is not told that they change: it would repeat warnings
    that the program has had."""
    found: list[Any] = (sys.modules.get("warnings") or sys.modules["_warnings"]).filters
    return found


def _is_ours_alone() -> bool:
    own = int(bool(_probe.status()["started"]))
    errands = sys.modules.get("pilotlight.probe.errands")
    if errands is not None:
        own += errands.threads()
    return _probe.threads() - own == 1
