from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.insights.change import levels


def test_a_step_up_is_found_at_its_place() -> None:
    random = np.random.default_rng(1)
    values = np.concatenate((random.normal(100, 2, 60), random.normal(110, 2, 40)))
    before, after = levels(values)
    assert abs(after.begin - 60) <= 1
    assert abs(before.typical - 100) < 1 and abs(after.typical - 110) < 1


def test_noise_and_single_outliers_make_no_level() -> None:
    alarms = 0
    for seed in range(50):
        values = np.random.default_rng(seed).normal(100, 2, 80)
        values[[20, 50]] = 400
        alarms += len(levels(values)) > 1
    assert alarms <= 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e9), max_size=60))
def test_the_levels_cover_the_series_without_a_gap(values: list[float]) -> None:
    found = levels(np.array(values))
    assert found[0].begin == 0 and found[-1].end == len(values)
    assert all(a.end == b.begin for a, b in itertools.pairwise(found))
