from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.trace.protobuf import fields
from pilotlight.trace.trace import Kind
from pilotlight.trace.trace_file import read_file
from pilotlight.trace.xplane import read_xplane


def number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(key: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value


def space(more: bytes = b"") -> bytes:
    """`more`: at the end of each message."""
    stat = field(1, 9) + field(3, 77) + more
    event = field(1, 5) + field(2, 3_000_000) + field(3, 2_000_000) + field(4, stat) + more
    line = field(2, b"Stream #7(Compute)") + field(3, 1000) + field(4, event) + more
    names = field(4, field(1, 5) + field(2, field(1, 5) + field(2, b"gemm") + more))
    stats = field(5, field(1, 9) + field(2, field(1, 9) + field(2, b"correlation_id") + more))
    return field(1, field(2, b"/device:GPU:3") + names + stats + field(3, line) + more) + more


def test_a_device_plane_becomes_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space())
    (trace,) = read_xplane(path)
    assert trace.rank == 3
    assert [trace.names[n] for n in trace.spans.name] == ["gemm"]
    assert list(trace.spans.kind) == [Kind.KERNEL]
    assert (trace.spans.start_ns[0], trace.spans.duration_ns[0]) == (4000, 2000)
    assert trace.spans.correlation[0] == 77


def test_devices_that_a_process_only_sees_are_no_ranks(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    unused = field(1, field(2, b"/device:GPU:5"))
    path.write_bytes(unused + space() + unused)
    assert [trace.rank for trace in read_xplane(path)] == [3]
    path.write_bytes(unused)
    assert [len(trace.spans) for trace in read_xplane(path)] == [0]


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    plain, later = tmp_path / "a.xplane.pb", tmp_path / "b.xplane.pb"
    plain.write_bytes(space())
    # A number, bytes, and both fixed sizes, under keys that no version has.
    fixed = number(902 << 3 | 1) + bytes(8) + number(903 << 3 | 5) + bytes(4)
    later.write_bytes(space(field(900, 7) + field(901, b"\xff\x00") + fixed))
    (known,), (read,) = read_xplane(plain), read_xplane(later)
    assert (read.rank, read.names) == (known.rank, known.names)
    assert read.spans.start_ns.tolist() == known.spans.start_ns.tolist() == [4000]
    assert read.spans.correlation.tolist() == [77]


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_a_format_error(content: bytes) -> None:
    try:
        list(fields(memoryview(content)))
    except FormatError as error:
        assert str(error).startswith("byte ")


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_file_is_a_trace_or_one_problem(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    content = bytearray(space())
    content[place % len(content)] = byte
    path = tmp_path_factory.mktemp("x") / "a.xplane.pb"
    path.write_bytes(content[: max(1, place % len(content))] if byte % 2 else content)
    result = read_file(path)
    assert result.traces or len(result.problems) == 1


def test_the_real_file_has_its_eight_devices(shared_data: Path) -> None:
    traces = read_xplane(shared_data / "xplane" / "jax_conv_mi300.xplane.pb")
    assert [trace.rank for trace in traces] == list(range(8))
    lanes = [sum(lane.process.startswith("device") for lane in trace.lanes) for trace in traces]
    assert lanes == [4, 1, 1, 1, 1, 1, 1, 1]
    counts = []
    for trace in traces:
        device = [i for i, lane in enumerate(trace.lanes) if lane.process.startswith("device")]
        counts.append(int(np.isin(trace.spans.lane, device).sum()))
    assert counts == [60, 25, 25, 25, 25, 25, 25, 25]


def test_steps_that_jax_numbers_are_steps_and_python_is_python(tmp_path: Path) -> None:
    stats = field(5, field(1, 9) + field(2, field(1, 9) + field(2, b"step_num")))
    names = b"".join(
        field(4, field(1, key) + field(2, field(1, key) + field(2, name)))
        for key, name in ((5, b"train"), (6, b"$main.py:3 step"))
    )

    def event(key: int, start_us: int, stat: bytes = b"") -> bytes:
        times = field(2, start_us * 1_000_000) + field(3, 7_000_000)
        return field(4, field(1, key) + times + stat)

    numbered = [event(5, 10 * i, field(4, field(1, 9) + field(4, i))) for i in (2, 0, 1)]
    line = field(2, b"python") + b"".join((*numbered, event(6, 50)))
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(field(1, field(2, b"/host:CPU") + names + stats + field(3, line)))
    (trace,) = read_xplane(path)
    assert trace.steps.number.tolist() == [0, 1, 2]
    assert trace.steps.start_ns.tolist() == [0, 10_000, 20_000]
    assert trace.steps.duration_ns.tolist() == [7000] * 3
    assert list(trace.spans.kind) == [Kind.ANNOTATION] * 3 + [Kind.PYTHON]


def entry(map_key: int, key: int, name: bytes, more: bytes = b"") -> bytes:
    """Of the names of events (4) or of stats (5)."""
    return field(map_key, field(1, key) + field(2, field(1, key) + field(2, name) + more))


def tpu_line(name: bytes, *rows: tuple[int, int, int]) -> bytes:
    """Rows: name, start and duration in microseconds."""
    events = b"".join(
        field(4, field(1, key) + field(2, start * 10**6) + field(3, length * 10**6))
        for key, start, length in rows
    )
    return field(3, field(2, name) + events)


def tpu_plane(name: bytes, *lines: bytes) -> bytes:
    """As a TPU's profiler writes them: operations by their whole text, with what they are."""
    category = field(5, field(1, 1) + field(5, b"convolution fusion"))
    referred = field(5, field(1, 1) + field(7, 3))
    names = (
        entry(4, 1, b"%fusion.7 = f32[8]{0} fusion(%p)", field(4, b"fusion.7") + category),
        entry(4, 2, b"%all-reduce.1 = f32[8]{0} all-reduce(%fusion.7)", referred),
        entry(4, 3, b"%copy-start.2 = (f32[8]) copy-start(%p)", field(4, b"copy-start.2")),
        entry(4, 4, b"%while.5 = (s32[]) while(%t)", field(4, b"while.5")),
        *(entry(4, 10 + i, str(40 + i).encode()) for i in range(3)),
    )
    stats = (entry(5, 1, b"hlo_category"), entry(5, 2, b"device_type_string"),
             entry(5, 3, b"all-reduce"))  # fmt: skip
    model = field(6, field(1, 2) + field(5, b"TPU v6 lite"))
    return field(1, field(2, name) + b"".join((*names, *stats, model, *lines)))


def test_operations_of_a_tpu_have_short_names_and_are_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    operations = tpu_line(b"XLA Ops", (4, 0, 30), (1, 0, 10), (2, 10, 20))
    beside = tpu_line(b"Async XLA Ops", (3, 5, 20))
    path.write_bytes(tpu_plane(b"/device:TPU:0", operations, beside))
    (trace,) = read_xplane(path)
    found = {
        trace.names[name]: Kind(kind)
        for name, kind in zip(trace.spans.name, trace.spans.kind, strict=True)
    }
    assert found == {
        "while.5": Kind.DEVICE_ANNOTATION,
        "fusion.7 (convolution fusion)": Kind.KERNEL,
        "all-reduce.1": Kind.KERNEL,
        "copy-start.2": Kind.MEMCPY,
    }
    assert trace.devices == ("TPU v6 lite",)


def test_the_steps_of_a_tpu_are_those_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    steps = tpu_line(b"Steps", (11, 50, 40), (10, 0, 40), (12, 100, 40))
    path.write_bytes(tpu_plane(b"/device:TPU:0", steps, tpu_line(b"XLA Ops", (1, 0, 10))))
    (trace,) = read_xplane(path)
    assert trace.steps.number.tolist() == [40, 41, 42]
    assert trace.steps.start_ns.tolist() == [0, 50_000, 100_000]


def test_the_sparse_cores_of_a_tpu_are_no_ranks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    line = tpu_line(b"XLA Ops", (1, 0, 10))
    path.write_bytes(
        tpu_plane(b"/device:TPU:1", line) + tpu_plane(b"/device:TPU:1 SparseCore 0", line)
    )
    (trace,) = read_xplane(path)
    assert (trace.rank, len(trace.spans)) == (1, 2)
    assert {lane.process for lane in trace.lanes} == {"device 1", "device 1 SparseCore 0"}
