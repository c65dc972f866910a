"""Where a rank spends the time that the others do not: a function, from the samples of all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from pilotlight.collector.watch.recent import RecentJob
from pilotlight.errors import StoreError
from pilotlight.insights.finding import Finding, percent
from pilotlight.store.queries import Reader, Span, rank_stacks
from pilotlight.store.store import Store

_LOOK_BACK_NS = 60_000_000_000
_AGAIN_NS = 20_000_000_000
_OTHERS = 8
_EXPLAINED_RATIO = 0.5

Stacks = Iterable[tuple[tuple[str, ...], int]]
"""Frames from the outermost to the innermost, and their time."""


@dataclass(frozen=True)
class Place:
    """A frame, and how much of the time a rank and the others are in it."""

    frame: str
    ratio: float
    others_ratio: float

    @property
    def excess_ratio(self) -> float:
        return self.ratio - self.others_ratio


class Locator:
    """Asks the store now and then; between, what it said last holds. `counts` is told of each time
    that it did not answer."""

    def __init__(self, store: Store, counts: Counter[str]) -> None:
        self._store = store
        self._counts = counts
        self._known: dict[tuple[str, str, int], tuple[int, Place | None]] = {}

    def located(self, job: RecentJob, finding: Finding) -> Finding:
        """A straggler of which no measured part says why, with the function that explains it."""
        rank = finding.rank
        if finding.cause != "straggler" or rank is None or rank not in job.ranks:
            return finding
        key = job.tenant, job.job, rank
        asked_ns, place = self._known.get(key, (0, None))
        if job.told_ns - asked_ns >= _AGAIN_NS:
            place = self._ask(job, rank)
            self._known[key] = job.told_ns, place
        if place is None or place.excess_ratio < _EXPLAINED_RATIO * finding.gain_high_ratio:
            return finding
        said = (
            f"{percent(place.ratio)} of its time in {place.frame}, "
            f"the others {percent(place.others_ratio)}"
        )
        fix = f"look at what {place.frame} does on this rank alone"
        return replace(finding, evidence=(*finding.evidence[:-1], said), fix=fix)

    def forget(self, tenant: str, job: str) -> None:
        self._known = {key: one for key, one in self._known.items() if key[:2] != (tenant, job)}

    def _ask(self, job: RecentJob, rank: int) -> Place | None:
        others = [one for one in job.ranks if one != rank][:_OTHERS]
        # What came last is not in the tables yet.
        until_ns = job.told_ns - _AGAIN_NS // 2
        span = Span(until_ns - _LOOK_BACK_NS, until_ns)
        try:
            found = rank_stacks(Reader(self._store, job.tenant), job.job, span, [rank, *others])
        except StoreError:
            self._counts["stacks not read"] += 1
            return None
        return most_apart(found.get(rank, ()), [found[one] for one in others if one in found])


def most_apart(mine: Stacks, others: Iterable[Stacks]) -> Place | None:
    """The frame in which one rank is longest compared with the median of the others; of a frame
    and what it calls, the caller. None without others."""
    tables = [_shares(stacks) for stacks in others]
    own = _shares(mine)
    if not tables or not own:
        return None
    usual = {frame: median(table.get(frame, 0.0) for table in tables) for frame in own}
    frame = max(own, key=lambda one: own[one] - usual[one])
    return Place(frame, own[frame], usual[frame])


def _shares(stacks: Stacks) -> Mapping[str, float]:
    """By frame the part of the time in it and in what it calls, callers before callees; then its
    own. The outermost frame of a thread is there all the time."""
    times: dict[str, int] = defaultdict(int)
    ordered = sorted(stacks, key=lambda stack: len(stack[0]))
    for frames, ns in ordered:
        for frame in dict.fromkeys(frames):
            times[frame] += ns
    for frames, ns in ordered:
        times[f"{frames[-1]} itself"] += ns
    whole = max(times.values(), default=0)
    return {frame: ns / whole for frame, ns in times.items()}
