"""Which clients want how much of a job's GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from pilotlight.agent.session import Session
from pilotlight.tier import Tier, TierRequest

# Somebody who looks asks at least that often.
_LOOKS_NS = 10_000_000_000


def tier_of(session: Session, now_ns: int) -> Tier | None:
    """None: this client does not care for GPUs."""
    if session.subscribed is not None and session.subscribed.tier is not None:
        return session.subscribed.tier
    if session.looked_ns is not None and now_ns - session.looked_ns < _LOOKS_NS:
        return Tier.LAUNCHES
    return None


def tier_requests(
    job: str, sessions: Iterable[Session], has_collector: bool, now_ns: int
) -> list[TierRequest]:
    """All that share what is collected of the job, its recording among them."""
    requests = [TierRequest("recording", Tier.RECORDS)]
    if has_collector:
        requests.append(TierRequest("collector", Tier.RECORDS))
    for session in sessions:
        subscribed = session.subscribed
        tier = tier_of(session, now_ns)
        if tier is None or (subscribed and subscribed.job not in (None, job)):
            continue
        who = "subscriber" if subscribed else "top"
        requests.append(TierRequest(f"{who} {session.pid}", tier))
    return requests
