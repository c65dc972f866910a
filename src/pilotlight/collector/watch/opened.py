"""Findings that open, go on and close."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pilotlight.collector.watch.recent import RecentJob
from pilotlight.insights.finding import Finding
from pilotlight.insights.online.steps import ALL_RANKS

CLOSE_NS = 60_000_000_000
"""A finding that was not seen again for this long is over."""

_CONFIRM_NS = 5_000_000_000
# What stops or endangers the job as a whole.
_CRITICAL = ("hang", "xid", "lost", "oom_kill", "silent")
_AT_ONCE = (*_CRITICAL, "throttle")
_INFO_RATIO = 0.02

# A suspect may change while a job hangs, and a slow step is slow on all ranks: still the same.
_OF_THE_JOB = ("hang", "irregular")
# Of these a job may have several at once.
_BY_PLACE = ("slow_link", "regression", "silent", "xid", "lost", "oom_kill", "node_event")

Key = tuple[str, str, str, str, int, str]
"""Tenant, job, rule, cause, rank (-1: the job) and place (where there may be several)."""


@dataclass(frozen=True)
class Opened:
    """One finding over its life; `wasted_gpu_s` grows while it is open."""

    key: Key
    attempt: int
    id: str
    finding: Finding
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    opened_ns: int
    updated_ns: int
    seen_ns: int
    closed_ns: int = 0
    wasted_gpu_s: float = 0.0
    capture: str = ""

    @property
    def is_open(self) -> bool:
        return not self.closed_ns

    @property
    def severity(self) -> str:
        if self.finding.cause in _CRITICAL:
            return "critical"
        return "info" if self.finding.gain_ratio < _INFO_RATIO else "warning"

    def row(self) -> dict[str, object]:
        """As the store keeps it."""
        tenant, job = self.key[:2]
        finding = self.finding
        return {
            "tenant": tenant,
            "job": job,
            "attempt": self.attempt,
            "id": self.id,
            "rule": finding.rule,
            "cause": finding.cause,
            "title": finding.title,
            "state": "open" if self.is_open else "closed",
            "severity": self.severity,
            "ranks": list(self.ranks),
            "nodes": list(self.nodes),
            "place": finding.place,
            "evidence": list(finding.evidence),
            "fix": finding.fix,
            "gain_low_ratio": finding.gain_low_ratio,
            "gain_high_ratio": finding.gain_high_ratio,
            "confidence": finding.confidence,
            "wasted_gpu_s": self.wasted_gpu_s,
            "opened_ns": self.opened_ns,
            "updated_ns": self.updated_ns,
            "closed_ns": self.closed_ns,
            "capture": self.capture,
        }


@dataclass
class Register:
    """All open findings. `update` returns those that opened, changed or closed."""

    open: dict[Key, Opened] = field(default_factory=dict)
    _first_seen: dict[Key, int] = field(default_factory=dict)

    def update(self, job: RecentJob, findings: Sequence[Finding], now_ns: int) -> list[Opened]:
        changed = []
        seen: set[Key] = set()
        for finding in findings:
            key = _key(job.tenant, job.job, finding)
            seen.add(key)
            known = self.open.get(key)
            if known is not None:
                changed.append(self._again(known, job, finding, now_ns))
            elif self._is_confirmed(key, finding, job.told_ns or now_ns):
                changed.append(self._new(key, job, finding, now_ns))
        mine = [key for key in self._first_seen if key[:2] == (job.tenant, job.job)]
        for key in mine:
            if key not in seen:
                del self._first_seen[key]
        return changed + self._close(job, seen, now_ns)

    def close_all(self, job: RecentJob, now_ns: int) -> list[Opened]:
        """The job is over."""
        return [self.close(one, now_ns) for one in self._of(job)]

    def orphans(self, jobs: Container[tuple[str, str]], before_ns: int) -> list[Opened]:
        """Those of jobs that nobody has heard of since then."""
        return [
            one for key, one in self.open.items() if key[:2] not in jobs and one.seen_ns < before_ns
        ]

    def forget(self, one: Opened) -> None:
        """Somebody else looks after it."""
        del self.open[one.key]

    def close(self, one: Opened, now_ns: int) -> Opened:
        del self.open[one.key]
        return replace(one, closed_ns=now_ns, updated_ns=now_ns)

    def captured(self, id: str, capture: str, now_ns: int) -> Opened | None:
        for key, one in self.open.items():
            if one.id == id:
                self.open[key] = replace(one, capture=capture, updated_ns=now_ns)
                return self.open[key]
        return None

    def _is_confirmed(self, key: Key, finding: Finding, told_ns: int) -> bool:
        """Once may be chance, and the same news looked at again is still once; what is urgent or
        certain does not wait."""
        first_ns = self._first_seen.setdefault(key, told_ns)
        is_sure = finding.cause in _AT_ONCE or finding.confidence == "high"
        return is_sure or told_ns - first_ns >= _CONFIRM_NS

    def _new(self, key: Key, job: RecentJob, finding: Finding, now_ns: int) -> Opened:
        ranks = _ranks(job, finding)
        one = Opened(
            key=key,
            attempt=job.attempt,
            id=_id(key, now_ns),
            finding=finding,
            ranks=ranks,
            nodes=_nodes(job, ranks),
            opened_ns=now_ns,
            updated_ns=now_ns,
            seen_ns=now_ns,
        )
        self.open[key] = one
        self._first_seen.pop(key, None)
        return one

    def _again(self, known: Opened, job: RecentJob, finding: Finding, now_ns: int) -> Opened:
        elapsed_s = max(0.0, (now_ns - known.seen_ns) / 1e9)
        ranks = _ranks(job, finding)
        one = replace(
            known,
            finding=finding,
            ranks=ranks,
            nodes=_nodes(job, ranks),
            updated_ns=now_ns,
            seen_ns=now_ns,
            wasted_gpu_s=known.wasted_gpu_s + elapsed_s * finding.gain_ratio * len(job.ranks),
        )
        self.open[known.key] = one
        return one

    def _close(self, job: RecentJob, seen: Iterable[Key], now_ns: int) -> list[Opened]:
        gone = [
            one for one in self._of(job) if one.key not in seen and now_ns - one.seen_ns >= CLOSE_NS
        ]
        return [self.close(one, now_ns) for one in gone]

    def _of(self, job: RecentJob) -> list[Opened]:
        return [one for key, one in self.open.items() if key[:2] == (job.tenant, job.job)]


def opened_from(row: Mapping[str, object]) -> Opened:
    """A finding that was open when the collector was stopped."""

    values = cast("dict[str, Any]", row)
    finding = Finding(
        rule=values["rule"],
        cause=values["cause"],
        title=values["title"],
        rank=values["ranks"][0] if len(values["ranks"]) == 1 else None,
        place=values["place"],
        evidence=tuple(values["evidence"]),
        fix=values["fix"],
        gain_low_ratio=values["gain_low_ratio"],
        gain_high_ratio=values["gain_high_ratio"],
        confidence=values["confidence"],
    )
    return Opened(
        key=_key(values["tenant"], values["job"], finding),
        attempt=values["attempt"],
        id=values["id"],
        finding=finding,
        ranks=tuple(values["ranks"]),
        nodes=tuple(values["nodes"]),
        opened_ns=values["opened_ns"],
        updated_ns=values["updated_ns"],
        seen_ns=values["updated_ns"],
        wasted_gpu_s=values["wasted_gpu_s"],
        capture=values["capture"],
    )


def _key(tenant: str, job: str, finding: Finding) -> Key:
    cause = finding.cause
    is_of_the_job = finding.rank is None or cause in _OF_THE_JOB or finding.place == ALL_RANKS
    rank = finding.rank if finding.rank is not None and not is_of_the_job else -1
    return tenant, job, finding.rule, cause, rank, finding.place if cause in _BY_PLACE else ""


def _ranks(job: RecentJob, finding: Finding) -> tuple[int, ...]:
    if finding.place == ALL_RANKS:
        return ()
    if finding.rank is not None:
        return (finding.rank,)
    if finding.place.startswith("ranks "):
        words = finding.place.removeprefix("ranks ").replace(", ...", "").split(", ")
        return tuple(int(word) for word in words if word.isdigit() and int(word) in job.ranks)
    return ()


def _nodes(job: RecentJob, ranks: Sequence[int]) -> tuple[str, ...]:
    return tuple(sorted({job.ranks[rank].node for rank in ranks if rank in job.ranks}))


def _id(key: Key, now_ns: int) -> str:
    return hashlib.blake2b(f"{key}{now_ns}".encode(), digest_size=8).hexdigest()
