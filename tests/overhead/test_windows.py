from __future__ import annotations

import pytest

from pilotlight.overhead.interval import LEAST_PAIRS
from pilotlight.overhead.windows import Window, compare, long_enough, place_steps


def alternating(pairs: int, on_ns: int, off_ns: int) -> list[Window]:
    windows = []
    for pair in range(pairs):
        for place, is_on in enumerate((pair % 2 == 0, pair % 2 == 1)):
            window = Window(is_on, start_ns=(2 * pair + place) * 1000)
            window.step_ns = [on_ns if is_on else off_ns] * 5
            window.cpu_ns = 5 * (on_ns if is_on else off_ns)
            windows.append(window)
    return windows


def test_the_cost_is_the_ratio_of_step_times_whatever_the_order() -> None:
    comparison = compare(alternating(12, on_ns=103, off_ns=100))
    assert comparison is not None
    assert comparison.step_time.value == pytest.approx(1.03)
    assert comparison.cpu_per_step is not None
    assert comparison.cpu_per_step.value == pytest.approx(1.03)
    assert comparison.steps == 120


def test_too_few_pairs_say_nothing() -> None:
    assert compare(alternating(LEAST_PAIRS - 1, 1, 1)) is None


def test_windows_with_too_few_steps_do_not_count() -> None:
    windows = alternating(8, 10, 10)
    for window in windows[:8]:
        window.step_ns = window.step_ns[:2]
    assert compare(windows) is None


def test_a_window_cut_off_by_the_end_of_the_job_is_left_out() -> None:
    comparison = compare(alternating(LEAST_PAIRS + 1, 10, 10)[:-1])
    assert comparison is not None
    assert comparison.step_time.pairs == LEAST_PAIRS


def test_a_process_that_ended_in_a_window_costs_only_the_cpu_time_of_its_pair() -> None:
    windows = alternating(12, on_ns=103, off_ns=100)
    windows[-1].cpu_ns = -5_000
    comparison = compare(windows)
    assert comparison is not None and comparison.cpu_per_step is not None
    assert comparison.cpu_per_step.pairs == 11
    assert comparison.cpu_per_step.value == pytest.approx(1.03)


def test_windows_are_long_enough_for_the_slowest_steps() -> None:
    rates = [{"steps_per_s": rate} for rate in (0.0, 100.0, 0.5)]
    assert long_enough(1.0, rates) == 10.0
    assert long_enough(1.0, rates[:2]) == 1.0
    assert long_enough(1.0, []) == 1.0
    assert long_enough(1.0, [{"steps_per_s": 0.001}]) == 120.0


def test_a_step_across_the_border_belongs_to_no_window() -> None:
    windows = [Window(True, 0, 100), Window(False, 110, 200)]
    place_steps(windows, [0, 95, 120], [50, 20, 80])
    assert [window.step_ns for window in windows] == [[50], [80]]
