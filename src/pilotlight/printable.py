"""Text of others, made harmless for a terminal: names in traces are anybody's."""

from __future__ import annotations

import re

# Controls but tab and newline; what turns the direction of writing; separators of lines and
# paragraphs; halves of pairs, which cannot be encoded.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAKS = re.compile("[\t\n]")


def printable(text: str) -> str:
    """The same text with harmful characters as they would be written in a program: \\x1b."""
    return _HARMFUL.sub(_escaped, text) if _HARMFUL.search(text) else text


def one_line(text: str) -> str:
    """As `printable`, and nothing in it can begin another line."""
    return _BREAKS.sub(_escaped, printable(text))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
