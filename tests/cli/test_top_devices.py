from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console, Group

from pilotlight.cli.top_devices import coverage_lines, devices_view

GPU = {
    "utilization": [87.0, "%"],
    "sm_active": [61.0, "%"],
    "memory_used": [40 << 30, "B"],
    "memory_total": [80 << 30, "B"],
    "power": [412.0, "W"],
    "power_limit": [700.0, "W"],
    "throttle_reasons": [4 | 32, "bits"],
    "ecc_uncorrected": [2.0, "errors"],
}


def shown(**parts: Any) -> str:
    devices = {"values": {}, "sources": [], "events": [], **parts}
    out = StringIO()
    Console(file=out, width=200).print(Group(*devices_view(devices)))
    return out.getvalue()


def test_a_gpu_is_a_row_with_what_holds_its_clocks() -> None:
    text = shown(values={"gpu0": GPU})
    for part in ("87%", "61%", "40.0/80 GB", "412/700 W", "power, temperature", "2"):
        assert part in text
    assert "tensor" not in text


def test_gpus_are_in_the_order_of_their_numbers() -> None:
    text = shown(values=dict.fromkeys(("gpu10", "gpu2", "gpu2/gi1"), GPU))
    assert text.index("gpu2 ") < text.index("gpu2/gi1") < text.index("gpu10")


def test_a_blocked_driver_and_an_xid_are_said_and_a_missing_device_is_no_news() -> None:
    sources = [
        {"name": "nvml", "state": "blocked", "detail": "a call has not returned for 9 s"},
        {"name": "amd", "state": "missing", "detail": "not installed"},
    ]
    event = {"age_ns": 3_000_000_000, "device": "gpu1", "name": "xid", "value": 79, "text": "gone"}
    text = shown(sources=sources, events=[event])
    assert "nvml blocked: a call has not returned for 9 s" in text
    assert "3 s ago: gpu1 xid 79: gone" in text and "amd" not in text


def test_a_gpu_that_does_not_answer_is_said_as_long_as_it_does_not() -> None:
    missing = {"gpu1 gpu": "gpu is lost", "gpu0 gpm gpu0": "not supported"}
    nvml = {"name": "nvml", "state": "working", "detail": "", "missing": missing}
    text = shown(sources=[nvml], values={"gpu0": GPU})
    assert "gpu1 does not answer: gpu is lost" in text and "not supported" not in text


def test_nothing_is_shown_where_nothing_is_known() -> None:
    assert shown().strip() == ""


def test_the_coverage_of_a_jobs_gpus_is_said_with_who_asked_for_it() -> None:
    asked = [
        {"client": "recording", "tier": "records"},
        {"client": "subscriber 7", "tier": "nodes"},
    ]
    processes = [
        {"job": "a", "gpu": {"tier": "nodes", "records_ratio": ratio, "spent_ratio": cost}}
        for ratio, cost in ((0.1, 0.007), (0.25, None))
    ]
    jobs = [{"job": "a", "gpu": {"tier": "nodes", "asked": asked}}]
    (line,) = coverage_lines({"jobs": jobs, "processes": [*processes, {"job": "a", "gpu": None}]})
    assert line == (
        "GPUs of a: nodes for subscriber 7, device records 10% to 25% of the time, costs 0.70%"
    )
    assert not coverage_lines({"jobs": jobs, "processes": []})
