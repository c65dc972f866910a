"""Requests are bounded by the peer that they come from."""

from __future__ import annotations

import pytest

from pilotlight.collector.access import Rate, Rates, _is_foreign, _is_local_name
from pilotlight.collector.config import Listen, check_address
from pilotlight.errors import UsageError


def test_a_peer_that_asks_too_often_has_to_wait_and_others_do_not() -> None:
    rates = Rates(Rate(per_s=10.0, burst=3.0))
    assert [rates.take("loud", 100.0) for _ in range(5)] == [0, 0, 0, 0.1, 0.1]
    assert rates.take("quiet", 100.0) == 0
    # What it asked for in vain does not count against it.
    assert [rates.take("loud", 100.2) for _ in range(2)] == [0, 0.1]


def test_a_bucket_is_never_fuller_than_a_burst_and_old_peers_are_forgotten() -> None:
    rates = Rates(Rate(per_s=10.0, burst=3.0))
    assert [rates.take("late", 100.0 + 1e6 * (n > 0)) for n in range(5)] == [0, 0, 0, 0, 0.1]
    for number in range(5000):
        rates.take(f"peer {number}", 200.0)
    assert rates.take("late", 200.0) == 0


def test_an_address_that_makes_no_sense_is_refused() -> None:
    assert not _is_local_name("[")
    assert _is_foreign({"host": "localhost", "origin": "http://["})


def test_an_address_with_its_port_is_told_where_the_port_goes() -> None:
    with pytest.raises(UsageError, match=r"--address 127\.0\.0\.1 --port 7788"):
        check_address(Listen(address="127.0.0.1:7788"), has_tokens=False)
