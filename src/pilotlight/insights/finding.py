"""What a rule says: cause, place, evidence, fix, gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.job import Job
from pilotlight.trace.trace import Int64

NO_GPU = "the GPU's model is not in the trace (--gpu NAME) or not in the hardware table"
SHOWN_FROM_RATIO = 0.005
# What a rank does alone.
OWN_ROLES = ("host", "call", "delay", "kernel", "copy")


@dataclass(frozen=True)
class SpanReference:
    """A span to look at in a timeline."""

    rank: int
    name: str
    start_ns: int
    duration_ns: int


@dataclass(frozen=True)
class Remedy:
    """What is left of the time of parts of the job if the cause is gone; the replay says what the
    job gains. Factors by kernel name, by group of ranks, by role (host, call, copy, collective);
    `parts` of the host's time go to nothing; in the roles of `alike` the ranks are as fast as
    their `peers`; all only on `ranks`, if there are any. Calls that wait for the device (`waits`:
    sync or allocation) do so no more; `is_shared`: all ranks have the mean of their kernels, those
    of `own_level` at their own pace."""

    kernels: tuple[tuple[str, float], ...] = ()
    groups: tuple[tuple[str, float], ...] = ()
    roles: tuple[tuple[str, float], ...] = ()
    parts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()
    alike: tuple[str, ...] = ()
    waits: str = ""
    is_shared: bool = False
    own_level: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Gains are parts of the step time, as an interval; those of several findings never add up.
    A risk has none: it says what may stop the job."""

    rule: str
    cause: str
    title: str
    rank: int | None
    place: str
    evidence: tuple[str, ...]
    fix: str
    gain_low_ratio: float
    gain_high_ratio: float
    confidence: str
    spans: tuple[SpanReference, ...] = ()
    is_risk: bool = False
    remedies: tuple[Remedy, ...] = ()

    @property
    def gain_ratio(self) -> float:
        return (self.gain_low_ratio + self.gain_high_ratio) / 2

    @property
    def gain_text(self) -> str:
        if self.is_risk and not self.gain_high_ratio:
            return "none by itself, a risk"
        return f"{100 * self.gain_low_ratio:.1f} to {100 * self.gain_high_ratio:.1f} % of the step"

    @property
    def where(self) -> str:
        """The rank, if it is one's, and the place."""
        of_rank = "" if self.rank is None else f"rank {self.rank}"
        return ", ".join(dict.fromkeys(filter(None, (of_rank, self.place))))


@dataclass(frozen=True)
class Verdict:
    """The answer of one rule: findings, or why it could not look."""

    findings: Sequence[Finding] = ()
    missing: str = ""


@dataclass(frozen=True)
class Rule:
    """`explains` are the rules whose findings this one makes superfluous on the same ranks."""

    identity: str
    cause: str
    check: Callable[[Job], Verdict]
    explains: tuple[str, ...] = ()


def longest(rank: int, name: str, start_ns: Int64, duration_ns: Int64) -> tuple[SpanReference, ...]:
    """The three longest of these spans."""
    return tuple(
        SpanReference(rank, name, int(start_ns[i]), int(duration_ns[i]))
        for i in np.argsort(-duration_ns, kind="stable")[:3]
    )


def percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def milliseconds(nanoseconds: float) -> str:
    """Three digits that count: 2,019 ms and not 2019.21 ms; microseconds and seconds where that
    would be 0.00 ms or 10,034 ms."""
    number = nanoseconds / 1e6
    if 0 < number < 0.00995:
        return f"{1e3 * number:.2f} µs"
    if number >= 9_995:
        return f"{number / 1e3:.1f} s"
    if number >= 99.95:
        return f"{number:,.0f} ms"
    return f"{number:.1f} ms" if number >= 9.995 else f"{number:.2f} ms"
