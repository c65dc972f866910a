from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.trace.trace import NONE, Kind, Lane, Spans, Trace, no_counters, no_steps
from pilotlight.web.layout import DEEPEST, layout_of
from pilotlight.web.tiles import BINS, Extent, boxes, merging

SPANS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 800), st.integers(0, 2)), max_size=60
)


def trace_of(rows: list[tuple[int, int, int]]) -> Trace:
    start, duration, lane = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    none = np.full(len(rows), NONE, np.int64)
    kinds = np.where(lane == 0, Kind.KERNEL, Kind.OPERATOR).astype(np.uint8)
    name = (np.arange(len(rows)) % 3).astype(np.uint32)
    lanes = tuple(Lane("0", str(i), f"lane {i}") for i in range(3))
    spans = Spans(start, duration, kinds, name, lane.astype(np.uint32), none, none)
    return Trace("t", "kineto", 0, 1, (), ("a", "b", "c"), lanes, spans, no_counters(), no_steps())


@given(SPANS)
def test_in_a_row_no_span_covers_another_and_none_is_missing(
    rows: list[tuple[int, int, int]],
) -> None:
    trace = trace_of(rows)
    layout = layout_of(trace)
    assert sorted(layout.order.tolist()) == list(range(len(rows))) or layout.left_out
    for row in range(len(layout.rows)):
        mine = layout.order[layout.first[row] : layout.first[row + 1]]
        starts, ends = trace.spans.start_ns[mine], trace.spans.end_ns[mine]
        assert (starts[1:] >= ends[:-1]).all()


def test_nested_spans_stand_below_each_other() -> None:
    layout = layout_of(trace_of([(0, 100, 1), (10, 50, 1), (20, 10, 1), (70, 10, 1)]))
    assert [row.depth for row in layout.rows] == [0, 1, 2]
    assert layout.order.tolist() == [0, 1, 3, 2]


def test_devices_come_before_host_threads() -> None:
    layout = layout_of(trace_of([(0, 9000, 1), (0, 10, 0)]))
    assert [row.is_device for row in layout.rows] == [True, False]


def test_what_is_nested_too_deep_is_counted() -> None:
    layout = layout_of(trace_of([(i, 1000 - 2 * i, 1) for i in range(DEEPEST + 5)]))
    assert len(layout.rows) == DEEPEST
    assert layout.left_out == 5


@given(SPANS, st.integers(0, 4), st.data())
def test_a_tile_stands_for_every_span_that_touches_it_once(
    rows: list[tuple[int, int, int]], level: int, data: st.DataObject
) -> None:
    trace = trace_of(rows)
    layout = layout_of(trace)
    extent = Extent(0, 8192)
    index = data.draw(st.integers(0, (1 << level) - 1))
    found = boxes(trace, layout, extent, level, index)
    from_ns, to_ns = extent.tile(level, index)
    touching = [
        (start, length)
        for start, length, _ in rows
        if start < to_ns and (start + length > from_ns or start > from_ns)
    ]
    laid_out = len(layout.order)
    if laid_out == len(rows):
        assert int(found.count.sum()) == len(touching)
    bin_ns = (to_ns - from_ns) / BINS
    long = [pair for pair in touching if pair[1] >= bin_ns]
    assert int((found.count == 1).sum()) >= len(long) or laid_out != len(rows)
    assert (found.end_ns >= found.start_ns).all()


def test_short_spans_of_a_bin_become_one_box_named_after_the_longest() -> None:
    trace = trace_of([(0, 1, 0), (2, 5, 0), (8, 1, 0), (100_000, 1, 0)])
    found = boxes(trace, layout_of(trace), Extent(0, 1 << 20), 0, 0)
    assert found.count.tolist() == [3, 1]
    assert found.span.tolist() == [1, 3]
    assert (found.start_ns[0], found.end_ns[0]) == (0, 9)


def test_deep_enough_every_span_is_on_its_own() -> None:
    trace = trace_of([(i * 7, 5, 0) for i in range(500)])
    extent = Extent(0, 3500)
    level = extent.levels - 1
    total = sum(
        int((boxes(trace, layout_of(trace), extent, level, i).count == 1).sum())
        for i in range(1 << level)
    )
    assert total >= 500


@given(SPANS, st.integers(0, 4))
def test_the_tiles_that_merge_are_those_with_a_box_of_several_spans(
    rows: list[tuple[int, int, int]], level: int
) -> None:
    trace = trace_of(rows)
    layout, extent = layout_of(trace), Extent(0, 8192)
    found = merging(trace, layout, extent, level)
    for index in range(1 << level):
        counts = boxes(trace, layout, extent, level, index).count.tolist()
        assert (index in found) == (max(counts, default=1) > 1)
