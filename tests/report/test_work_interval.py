"""The interval of a total that was seen in windows only."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pilotlight.recording.columns import Columns
from pilotlight.recording.gpu_weights import Weights, weights
from pilotlight.recording.gpu_windows import GpuWindows
from pilotlight.recording.schema import ActivityKind
from pilotlight.report.work_interval import half_widths

_CYCLE_NS, _ON_NS = 1_000_000, 250_000


def _columns(starts_ns: np.ndarray, durations_ns: np.ndarray) -> Columns:
    rows = starts_ns.size
    return Columns(
        rows,
        {
            "process": np.zeros(rows, np.int64),
            "kind": np.full(rows, int(ActivityKind.KERNEL)),
            "detail": np.zeros(rows, np.int64),
            "correlation": np.zeros(rows, np.int64),
            "start_ns": starts_ns,
            "duration_ns": durations_ns,
        },
        {},
    )


def _windows(cycles: int) -> GpuWindows:
    starts = np.arange(cycles) * _CYCLE_NS
    both = np.column_stack([starts, starts + _ON_NS]).reshape(-1)
    return GpuWindows(0, both, np.tile([1, -1], cycles), cycles * _CYCLE_NS)


def _half(activities: Columns, windows: GpuWindows) -> tuple[float, float]:
    """The total that the report would show, and half of its interval."""
    none = activities.where(np.zeros(activities.rows, bool))
    found = weights(windows, activities, none)
    position = np.zeros(activities.rows, np.int64)
    (half,) = half_widths(activities, found, {0: windows}, position, 1).tolist()
    return float((activities["duration_ns"] * found.values).sum()), half


def test_the_truth_is_inside_in_about_95_of_100_runs() -> None:
    random = np.random.default_rng(7)
    windows, inside = _windows(40), 0
    for _ in range(300):
        # Work whose rate changes from cycle to cycle.
        rates = random.gamma(4, 20, 40)
        cycle = np.repeat(np.arange(40), random.poisson(rates))
        starts = np.sort(cycle * _CYCLE_NS + random.integers(0, _CYCLE_NS, cycle.size))
        lengths = random.exponential(1000, cycle.size).astype(np.int64)
        seen = starts % _CYCLE_NS < _ON_NS
        total, half = _half(_columns(starts[seen], lengths[seen]), windows)
        inside += abs(total - lengths.sum()) <= half
    # Binomial: 279 or more of 300 with a probability of 97 % if the interval is one of 95 %.
    assert inside / 300 >= 0.9


def _uneven_windows(random: np.random.Generator, cycles: int, on_ratio: float) -> GpuWindows:
    """As the provider makes them: their lengths are spread by a quarter either way."""
    means = np.tile([on_ratio, 1 - on_ratio], cycles) * _CYCLE_NS
    ends = np.cumsum(means * random.uniform(0.75, 1.25, 2 * cycles)).astype(np.int64)
    return GpuWindows(0, np.append(0, ends[:-1]), np.tile([1, -1], cycles), int(ends[-1]))


@pytest.mark.parametrize("on_ratio", [0.1, 0.5, 0.9])
def test_work_with_a_rhythm_is_cut_by_the_edges_of_windows_however_much_is_seen(
    on_ratio: float,
) -> None:
    random, inside = np.random.default_rng(7), 0
    for _ in range(200):
        windows = _uneven_windows(random, 30, on_ratio)
        starts = np.arange(int(random.integers(0, 40_000)), windows.end_ns, 40_000)
        lengths = np.full(starts.size, 20_000)
        seen = windows.has_records(starts)
        total, half = _half(_columns(starts[seen], lengths[seen]), windows)
        inside += abs(total - lengths.sum()) <= half
    assert inside / 200 >= 0.9


@pytest.mark.parametrize("cycles", [4, 5, 7])
def test_few_windows_are_known_to_tell_little(cycles: int) -> None:
    random, inside = np.random.default_rng(7), 0
    for _ in range(400):
        windows = _uneven_windows(random, cycles, 0.1)
        starts = np.arange(int(random.integers(0, 10_000)), windows.end_ns, 10_000)
        lengths = random.exponential(1000, starts.size).astype(np.int64)
        seen = windows.has_records(starts)
        total, half = _half(_columns(starts[seen], lengths[seen]), windows)
        inside += abs(total - lengths.sum()) <= half
    assert inside / 400 >= 0.93


def test_the_window_of_the_start_says_nothing_of_how_much_others_differ() -> None:
    starts = np.array([100_000, 1_100_000, 2_100_000])
    _, half = _half(_columns(starts, np.array([500, 900, 700])), _windows(3))
    assert math.isnan(half)


def test_what_changes_slowly_is_known_well() -> None:
    random = np.random.default_rng(7)
    windows = _uneven_windows(random, 40, 0.25)
    starts = np.sort(random.integers(0, windows.end_ns, 20_000))
    # Ten times as long at the end as at the beginning.
    lengths = (200 * (1 + 9 * starts / windows.end_ns)).astype(np.int64)
    seen = windows.has_records(starts)
    total, half = _half(_columns(starts[seen], lengths[seen]), windows)
    assert abs(total - lengths.sum()) <= half < 0.08 * total


def test_of_two_windows_nothing_is_known() -> None:
    starts = np.array([100_000, 1_100_000])
    _, half = _half(_columns(starts, np.array([500, 900])), _windows(2))
    assert math.isnan(half)


def test_where_everything_was_seen_the_total_is_exact() -> None:
    starts = np.arange(10) * 1000
    activities = _columns(starts, np.arange(10) + 5)
    windows = GpuWindows(0, np.array([0]), np.array([1]), 20_000)
    position = np.zeros(10, np.int64)
    all_seen = Weights(np.ones(10), np.zeros(10, bool))
    assert half_widths(activities, all_seen, {0: windows}, position, 1).tolist() == [0.0]
