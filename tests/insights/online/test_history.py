from __future__ import annotations

from pilotlight.insights.online import Summary, regressions

STEP_NS = 1e8


def run(gemm: float, **more: float) -> dict[str, Summary]:
    values = {"gemm": gemm, **more}
    return {name: Summary(ns, 0.01 * ns, 400, "products") for name, ns in values.items()}


HISTORY = [run(2e7), run(2.01e7), run(1.99e7)]


def test_a_kernel_that_takes_longer_than_in_earlier_runs_is_a_regression() -> None:
    (finding,) = regressions(run(2.2e7), HISTORY, STEP_NS)
    assert finding.place == "gemm"
    assert abs(finding.gain_high_ratio - 0.02) < 0.001


def test_what_varies_between_runs_anyway_is_none() -> None:
    assert regressions(run(2.02e7), HISTORY, STEP_NS) == ()


def test_time_that_moved_to_another_kernel_of_the_family_is_none() -> None:
    history = [run(2e7, other=2e7), run(2e7, other=2e7)]
    assert regressions(run(3e7, other=1e7), history, STEP_NS) == ()


def test_less_than_half_a_per_cent_of_the_step_is_not_shown() -> None:
    assert regressions(run(2.2e7), HISTORY, 100 * STEP_NS) == ()


def test_without_history_there_is_nothing_to_say() -> None:
    assert regressions(run(2.2e7), [], STEP_NS) == ()
