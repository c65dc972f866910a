from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.nested import nested_rows
from pilotlight.trace.perfetto_writer import write_perfetto
from pilotlight.trace.protobuf import fields, text
from pilotlight.trace.trace import Trace
from pilotlight.trace.trace_file import read_file


def trace_of(rows: list[tuple[int, int]]) -> Trace:
    events = [
        {"ph": "X", "name": f"s{i}", "pid": 1, "tid": 1, "ts": start, "dur": length}
        for i, (start, length) in enumerate(rows)
    ]
    return read_kineto(iter([json.dumps(events).encode()]), "a.json")


def slices(path: Path) -> list[tuple[int, str, int, int]]:
    """(track, name, begin, end) by replaying begins and ends as a viewer does."""
    names: dict[int, str] = {}
    open_slices: dict[int, list[tuple[int, int]]] = {}
    found = []
    events = []
    for _, packet in fields(memoryview(path.read_bytes())):
        assert isinstance(packet, memoryview)
        parts = dict(fields(packet))
        if 12 in parts:
            for number, name in fields(parts[12]):  # type: ignore[arg-type]
                if number != 2:
                    continue
                entry = dict(fields(name))  # type: ignore[arg-type]
                names[int(entry[1])] = text(entry[2])  # type: ignore[arg-type]
        if 11 in parts:
            event = dict(fields(parts[11]))  # type: ignore[arg-type]
            events.append((int(parts[8]), event))  # type: ignore[arg-type]
    for time, event in events:
        stack = open_slices.setdefault(int(event[11]), [])  # type: ignore[arg-type]
        if event[9] == 1:
            assert not stack or stack[-1][0] <= time
            stack.append((time, int(event[10])))  # type: ignore[arg-type]
        elif event[9] == 2:
            begin, name = stack.pop()
            found.append((int(event[11]), names[name], begin, time))  # type: ignore[arg-type]
    assert not any(open_slices.values())
    return found


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), min_size=1, max_size=15)


@given(spans)
def test_every_span_is_a_slice_of_its_own_length(
    tmp_path_factory: object, rows: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("p") / "a.pftrace"  # type: ignore[attr-defined]
    trace = trace_of(rows)
    write_perfetto([trace], path)
    found = sorted((name, end - begin) for _, name, begin, end in slices(path))
    expected = sorted((f"s{i}", length * 1000) for i, (_, length) in enumerate(rows))
    assert found == expected


@given(spans)
def test_spans_of_a_part_lie_within_or_after_each_other(rows: list[tuple[int, int]]) -> None:
    trace = trace_of(rows)
    parts = nested_rows(trace, np.arange(len(rows)))
    assert sorted(row for part in parts for row in part) == list(range(len(rows)))
    for part in parts:
        for i, a in enumerate(part):
            for b in part[i + 1 :]:
                a_end = rows[a][0] + rows[a][1]
                assert rows[b][0] >= a_end or rows[b][0] + rows[b][1] <= a_end


def test_overlapping_kernels_of_a_real_trace_are_all_there(
    shared_data: Path, tmp_path: Path
) -> None:
    (trace,) = read_file(shared_data / "kineto" / "qwen_h100.json.gz").traces
    write_perfetto([trace], tmp_path / "a.pftrace")
    assert len(slices(tmp_path / "a.pftrace")) == len(trace.spans)


def test_the_devices_of_a_rank_are_labels_of_its_process_and_read_back(tmp_path: Path) -> None:
    trace = replace(trace_of([(0, 1)]), rank=3, devices=("NVIDIA H100 80GB HBM3",))
    write_perfetto([trace], tmp_path / "a.pftrace")
    (found,) = read_file(tmp_path / "a.pftrace").traces
    assert (found.rank, found.devices) == (3, ("NVIDIA H100 80GB HBM3",))
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    packets = protos.Trace.FromString((tmp_path / "a.pftrace").read_bytes()).packet
    assert packets[0].track_descriptor.process.process_labels == ["NVIDIA H100 80GB HBM3"]


def test_the_size_of_the_world_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    write_perfetto([replace(trace_of([(1, 2)]), rank=3, world_size=8, devices=("H100",))], path)
    (back,) = read_file(path).traces
    assert (back.rank, back.world_size, back.devices) == (3, 8, ("H100",))
