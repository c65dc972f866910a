"""What the API answers about one capture."""

from __future__ import annotations

from msgspec import Struct

from pilotlight.store.queries import CaptureRow


class CapturedRank(Struct, frozen=True):
    """How far the trace of its steps is; `state` is one of capture/request.py."""

    rank: int
    state: str
    why: str


class CapturedNode(Struct, frozen=True):
    """`state` is waiting, asked, stored, failed or expired; `why` tells it where it failed. `told`:
    its ranks, where steps are traced."""

    node: str
    ranks: list[int]
    state: str
    why: str
    bytes: int
    told: list[CapturedRank]


class CaptureDetail(Struct, frozen=True):
    """`is_open`: some nodes have not answered yet."""

    now_ns: int
    row: CaptureRow
    is_open: bool
    nodes: list[CapturedNode]
