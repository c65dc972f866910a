"""Names and stacks of one process by its own ids, and the ids that they have everywhere."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from itertools import pairwise

from pilotlight.recording.schema import WIDTH_BYTES
from pilotlight.ship.frame import frame_text

Columns = Mapping[str, bytes]
Tables = Mapping[str, tuple[int, Columns]]

_MOST = 100_000
_DEEPEST = 256
_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d"}
UNKNOWN = "?"


def text_id(text: str) -> int:
    """The same for the same text in every process of every job."""
    digest = blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def values(kind: str, data: bytes) -> tuple[int, ...]:
    """The numbers of a column."""
    return struct.unpack(f"<{len(data) // WIDTH_BYTES[kind]}{_CODES[kind]}", data)


class Definitions:
    """Learns from the tables that go by, up to a bound; what is beyond it is `?`."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._frames: dict[int, str] = {}
        self._stacks: dict[int, tuple[int, int]] = {}
        self.left_out = 0

    def learn(self, tables: Tables) -> None:
        if "names" in tables:
            columns = tables["names"][1]
            for id, text in zip(values("u32", columns["id"]), _texts(columns, "text"), strict=True):
                if self._has_room(self._names, id):
                    self._names[id] = text
        if "frames" in tables:
            columns = tables["frames"][1]
            functions, files = _texts(columns, "function"), _texts(columns, "file")
            lines = values("u32", columns["line"])
            for id, function, file, line in zip(
                values("u32", columns["id"]), functions, files, lines, strict=True
            ):
                if self._has_room(self._frames, id):
                    self._frames[id] = frame_text(function, file, line)
        if "stacks" in tables:
            columns = tables["stacks"][1]
            parents, frames = values("u32", columns["parent"]), values("u32", columns["frame"])
            for id, parent, frame in zip(
                values("u32", columns["id"]), parents, frames, strict=True
            ):
                if self._has_room(self._stacks, id):
                    self._stacks[id] = (parent, frame)

    def name(self, id: int) -> str:
        return self._names.get(id, UNKNOWN)

    def stack(self, id: int) -> str:
        """A line a frame, the outermost first."""
        frames: list[str] = []
        while id and len(frames) < _DEEPEST:
            parent, frame = self._stacks.get(id, (0, 0))
            frames.append(self._frames.get(frame, UNKNOWN))
            id = parent
        return "\n".join(reversed(frames)) or UNKNOWN

    def _has_room(self, known: Mapping[int, object], id: int) -> bool:
        if len(known) < _MOST or id in known:
            return True
        self.left_out += 1
        return False


def _texts(columns: Columns, name: str) -> list[str]:
    data = columns[name]
    ends = struct.unpack(f"<{len(columns[f'{name}:offsets']) // 4}i", columns[f"{name}:offsets"])
    return [data[start:end].decode(errors="replace") for start, end in pairwise(ends)]
