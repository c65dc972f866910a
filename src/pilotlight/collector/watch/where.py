"""Where a rank spends the time that the others do not: a line, from the samples of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from pilotlight.collector.watch.recent import RecentJob
from pilotlight.errors import StoreError
from pilotlight.insights.finding import Finding, percent
from pilotlight.ship.frame import split_line, with_line
from pilotlight.store.queries import Reader, Span, rank_stacks
from pilotlight.store.store import Store

_LOOK_BACK_NS = 60_000_000_000
_AGAIN_NS = 20_000_000_000
_SOON_NS = 5_000_000_000
_OTHERS = 8
_EXPLAINED_RATIO = 0.5
_ITSELF = " itself"

Stacks = Iterable[tuple[tuple[str, ...], int]]
"""Frames from the outermost to the innermost, and their time."""
Where = tuple[str, bool]
"""A function, and whether only its own code is meant."""
Sums = dict[Where, Counter[int]]
"""By line."""


@dataclass(frozen=True)
class Place:
    """A function, the line of it that is most apart, and how much of the time a rank and the others
    are in the function. `line`: 0 where agents do not tell it. `is_own`: in its own code, and not
    in what it calls."""

    function: str
    line: int
    is_own: bool
    ratio: float
    others_ratio: float

    @property
    def frame(self) -> str:
        return with_line(self.function, self.line) + _ITSELF * self.is_own

    @property
    def source(self) -> str:
        """`folder/file.py:line function`; empty where the line is not known."""
        name, _, file = self.function.rpartition(" (")
        return f"{file[:-1]}:{self.line} {name}" if self.line else ""

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
        if job.told_ns - asked_ns >= (_SOON_NS if place is None else _AGAIN_NS):
            place = self._ask(job, rank)
            self._known[key] = job.told_ns, place
        if place is None or place.excess_ratio < _EXPLAINED_RATIO * finding.gain_high_ratio:
            return finding
        said = (
            f"{percent(place.ratio)} of its time in {place.frame}, "
            f"the others {percent(place.others_ratio)}"
        )
        fix = f"look at what {place.frame} does on this rank alone"
        where = f"{finding.place}, from {place.source}" if place.source else finding.place
        return replace(finding, evidence=(*finding.evidence[:-1], said), fix=fix, place=where)

    def forget(self, tenant: str, job: str) -> None:
        self._known = {key: one for key, one in self._known.items() if key[:2] != (tenant, job)}

    def _ask(self, job: RecentJob, rank: int) -> Place | None:
        others = [one for one in job.ranks if one != rank][:_OTHERS]
        # What came last is not in the tables yet; what came before the steps, as imports, is in
        # none of them.
        until_ns = job.told_ns - _AGAIN_NS // 2
        begun_ns = max(job.ranks[one].first_step_ns for one in (rank, *others))
        span = Span(max(until_ns - _LOOK_BACK_NS, begun_ns), until_ns)
        try:
            found = rank_stacks(Reader(self._store, job.tenant), job.job, span, [rank, *others])
        except StoreError:
            self._counts["stacks not read"] += 1
            return None
        return most_apart(found.get(rank, ()), [found[one] for one in others if one in found])


def most_apart(mine: Stacks, others: Iterable[Stacks]) -> Place | None:
    """The function in which one rank is longest compared with the median of the others; of one and
    what it calls, the caller. None without others."""
    sums = [_sums(stacks) for stacks in others]
    own = _sums(mine)
    if not sums or not own:
        return None
    tables = [_shares(times) for times in sums]
    shares = _shares(own)
    usual = {where: median(table.get(where, 0.0) for table in tables) for where in shares}
    where = max(shares, key=lambda one: shares[one] - usual[one])
    lines = {line: _ratio(own, where, line) for line in own[where]}
    rest = {line: median(_ratio(one, where, line) for one in sums) for line in lines}
    line = max(lines, key=lambda one: lines[one] - rest[one])
    return Place(where[0], line, where[1], shares[where], usual[where])


def _sums(stacks: Stacks) -> Sums:
    """By function the time in it and in what it calls, callers before callees; then its own. Of
    recursion the innermost call tells the line."""
    sums: Sums = {}
    split = [([split_line(frame) for frame in frames], ns) for frames, ns in stacks]
    ordered = sorted(split, key=lambda stack: len(stack[0]))
    for frames, ns in ordered:
        for function, line in dict(frames).items():
            sums.setdefault((function, False), Counter())[line] += ns
    for frames, ns in ordered:
        function, line = frames[-1]
        sums.setdefault((function, True), Counter())[line] += ns
    return sums


def _whole(sums: Sums) -> int:
    """The outermost frame of a thread is there all the time."""
    return max((lines.total() for lines in sums.values()), default=0) or 1


def _shares(sums: Sums) -> Mapping[Where, float]:
    whole = _whole(sums)
    return {where: lines.total() / whole for where, lines in sums.items()}


def _ratio(sums: Sums, where: Where, line: int) -> float:
    return sums[where][line] / _whole(sums) if where in sums else 0.0
