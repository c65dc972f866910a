from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pilotlight.agent.session import Session, Subscribed
from pilotlight.agent.tiers import tier_requests
from pilotlight.tier import Tier

_SECOND_NS = 1_000_000_000


@pytest.fixture
def session() -> Iterator[Session]:
    ours, theirs = socket.socketpair()
    yield Session(ours, 7, 0)
    ours.close()
    theirs.close()


def asked(*sessions: Session, job: str = "a", now_ns: int = 0) -> dict[str, Tier]:
    requests = tier_requests(job, sessions, has_collector=False, now_ns=now_ns)
    return {request.client: request.tier for request in requests}


def test_a_recording_asks_for_records_and_so_does_a_collector() -> None:
    assert asked() == {"recording": Tier.RECORDS}
    requests = tier_requests("a", (), has_collector=True, now_ns=0)
    assert [request.client for request in requests] == ["recording", "collector"]


def test_a_subscriber_asks_for_the_jobs_it_subscribed_to(session: Session) -> None:
    session.subscribed = Subscribed(frozenset({"coverage"}), "a", Tier.NODES)
    assert asked(session)["subscriber 7"] == Tier.NODES
    assert "subscriber 7" not in asked(session, job="b")
    session.subscribed = Subscribed(frozenset({"coverage"}), None, Tier.NODES)
    assert asked(session, job="b")["subscriber 7"] == Tier.NODES


def test_one_that_subscribed_to_something_else_does_not_ask(session: Session) -> None:
    session.subscribed = Subscribed(frozenset({"steps"}), "a")
    assert asked(session) == {"recording": Tier.RECORDS}


def test_top_asks_for_launches_as_long_as_it_looks(session: Session) -> None:
    session.looked_ns = 0
    assert asked(session, now_ns=_SECOND_NS)["top 7"] == Tier.LAUNCHES
    assert "top 7" not in asked(session, now_ns=60 * _SECOND_NS)
