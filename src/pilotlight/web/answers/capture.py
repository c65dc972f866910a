"""What the API answers about one capture."""

from __future__ import annotations

from msgspec import Struct

from pilotlight.store.queries import CaptureRow


class CapturedNode(Struct, frozen=True):
    """`state` is waiting, asked, stored, failed or expired; `why` tells it where it failed."""

    node: str
    ranks: list[int]
    state: str
    why: str
    bytes: int


class CaptureDetail(Struct, frozen=True):
    """`is_open`: some nodes have not answered yet."""

    now_ns: int
    row: CaptureRow
    is_open: bool
    nodes: list[CapturedNode]
