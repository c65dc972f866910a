"""One first step for the captures of several nodes: each proposes, one place decides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pilotlight.capture.manifest import CaptureManifest
from pilotlight.capture.plan import LAST_STEP, STEPS_BEFORE
from pilotlight.errors import FormatError
from pilotlight.recording.fields import take, take_optional

# From the decision until the last node has heard it and its agent has acted on it.
_ANSWER_NS = 1_000_000_000
_MOST_NS = 1 << 62


@dataclass(frozen=True)
class Proposal:
    """How far a node is. `steps`: of its furthest process, None if one counts none; `needs_ns`:
    from hearing the decision until its last process has it."""

    steps: int | None
    step_ns: int
    needs_ns: int

    def __post_init__(self) -> None:
        if self.steps is not None and not 0 <= self.steps <= LAST_STEP:
            raise FormatError("steps is not a number of steps")
        if not 0 < self.step_ns < _MOST_NS or not 0 <= self.needs_ns < _MOST_NS:
            raise FormatError("step_ns or needs_ns is not a duration")

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> Proposal:
        return cls(
            take_optional(content, "steps", int),
            take(content, "step_ns", int),
            take(content, "needs_ns", int),
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Decision:
    """The first step of all, or, where not all count steps, in how long all begin."""

    first_step: int | None
    in_ns: int


def decide(proposals: Sequence[tuple[Proposal, int]], now_ns: int) -> Decision:
    """Of each node with the time at which its proposal came, on the clock of `now_ns`."""
    needs_ns = _ANSWER_NS + max(proposal.needs_ns for proposal, _ in proposals)
    counted = [(p.steps, p.step_ns, at_ns) for p, at_ns in proposals if p.steps is not None]
    if len(counted) < len(proposals):
        return Decision(None, needs_ns)
    first = max(
        steps + math.ceil((now_ns - at_ns + needs_ns) / step_ns) + STEPS_BEFORE
        for steps, step_ns, at_ns in counted
    )
    return Decision(min(first, LAST_STEP), needs_ns)


@dataclass(frozen=True)
class RankSteps:
    """The steps in the trace of one rank; times on its node's wall clock."""

    rank: int
    first: int
    last: int
    start_ns: int
    step_ns: int

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> RankSteps:
        return cls(*(take(content, name, int) for name in cls.__dataclass_fields__))


def rank_steps(manifest: CaptureManifest) -> list[RankSteps]:
    """Of the ranks that have a trace with steps in it."""
    return [
        RankSteps(
            process.answered.rank,
            process.steps[0].number,
            process.steps[-1].number,
            process.steps[0].start_ns,
            _middle([step.duration_ns for step in process.steps]),
        )
        for process in manifest.processes
        if process.answered.rank is not None and process.file is not None and process.steps
    ]


def are_equal(nodes: Sequence[tuple[Sequence[RankSteps], int, int]]) -> bool | None:
    """Whether all ranks have the same steps at the same time; None if none are known.

    Of each node: its ranks, what has to be added to its clock, and how uncertain that is.
    """
    ranks = [one for found, _, _ in nodes for one in found]
    if not ranks or not all(found for found, _, _ in nodes):
        return None
    starts = [one.start_ns + offset_ns for found, offset_ns, _ in nodes for one in found]
    allowed_ns = _middle([one.step_ns for one in ranks]) + 2 * max(sure for _, _, sure in nodes)
    return len({(one.first, one.last) for one in ranks}) == 1 and (
        max(starts) - min(starts) <= allowed_ns
    )


def _middle(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]
