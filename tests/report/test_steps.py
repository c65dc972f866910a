from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example import Process, write_chunk, write_example, write_head

from pilotlight.recording.recording import Recording
from pilotlight.report.report import report_of
from pilotlight.report.steps import outliers_in

MS = 1_000_000


def steps(process: Process, durations_ms: list[int], start_ns: int = 2_000) -> None:
    for number, duration_ms in enumerate(durations_ms):
        process.add("steps", 7, number, start_ns, duration_ms * MS)
        start_ns += duration_ms * MS


def test_steps_are_summed_up_by_process(tmp_path: Path) -> None:
    fast, slow = Process(0), Process(1)
    steps(fast, [10, 20, 30, 40])
    steps(slow, [100])
    report = report_of(Recording.open(write_example(tmp_path, fast, slow)))
    first, second = report.steps
    assert (first.count, first.median_ns, first.p95_ns) == (4, 20 * MS, 40 * MS)
    assert (first.min_ns, first.max_ns, first.total_ns) == (10 * MS, 40 * MS, 100 * MS)
    assert (second.process, second.count, second.median_ns) == (1, 1, 100 * MS)


def test_an_outlier_is_told_with_its_place_and_what_it_did(tmp_path: Path) -> None:
    process = Process(0)
    durations = [10] * 20
    durations[12] = 100
    steps(process, durations)
    begin = 2_000 + 120 * MS
    save, run = process.stack("train", "save"), process.stack("train", "forward")
    for tick in range(10):
        at = begin + (10 * tick + 5) * MS
        process.add("samples", 7, save if tick < 8 else run, 1, 0, at, 10 * MS)
        process.add("samples", 8, run, 1, 0, at, 10 * MS)
    process.add("spans", 7, 0, 2, 0, begin - 2 * MS, 6 * MS)
    report = report_of(Recording.open(write_example(tmp_path, process)))
    (summary,) = report.steps
    (outlier,) = summary.outliers
    assert (summary.outlier_count, summary.outlier_excess_ns) == (1, 90 * MS)
    assert (outlier.step, outlier.duration_ns, outlier.ratio) == (12, 100 * MS, 10.0)
    assert outlier.since_start_ns == begin - 1_000
    assert outlier.gc_ns == 4 * MS
    assert (outlier.doing, outlier.doing_ratio) == ("train › save", 0.8)


def test_even_steps_and_few_steps_have_no_outliers() -> None:
    assert not outliers_in(np.array([100] * 50)).any()
    assert not outliers_in(np.array([1, 1, 1, 1000])).any()
    assert not outliers_in(np.array([100 + number % 7 for number in range(90)])).any()


def test_a_step_a_quarter_above_a_steady_median_is_an_outlier() -> None:
    durations = np.array([100] * 50 + [124, 126])
    assert np.flatnonzero(outliers_in(durations)).tolist() == [51]


def test_a_step_in_windows_and_detail_counts_once(tmp_path: Path) -> None:
    write_head(tmp_path, last_chunk=1)
    row = (0, 7, 1, 5_000, 10 * MS)
    later = (0, 7, 2, 5_000 + 10 * MS, 20 * MS)
    write_chunk(tmp_path / "windows", {"steps": [row]})
    write_chunk(tmp_path / "detail" / "000001", {"steps": [row, later]})
    report = report_of(Recording.open(tmp_path))
    assert [summary.count for summary in report.steps] == [2]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "draw",
    [
        lambda random: random.lognormal(0, 0.8, 1000),
        lambda random: random.exponential(1, 1000) + 0.1,
        lambda random: random.pareto(2, 1000) + 1,
        lambda random: np.where(random.random(1000) < 0.8, 1, random.uniform(1, 4, 1000)),
    ],
    ids=["lognormal", "exponential", "pareto", "one step of five is held up"],
)
def test_a_job_whose_steps_vary_much_has_hardly_any_outliers(
    draw: Callable[[np.random.Generator], Any], seed: int
) -> None:
    durations = (1e8 * draw(np.random.default_rng(seed))).astype(np.int64)
    assert outliers_in(durations).mean() <= 0.02


def test_a_few_steps_far_from_all_others_are_outliers_also_beside_noise() -> None:
    durations = (5e6 * np.random.default_rng(0).lognormal(0, 0.1, 200)).astype(np.int64)
    durations[3::12] = np.linspace(7e6, 14e6, durations[3::12].size).astype(np.int64)
    durations[49::50] = 85_000_000
    assert np.flatnonzero(outliers_in(durations)).tolist() == list(range(49, 200, 50))


def test_every_tenth_step_three_times_as_long_is_an_outlier() -> None:
    durations = np.random.default_rng(0).normal(1e8, 2e6, 200).astype(np.int64)
    durations[9::10] *= 3
    assert np.flatnonzero(outliers_in(durations)).tolist() == list(range(9, 200, 10))


def test_steps_whose_beginnings_were_lost_are_no_long_step(tmp_path: Path) -> None:
    process = Process(0)
    for number in range(40):
        # The beginnings of 21 to 29 were dropped: 20 seems to last until 30.
        if number <= 20 or number >= 30:
            length = 100 if number == 20 else 10
            process.add("steps", 7, number, 2_000 + number * 10 * MS, length * MS)
    process.add("gaps", 0, 1, 2_000 + 205 * MS, 2_000 + 295 * MS, 321)
    report = report_of(Recording.open(write_example(tmp_path, process)))
    (found,) = report.steps
    assert (found.count, found.max_ns, found.outlier_count) == (30, 10 * MS, 0)
    (gap,) = report.losses.gaps
    assert (gap.first_step, gap.last_step) == (20, 29)


def test_a_long_step_in_which_records_were_lost_is_still_one(tmp_path: Path) -> None:
    process = Process(0)
    durations = [10] * 20
    durations[12] = 100
    steps(process, durations)
    process.add("gaps", 0, 1, 2_000 + 125 * MS, 2_000 + 130 * MS, 3)
    (found,) = report_of(Recording.open(write_example(tmp_path, process))).steps
    assert (found.count, found.max_ns, found.outlier_count) == (20, 100 * MS, 1)
