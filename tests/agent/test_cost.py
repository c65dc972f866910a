from __future__ import annotations

from typing import Any

import pytest

from pilotlight.agent.cost import Meter

SECOND = 1_000_000_000


def live(seconds: int, cpu_ms: int, passes: int, **gpu: float) -> dict[str, Any]:
    sampler = {"time_ns": seconds * SECOND, "cpu_ns": cpu_ms * 1_000_000, "passes": passes}
    return {"sampler": sampler, "gpu": gpu}


def test_the_sampler_costs_what_it_took_since_it_was_asked() -> None:
    meter = Meter()
    assert meter.read(live(100, 900, 9000)) == {}
    assert meter.read(live(110, 950, 10_000)) == {"sampler_ratio": 0.005, "rate_hz": 100.0}
    assert meter.read(live(120, 960, 10_500)) == {"sampler_ratio": 0.001, "rate_hz": 50.0}
    # A sampler that has said nothing since is not known.
    assert meter.read(live(120, 960, 10_500)) == {}


def test_what_a_provider_has_not_measured_yet_is_absent() -> None:
    told = Meter().read(live(0, 0, 0, tier=0.0, duty=0.2, launches_duty=1.0))
    assert told == {"tier": "records", "launches_ratio": 1.0, "records_ratio": 0.2}
    measured = {"overhead_low": 0.001, "overhead_high": 0.004, "spent_ratio": 0.005}
    told = Meter().read(live(0, 0, 0, tier=0.0, duty=0.2, **measured))
    assert {name: told[name] for name in measured} == pytest.approx(measured)
