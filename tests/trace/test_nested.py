from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.trace.interval import union
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.nested import call_tree, lane_parts, own_parts
from pilotlight.trace.trace import Trace

rows = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 2)), min_size=1, max_size=15
)


def trace_of(spans: list[tuple[int, int, int]]) -> Trace:
    events = [
        {"ph": "X", "name": f"s{i % 3}", "pid": 1, "tid": tid, "ts": start, "dur": length}
        for i, (start, length, tid) in enumerate(spans)
    ]
    return read_kineto(iter([json.dumps(events).encode()]), "a.json")


@given(rows)
def test_own_times_add_up_to_the_time_covered(spans: list[tuple[int, int, int]]) -> None:
    trace = trace_of(spans)
    for _, part in lane_parts(trace):
        nodes = call_tree(trace, part)
        covered = union(trace.spans.start_ns[part], trace.spans.end_ns[part]).total_ns()
        assert sum(node.self_ns for node in nodes) == covered
        assert sum(node.count for node in nodes) == len(part)
        assert all(node.self_ns >= 0 for node in nodes)


@given(rows)
def test_every_row_is_in_one_part_of_its_lane(spans: list[tuple[int, int, int]]) -> None:
    trace = trace_of(spans)
    found = sorted((row, lane) for lane, part in lane_parts(trace) for row in part)
    assert found == [(row, int(lane)) for row, lane in enumerate(trace.spans.lane)]


def test_a_path_is_the_names_around_a_span() -> None:
    nodes = call_tree(trace_of([(0, 10, 1), (1, 3, 1), (2, 1, 1)]), [0, 1, 2])
    assert [(node.parent, node.self_ns) for node in nodes[1:]] == [(0, 7000), (1, 2000), (2, 1000)]


def test_own_parts_of_nested_spans_leave_out_what_lies_within() -> None:
    spans = trace_of([(0, 100, 1), (10, 50, 1), (20, 10, 1), (0, 40, 2)]).spans
    assert own_parts(spans, spans.duration_ns).tolist() == [50_000, 40_000, 10_000, 40_000]
