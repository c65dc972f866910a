"""Batches on this node's disk until the collector has them; bounded, the oldest go first."""

from __future__ import annotations

import contextlib
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pilotlight.errors import AgentError

_SUFFIX = ".batch"
_MOST_ASIDE = 8
_MOST_FILES = 50_000


@dataclass(frozen=True)
class Waiting:
    """One batch; what it is stands in its name, so that no file need be opened to count."""

    path: Path
    epoch: int
    sequence: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Said:
    """What a batch has of each job, and what it tells of earlier losses."""

    rows: Mapping[str, int] = field(default_factory=dict)
    losses: Sequence[Mapping[str, object]] = ()


@dataclass
class LostBatches:
    """`unsaid`: what those of them said that were made by this agent, for a later one to tell."""

    batches: int = 0
    rows: int = 0
    unsaid: deque[Said] = field(default_factory=deque)


class Outbox:
    """Survives the agent: the next one sends what it finds. AgentError: no folder can be made."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AgentError(f"{folder}: {error.strerror}") from None
        self._waiting = {one.path.name: one for one in _found(folder)}
        self._bytes = sum(one.bytes for one in self._waiting.values())
        self._said: dict[str, Said] = {}
        self.lost = LostBatches()

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def agent_id(self) -> str:
        """Who sends from here: the same for every agent that uses this folder."""
        path = self._folder / "agent"
        with contextlib.suppress(OSError):
            known = path.read_text().strip()
            if known.isalnum() and len(known) == 32:
                return known
        made = secrets.token_hex(16)
        with contextlib.suppress(OSError):
            path.write_text(made)
        return made

    def lowest(self, epoch: int, default: int) -> int:
        """The first sequence of an epoch that is still to be sent."""
        mine = [one.sequence for one in list(self._waiting.values()) if one.epoch == epoch]
        return min([*mine, default])

    def put(
        self, epoch: int, sequence: int, rows: int, body: bytes, said: Said | None = None
    ) -> None:
        """OSError: the disk does not take it; it counts as lost."""
        self._make_room(len(body))
        path = self._folder / f"{epoch:020d}-{sequence:012d}-{rows}{_SUFFIX}"
        beside = path.with_suffix(".new")
        if said is not None:
            self._said[path.name] = said
        try:
            beside.write_bytes(body)
            beside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            self._count_lost(path.name, rows)
            raise
        self._waiting[path.name] = Waiting(path, epoch, sequence, rows, len(body))
        self._bytes += len(body)

    def oldest(self) -> Waiting | None:
        return min(list(self._waiting.values()), key=lambda one: one.path.name, default=None)

    def read(self, waiting: Waiting) -> bytes | None:
        """None: it cannot be read any more, and is counted as lost."""
        try:
            return waiting.path.read_bytes()
        except OSError:
            self._lose(waiting)
            return None

    def done(self, waiting: Waiting) -> None:
        self._forget(waiting)
        self._said.pop(waiting.path.name, None)
        with contextlib.suppress(OSError):
            waiting.path.unlink()

    def put_aside(self, waiting: Waiting) -> None:
        """The collector will never take it; a few are kept for people to look at."""
        self._forget(waiting)
        self._count_lost(waiting.path.name, waiting.rows)
        aside = self._folder / "aside"
        with contextlib.suppress(OSError):
            aside.mkdir(exist_ok=True)
            waiting.path.replace(aside / waiting.path.name)
            for old in sorted(aside.iterdir())[:-_MOST_ASIDE]:
                old.unlink()

    def __len__(self) -> int:
        return len(self._waiting)

    def _make_room(self, size: int) -> None:
        while self._waiting and (
            self._bytes + size > self._limit_bytes or len(self._waiting) >= _MOST_FILES
        ):
            oldest = self.oldest()
            assert oldest is not None
            self._lose(oldest)

    def _lose(self, waiting: Waiting) -> None:
        self._count_lost(waiting.path.name, waiting.rows)
        self.done(waiting)

    def _count_lost(self, name: str, rows: int) -> None:
        self.lost.batches += 1
        self.lost.rows += rows
        self.lost.unsaid.append(self._said.pop(name, Said({"": rows})))

    def _forget(self, waiting: Waiting) -> None:
        if self._waiting.pop(waiting.path.name, None) is not None:
            self._bytes -= waiting.bytes


def _found(folder: Path) -> list[Waiting]:
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        parts = path.name.removesuffix(_SUFFIX).split("-")
        if len(parts) == 3 and all(part.isdigit() for part in parts):
            epoch, sequence, rows = map(int, parts)
            with contextlib.suppress(OSError):
                found.append(Waiting(path, epoch, sequence, rows, path.stat().st_size))
    return found
