"""A quick look at names before a pattern is tried: a trace can have half a million of them."""

from __future__ import annotations

from collections.abc import Sequence

LOOKED_AT = 200


def start_with(name: str, words: Sequence[str]) -> str:
    """The begin of the name if one of the words, in lower case, is in it; else empty. Plain search
    is ten times as fast as a pattern."""
    start = name[:LOOKED_AT]
    low = start.lower()
    for word in words:
        if word in low:
            return start
    return ""
