"""How far the ranks of a capture are, rank by rank: what an agent tells and a collector keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from pilotlight.capture.manifest import CaptureManifest
from pilotlight.capture.request import DONE, FAILED, MOST_RANKS
from pilotlight.capture.target import KINETO
from pilotlight.errors import FormatError
from pilotlight.recording.fields import take

_LONGEST_WHY = 300
_EMPTY = "its trace has nothing in it"


@dataclass(frozen=True)
class RankTold:
    """`state` is one of capture/request.py; `why` tells it where it failed or was left out."""

    rank: int
    state: str
    why: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> RankTold:
        rank = take(content, "rank", int)
        if not 0 <= rank < MOST_RANKS:
            raise FormatError(f"rank {rank} is none")
        state, why = take(content, "state", str), take(content, "why", str)
        return cls(rank, state[:40], why[:_LONGEST_WHY])


def told_of(processes: Iterable[Mapping[str, object]]) -> list[RankTold]:
    """Of the processes that are a rank, as the agent's answers describe them."""
    return sorted(
        (
            RankTold(rank, str(one.get("state")), str(one.get("reason") or "")[:_LONGEST_WHY])
            for one in processes
            if type(rank := one.get("rank")) is int
        ),
        key=lambda told: told.rank,
    )


def told_at_last(manifest: CaptureManifest) -> list[RankTold]:
    """What is in the files counts: a profiler may be done and have written nothing."""
    told = told_of(asdict(process.answered) for process in manifest.processes)
    empty = {
        process.answered.rank
        for process in manifest.processes
        if process.answered.state == DONE and process.answered.how == KINETO and not process.spans
    }
    return [
        RankTold(one.rank, FAILED, _EMPTY) if one.rank in empty and one.state == DONE else one
        for one in told
    ]
