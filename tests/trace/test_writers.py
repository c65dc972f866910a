"""What is written for other tools says the same as the trace."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pilotlight.trace.interval import union
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.kineto_writer import write_kineto
from pilotlight.trace.nested import lane_parts
from pilotlight.trace.parquet_writer import write_parquet
from pilotlight.trace.perfetto_writer import write_perfetto
from pilotlight.trace.pprof_writer import write_pprof
from pilotlight.trace.protobuf import fields, text
from pilotlight.trace.speedscope_writer import write_speedscope
from pilotlight.trace.trace import Kind, Steps, Trace
from pilotlight.trace.trace_file import read_file


def small() -> Trace:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": "é outer", "pid": 1, "tid": 1, "ts": 0, "dur": 10},
        {"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 2, "dur": 3},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4, "dur": 5,
         "args": {"correlation": 9}},
        {"ph": "C", "name": "loss", "ts": 3, "args": {"value": 0.5}},
    ]  # fmt: skip
    document = {"distributedInfo": {"rank": 2}, "traceEvents": events}
    return read_kineto(iter([json.dumps(document).encode()]), "a.json")


def check_profile(profile: dict[str, Any]) -> list[tuple[int, int]]:
    """(frame, length) of each call, as a viewer replays them."""
    stack: list[tuple[int, int]] = []
    calls = []
    last = profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= last
        last = event["at"]
        if event["type"] == "O":
            stack.append((event["frame"], event["at"]))
        else:
            frame, begin = stack.pop()
            assert frame == event["frame"]
            calls.append((frame, event["at"] - begin))
    assert not stack and last <= profile["endValue"]
    return calls


def test_speedscope_has_every_span_as_a_call(tmp_path: Path, shared_data: Path) -> None:
    (real,) = read_file(shared_data / "kineto" / "qwen_h100.json.gz").traces
    write_speedscope([small(), real], tmp_path / "a.speedscope.json")
    document = json.loads((tmp_path / "a.speedscope.json").read_text())
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    calls = Counter(
        (frames[frame], length)
        for profile in document["profiles"]
        for frame, length in check_profile(profile)
    )
    expected: Counter[tuple[str, int]] = Counter()
    for trace in (small(), real):
        expected.update(
            (trace.names[name], length)
            for name, length in zip(
                trace.spans.name.tolist(), trace.spans.duration_ns.tolist(), strict=True
            )
        )
    assert calls == expected


def pprof_samples(path: Path) -> list[tuple[list[str], list[int], dict[str, Any]]]:
    profile = list(fields(memoryview(gzip.decompress(path.read_bytes()))))
    strings = [text(value) for number, value in profile if number == 6]
    names: dict[Any, str] = {}
    for number, value in profile:
        if number == 5:
            entry = dict(fields(value))  # type: ignore[arg-type]
            names[entry[1]] = strings[entry[2]]  # type: ignore[index]

    def numbers(value: Any) -> list[int]:
        found, shift, current = [], 0, 0
        for byte in bytes(value):
            current |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                found.append(current)
                current = shift = 0
        return found

    samples = []
    for number, value in profile:
        if number != 2:
            continue
        path_ids: list[int] = []
        values: list[int] = []
        labels: dict[str, Any] = {}
        for key, part in fields(value):  # type: ignore[arg-type]
            if key == 1:
                path_ids = numbers(part)
            elif key == 2:
                values = numbers(part)
            else:
                entry = dict(fields(part))  # type: ignore[arg-type]
                labels[strings[entry[1]]] = (  # type: ignore[index]
                    strings[entry[2]] if 2 in entry else entry.get(3, 0)  # type: ignore[index]
                )
        samples.append(([names[i] for i in path_ids], values, labels))
    return samples


def test_pprof_has_the_time_of_each_path(tmp_path: Path) -> None:
    write_pprof([small()], tmp_path / "a.pb.gz")
    found = pprof_samples(tmp_path / "a.pb.gz")
    assert (["inner", "é outer"], [1, 3000]) in [(path, values) for path, values, _ in found]
    assert (["é outer"], [1, 7000]) in [(path, values) for path, values, _ in found]
    assert all(labels["rank"] == 2 for _, _, labels in found)


def test_pprof_of_a_real_trace_adds_up(tmp_path: Path, shared_data: Path) -> None:
    (trace,) = read_file(shared_data / "kineto" / "qwen_h100.json.gz").traces
    write_pprof([trace], tmp_path / "a.pb.gz")
    found = pprof_samples(tmp_path / "a.pb.gz")
    covered = sum(
        union(trace.spans.start_ns[rows], trace.spans.end_ns[rows]).total_ns()
        for _, rows in lane_parts(trace)
    )
    assert sum(values[1] for _, values, _ in found) == covered
    assert sum(values[0] for _, values, _ in found) == len(trace.spans)


def test_parquet_has_a_row_a_span_and_a_row_a_value(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    trace = small()
    write_parquet([trace], tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["name"] for row in table] == ["é outer", "inner", "gemm", "loss value"]
    assert [row["kind"] for row in table] == ["operator", "operator", "kernel", "counter"]
    assert [row["correlation"] for row in table] == [None, None, 9, None]
    assert table[3]["value"] == 0.5
    assert {row["rank"] for row in table} == {2}


def test_parquet_of_a_real_trace_is_whole(tmp_path: Path, shared_data: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (trace,) = read_file(shared_data / "kineto" / "resnet50_workers0.json.gz").traces
    write_parquet([trace], tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet", columns=["duration_ns", "kind"])
    assert table.num_rows == len(trace.spans) + len(trace.counters.value)
    kernels = np.array(table["kind"].to_pylist()) == "kernel"
    assert (
        table["duration_ns"].to_numpy()[kernels].sum()
        == trace.of_kind(Kind.KERNEL).duration_ns.sum()
    )


@pytest.mark.parametrize("name", ["a.json", "a.pftrace"])
def test_steps_that_no_span_tells_are_written_too(tmp_path: Path, name: str) -> None:
    """As those of recordings are."""
    columns = np.array([[7, 7, 9], [0, 5000, 8000], [5000, 3000, 2000]])
    trace = replace(small(), steps=Steps(*columns))
    if name.endswith(".json"):
        write_kineto(trace, tmp_path / name)
    else:
        write_perfetto([trace], tmp_path / name)
    (read,) = read_file(tmp_path / name).traces
    steps = read.steps
    assert np.array_equal([steps.number, steps.start_ns, steps.duration_ns], columns)
    assert len(read.spans) == len(trace.spans) + len(trace.steps)
    # Once, however often it is written.
    write_kineto(read, tmp_path / "b.json")
    (again,) = read_file(tmp_path / "b.json").traces
    assert len(again.spans) == len(read.spans)
    assert len(again.steps) == len(steps)
