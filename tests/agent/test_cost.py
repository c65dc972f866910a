from __future__ import annotations

import math

import pytest

from pilotlight.agent.cost import Meter

SECOND = 1_000_000_000


def test_the_sampler_costs_what_its_records_say_since_it_was_asked() -> None:
    meter = Meter()
    meter.add([10 * SECOND], [900_000_000], [9000])
    assert meter.read({}) == {}, "when the first record's time began is not known"
    meter.add([11 * SECOND, 12 * SECOND], [4_000_000, 6_000_000], [100, 100])
    assert meter.read({}) == {"sampler_ratio": 0.005, "rate_hz": 100.0}
    meter.add([], [], [])
    assert meter.read({}) == {}, "a sampler that has said nothing since is not known"
    meter.add([22 * SECOND], [10_000_000], [500])
    assert meter.read({}) == {"sampler_ratio": 0.001, "rate_hz": 50.0}


def test_what_a_provider_has_not_measured_yet_is_absent() -> None:
    told = Meter().read({"tier": 0.0, "duty": 0.2, "launches_duty": 1.0})
    assert told == {"tier": "records", "launches_ratio": 1.0, "records_ratio": 0.2}
    measured = {"overhead_low": 0.001, "overhead_high": 0.004, "spent_ratio": 0.005}
    told = Meter().read({"tier": 0.0, "duty": 0.2, **measured})
    assert {name: told[name] for name in measured} == pytest.approx(measured)


def test_ratios_that_no_collector_takes_are_not_told() -> None:
    told = Meter().read({"tier": 1.0, "duty": 1e300, "launches_duty": math.nan})
    assert "records_ratio" not in told and told["launches_ratio"] == 0.0
