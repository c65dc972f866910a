"""A frame of a stack as the text that agents send: `function (folder/file.py:line)`."""

from __future__ import annotations

import re

_LINED = re.compile(r"^(?P<function>.*) \((?P<file>[^()]*):(?P<line>\d{1,9})\)$", re.DOTALL)


def frame_text(function: str, path: str, line: int) -> str:
    """Without a line where it is not known: 0."""
    file = short_file(path)
    return f"{function} ({file}:{line})" if line else f"{function} ({file})"


def split_line(frame: str) -> tuple[str, int]:
    """The frame without its line, so that a function is one thing, and the line: 0 where there is
    none, as in frames of an older agent."""
    found = _LINED.match(frame)
    return (f"{found['function']} ({found['file']})", int(found["line"])) if found else (frame, 0)


def with_line(function: str, line: int) -> str:
    """The inverse."""
    return f"{function[:-1]}:{line})" if line and function.endswith(")") else function


def short_file(path: str) -> str:
    """The last two parts tell where it is; the rest differs from machine to machine."""
    return "/".join(path.split("/")[-2:])
