from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight import _drain
from pilotlight.agent.launched import LAUNCHED_NS, NOT_KNOWN, OTHER, Launched
from pilotlight.agent.tables import Columns, packed
from pilotlight.recording.schema import ActivityKind
from pilotlight.ship.definitions import Definitions

LATE_NS = 1 << 60
GEMM, COPY, LAYER = 1, 2, 3


@dataclass(frozen=True)
class Row:
    name: int
    start_ns: int
    duration_ns: int
    stack: int = 0
    range: int = 0
    kind: int = ActivityKind.KERNEL


def activities(*rows: Row) -> Columns:
    return packed(
        "activities",
        [
            (0, 1, r.name, 1, r.kind, 0, r.start_ns, r.duration_ns, 0, 0, r.stack, r.range, 0)
            for r in rows
        ],
    )[1]


@pytest.fixture
def definitions() -> Definitions:
    def texts(name: str, *values: str) -> Columns:
        ends = [0]
        for value in values:
            ends.append(ends[-1] + len(value))
        return {name: "".join(values).encode(), f"{name}:offsets": array("i", ends).tobytes()}

    found = Definitions()
    names = texts("text", "gemm", "Memcpy HtoD", "layers.3")
    frames = texts("function", "main", "forward") | texts("file", "/a/train.py", "/a/model.py")
    lines = {"line": array("I", [88, 0]).tobytes()}
    found.learn(
        {
            "names": (3, {**names, "id": array("I", [GEMM, COPY, LAYER]).tobytes()}),
            "frames": (2, {**frames, "id": array("I", [10, 11]).tobytes(), **lines}),
            "stacks": packed("stacks", [(0, 20, 0, 10), (0, 21, 20, 11)]),
        }
    )
    return found


def test_a_kernel_stands_below_its_stack_and_its_range(definitions: Definitions) -> None:
    launched = Launched()
    launched.add(activities(Row(GEMM, 0, 5, 21, LAYER), Row(GEMM, 100, 7, 21, LAYER)))
    launched.add(activities(Row(GEMM, 200, 9, 21, LAYER), Row(COPY, 0, 3, kind=2)))
    found = {text: (kind, one) for _, kind, text, one in launched.take(LATE_NS, definitions, 64)}
    path = "main (a/train.py:88)\nforward (a/model.py)\nlayers.3\ngemm"
    assert set(found) == {path, f"{NOT_KNOWN}\nMemcpy HtoD"}
    kind, one = found[path]
    assert (kind, one.count, one.total_ns, one.longest_ns) == (ActivityKind.KERNEL, 3, 21, 9)
    assert launched.take(LATE_NS, definitions, 64) == []


def test_a_window_is_handed_out_when_it_is_over_or_nothing_more_comes(
    definitions: Definitions,
) -> None:
    launched = Launched()
    launched.add(activities(Row(GEMM, LAUNCHED_NS - 10, 10), Row(GEMM, LAUNCHED_NS - 10, 5)))
    (first,) = launched.take(LAUNCHED_NS + 10_000_000_000, definitions, 64)
    assert (first[0], first[3].total_ns) == (0, 5)
    assert launched.take(LAUNCHED_NS + 10_000_000_000, definitions, 64) == []
    launched.close()
    (second,) = launched.take(LAUNCHED_NS + 10_000_000_000, definitions, 64)
    assert (second[0], second[3].total_ns) == (LAUNCHED_NS, 10)


def test_waiting_is_no_work_of_the_device(definitions: Definitions) -> None:
    launched = Launched()
    launched.add(activities(Row(GEMM, 0, 5, kind=ActivityKind.SYNCHRONIZATION)))
    assert launched.take(LATE_NS, definitions, 64) == []


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 10**6)), max_size=200),
    st.integers(0, 8),
)
def test_no_time_is_lost_however_few_get_a_name(
    rows: list[tuple[int, int, int]], most: int
) -> None:
    launched = Launched()
    for half in (rows[::2], rows[1::2]):
        launched.add(activities(*(Row(name, 0, ns, stack) for name, stack, ns in half)))
    found = launched.take(LATE_NS, Definitions(), most)
    assert sum(one.total_ns for *_, one in found) == sum(ns for *_, ns in rows)
    assert len([text for _, _, text, _ in found if text != OTHER]) <= most


def test_sums_beyond_the_limit_are_counted(definitions: Definitions) -> None:
    columns = activities(*(Row(n, 0, 1) for n in range(1, 11)))
    names = ("stack", "range", "name", "kind", "start_ns", "duration_ns")
    rows, left_out_ns = _drain.launched_sums(*(columns[name] for name in names), LAUNCHED_NS, 4)
    assert len(array("q", rows)) == 4 * 8
    assert left_out_ns == 6
    with pytest.raises(ValueError, match="not as long"):
        _drain.launched_sums(b"", b"", b"", b"\1", b"", b"", LAUNCHED_NS, 4)


def test_numbers_that_make_no_sense_are_left_out() -> None:
    launched = Launched()
    launched.add(activities(Row(GEMM, -5, 3), Row(GEMM, 5, -3), Row(GEMM, 1 << 62, 1 << 62)))
    assert launched.take(LATE_NS, Definitions(), 64) == []
