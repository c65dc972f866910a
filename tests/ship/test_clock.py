"""The offset between two clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.ship.clock import ClockOffset

HOUR = 3_600 * 10**9


@given(
    st.integers(-HOUR, HOUR),
    st.lists(st.tuples(st.integers(1, 10**8), st.integers(1, 10**8)), min_size=1, max_size=20),
)
def test_the_truth_is_within_the_uncertainty(
    offset_ns: int, travels: list[tuple[int, int]]
) -> None:
    clock = ClockOffset()
    now_ns = 10**18
    for there_ns, back_ns in travels:
        received_ns = now_ns + offset_ns + there_ns
        clock.observe(now_ns, received_ns, received_ns + 500, now_ns + there_ns + back_ns + 500)
        now_ns += 10**10
    best = clock.best
    assert best is not None
    assert abs(best.offset_ns - offset_ns) <= best.uncertainty_ns


def test_a_stepped_clock_is_noticed_at_once() -> None:
    clock = ClockOffset()
    clock.observe(1000, 2000, 2000, 1002)
    clock.observe(HOUR, 2000, 2000, HOUR + 10)
    assert clock.best is not None and clock.best.offset_ns < -HOUR // 2
