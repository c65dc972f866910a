from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.insights.telling import first, is_silent, only, simulated, verdict, with_counters

from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Steps

MINUTE = 60_000_000_000


def test_a_throttled_clock_explains_the_slow_device() -> None:
    traces = simulated("throttle", 1, 1.3, counters=True)
    assert first(*traces) == ("throttle", 1)


def test_a_power_cap_on_all_devices_is_a_policy() -> None:
    assert is_silent("A22", *simulated("power_cap", 0, 1.5, counters=True))


def test_without_clocks_it_says_so() -> None:
    assert "clocks" in verdict("A22", *simulated()).missing


def training(script: Any, **counters: list[float]) -> Any:
    story = script()

    def body() -> None:
        story.launch("gemm_tensorop", 500).launch("FusedAdam", 200)
        story.host_us = story.device_us + 100

    for _ in range(4):
        story.step(body)
    return with_counters(story.trace(), {f"gpu0 {name}": v for name, v in counters.items()})


def test_memory_that_is_nearly_full_is_a_risk_and_shown_without_a_gain(script: Any) -> None:
    finding = only("A36", training(script, memory_used=[78e9], memory_total=[80e9]))
    assert finding.is_risk and finding.gain_high_ratio == 0
    assert finding.gain_text == "none by itself, a risk"


def test_the_trace_knows_the_size_of_its_device_better_than_a_table(tmp_path: Path) -> None:
    """A V100 has 16 or 32 GB: 15.5 GB are not half of the smaller one."""
    total = {"Total Allocated": 15_500_000_000}
    instant = {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 9}
    events = [kernel, {**instant, "args": {**total, "Device Type": 1, "Device Id": 0}}]
    for size, is_full in ((16_945_512_448, True), (34_084_028_416, False)):
        device = {"id": 0, "name": "Tesla V100-SXM2", "totalGlobalMem": size}
        path = tmp_path / f"{size}.json"
        path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
        assert bool(verdict("A36", *read_traces([path]).traces).findings) == is_full


def test_memory_that_grows_is_a_risk(script: Any) -> None:
    grows = list(np.linspace(20e9, 40e9, 80))
    assert only("A36", training(script, memory_used=grows, memory_total=[80e9])).is_risk


def test_room_for_a_larger_batch_is_found_where_much_of_the_step_is_fixed(script: Any) -> None:
    finding = only("A36", training(script, memory_used=[20e9], memory_total=[80e9]))
    assert finding.cause == "batch"
    # Optimizer and gap, 300 of 800 µs, are spread over twice the samples.
    assert finding.gain_high_ratio == pytest.approx(0.19, abs=0.03)


def test_memory_without_counters_is_not_checked(script: Any) -> None:
    assert "memory" in verdict("A36", training(script)).missing


def recording(script: Any, start_minutes: int) -> Any:
    trace = replace(training(script), format="recording")
    begin = int(trace.spans.start_ns.min())
    steps = Steps(
        np.array([1, 2]), begin + MINUTE * np.array([start_minutes, 60]), np.array([9, 9])
    )
    return replace(trace, steps=steps)


def test_a_start_of_half_an_hour_is_found(script: Any) -> None:
    assert only("A38", recording(script, 30)).gain_high_ratio == pytest.approx(0.5, abs=0.01)
    assert is_silent("A38", recording(script, 5))
    assert "recording" in verdict("A38", training(script)).missing
