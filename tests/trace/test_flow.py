from __future__ import annotations

import json
from typing import Any

from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import Trace


def trace_of(*events: dict[str, Any], base_ns: int = 0) -> Trace:
    span = {"ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
    document = {"baseTimeNanoseconds": base_ns, "traceEvents": [span, *events]}
    return read_kineto(iter([json.dumps(document).encode()]), "a.json")


def end(phase: str, number: int, time: int, thread: int, **more: Any) -> dict[str, Any]:
    row = {"ph": phase, "id": number, "ts": time, "pid": 1, "tid": thread, "cat": "fwdbwd"}
    return {**row, "name": "fwdbwd", **more}


def test_an_arrow_joins_its_start_and_its_finish() -> None:
    trace = trace_of(end("s", 1, 5, 1), end("s", 2, 6, 1), end("f", 2, 8, 2), end("f", 1, 9, 2))
    flows = trace.flows
    assert list(zip(flows.start_ns, flows.end_ns, strict=True)) == [(5000, 9000), (6000, 8000)]
    assert [trace.lanes[lane].thread for lane in flows.end_lane] == ["2", "2"]
    assert [trace.names[name] for name in flows.name] == ["fwdbwd", "fwdbwd"]


def test_steps_between_make_a_chain() -> None:
    flows = trace_of(end("s", 1, 5, 1), end("t", 1, 6, 2), end("f", 1, 7, 3)).flows
    assert list(zip(flows.start_ns, flows.end_ns, strict=True)) == [(5000, 6000), (6000, 7000)]


def test_ends_without_a_partner_are_no_arrow() -> None:
    assert len(trace_of(end("s", 1, 5, 1), end("f", 2, 6, 1), end("s", 3, 7, 1)).flows) == 0


def test_the_base_time_is_added() -> None:
    flows = trace_of(end("s", 1, 5, 1), end("f", 1, 6, 2), base_ns=10**6).flows
    assert (flows.start_ns[0], flows.end_ns[0]) == (1_005_000, 1_006_000)


def test_arrows_that_repeat_correlations_are_counted_only() -> None:
    trace = trace_of(end("s", 1, 5, 1, cat="ac2g"), end("f", 1, 6, 2, cat="ac2g"))
    assert len(trace.flows) == 0
    assert trace.skipped == {"s": 1, "f": 1}
