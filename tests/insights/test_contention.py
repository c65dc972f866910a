from __future__ import annotations

from typing import Any

from tests.insights.telling import first, is_silent, only, simulated, verdict, with_counters


def waiting_job(script: Any, waits: list[float]) -> Any:
    story = script()
    for wait in waits:

        def body(wait: float = wait) -> None:
            story.host("enumerate(DataLoader)#next", wait).launch(
                "gemm_tensorop", 500
            ).synchronize()

        story.step(body)
    return story.trace()


def test_a_throttled_control_group_explains_the_straggler() -> None:
    traces = simulated("cpu_contention", 2, 1.5, counters=True)
    assert first(*traces) == ("cpu_contention", 2)


def test_without_counters_the_same_rank_is_a_straggler() -> None:
    assert first(*simulated("cpu_contention", 2, 1.5)) == ("straggler", 2)


def test_a_load_that_all_ranks_have_is_no_contention() -> None:
    traces = [with_counters(t, {"cgroup throttled": [2.0]}) for t in simulated()]
    assert is_silent("A05", *traces)


def test_without_counters_it_says_what_is_missing() -> None:
    assert "counters" in verdict("A05", *simulated()).missing


def test_busy_cores_explain_a_slow_loader(script: Any) -> None:
    trace = waiting_job(script, [300] * 6)
    assert only("A09", with_counters(trace, {"host cpu": [95.0, 97.0]})).cause == "loader_cpu"
    assert is_silent("A09", with_counters(trace, {"host cpu": [20.0]}))
    assert "cpu" in verdict("A09", trace).missing


def test_threads_that_wait_for_storage_explain_a_slow_loader(script: Any) -> None:
    trace = waiting_job(script, [300] * 6)
    found = only("A10", with_counters(trace, {"host pressure_io_some": [60.0]}))
    assert found.cause == "storage"
    assert is_silent("A10", with_counters(trace, {"host pressure_io_some": [1.0]}))


def test_waits_that_shrink_are_a_cold_cache(script: Any) -> None:
    assert "cold" in only("A10", waiting_job(script, [600] * 10 + [100] * 16)).title
    assert "counters" in verdict("A10", waiting_job(script, [300] * 13)).missing
