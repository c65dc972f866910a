from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.insights.telling import is_silent, only, verdict, with_counters

from pilotlight.trace.reader import read_traces

H100 = "NVIDIA H100 80GB HBM3"


def server(script: Any, rounds: list[tuple[str, float, float]]) -> Any:
    """Rounds of a server: name, busy and idle microseconds."""
    story = script()
    for name, busy, idle in rounds:
        begin = story.host_us
        story.launch("flash_decode", busy, cost=1)
        story.host_us = max(story.host_us, story.device_us) + idle
        story.span("user_annotation", name, begin, story.host_us - begin)
    return story.trace(device=H100)


def decodes(batch: int, idle: float = 1.0) -> list[tuple[str, float, float]]:
    return [(f"step[DECODE bs={batch}]", 1000.0, idle)] * 100


def test_few_sequences_at_once_are_found(script: Any) -> None:
    finding = only("A40a", server(script, decodes(16)))
    # 989.5 TFLOP/s over 3.35 TB/s for 16-bit weights.
    assert "295" in finding.evidence[0]
    assert is_silent("A40a", server(script, decodes(200)))


@pytest.mark.filterwarnings("error")
def test_without_a_decode_its_batch_is_not_asked(script: Any) -> None:
    prefills = [("step[DECODE bs=8] prefill", 8000.0, 1.0)] * 30
    assert "only prefills" in verdict("A40a", server(script, prefills)).missing


def test_prefills_between_decodes_are_found(script: Any) -> None:
    rounds = [*decodes(200), *[("step[EXTEND bs=1]", 8000.0, 1.0)] * 3]
    assert only("A40b", server(script, rounds)).cause == "prefill"
    chunked = [*decodes(200), *[("step[EXTEND bs=1]", 1500.0, 1.0)] * 3]
    assert is_silent("A40b", server(script, chunked))
    assert "prefills" in verdict("A40b", server(script, decodes(200))).missing


def test_idle_time_between_decodes_is_found(script: Any) -> None:
    assert only("A40d", server(script, decodes(200, 400.0))).gain_high_ratio > 0.25
    assert is_silent("A40d", server(script, decodes(200, 50.0)))


def test_a_full_cache_and_a_queue_are_found_from_counters(script: Any) -> None:
    trace = server(script, decodes(200))
    full = with_counters(trace, {"kv_cache_usage": [99.0], "preemptions": [0.0, 4.0]})
    assert only("A40c", full).cause == "kv_cache"
    assert is_silent("A40c", with_counters(trace, {"kv_cache_usage": [50.0]}))
    late = with_counters(trace, {"queue_time": [0.8], "time_to_first_token": [1.0]})
    assert only("A40e", late).cause == "queue"
    quick = with_counters(trace, {"queue_time": [0.1], "time_to_first_token": [1.0]})
    assert is_silent("A40e", quick)
    for rule in ("A40c", "A40e"):
        assert "counters" in verdict(rule, trace).missing


def test_a_training_job_is_no_server(script: Any) -> None:
    assert "server" in verdict("A40a", script().launch("k", 10).trace()).missing


def test_the_batch_of_the_real_decode_is_read(shared_data: Path) -> None:
    traces = read_traces([shared_data / "kineto" / "sglang_qwen3_decode.json.gz"]).traces
    assert "32 sequences" in only("A40a", *traces).evidence[0]


def test_a_server_that_schedules_ahead_does_not_starve_its_device(script: Any) -> None:
    story = script()
    for _ in range(20):
        begin = story.host_us
        story.launch("flash_decode", 1000.0, cost=5)
        story.span("user_annotation", "step[DECODE bs=200]", begin, story.host_us - begin)
    assert is_silent("A40d", story.trace(device=H100))
