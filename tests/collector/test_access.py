"""Requests are bounded by the peer that they come from."""

from __future__ import annotations

from pilotlight.collector.access import Rate, Rates


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
