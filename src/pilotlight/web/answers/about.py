"""What the API answers about the server itself."""

from __future__ import annotations

from msgspec import Struct


class About(Struct, frozen=True):
    """`kind` is collector or viewer."""

    kind: str
    version: str
