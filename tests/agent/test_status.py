"""What the agent says of processes."""

from __future__ import annotations

from pilotlight.agent.process import Rates
from pilotlight.agent.status import looks_after

_MS = 1_000_000


def test_rates_span_a_second_however_many_look() -> None:
    looks = (Rates(0, {}), Rates(0, {}))
    spans_ms = []
    # Two who look once a second, ten milliseconds after each other.
    for time_ms in sorted([*range(1000, 9000, 1000), *range(1010, 9000, 1000)]):
        looks = looks_after(looks, Rates(time_ms * _MS, {"steps": time_ms}))
        spans_ms.append(time_ms - looks[0].time_ns // _MS)
    assert spans_ms == [1000, 1010] * 8
