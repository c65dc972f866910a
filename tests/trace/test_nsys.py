from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace import nsys_tables

from pilotlight.errors import FormatError
from pilotlight.trace.trace import Kind
from pilotlight.trace.trace_file import read_sqlite

PROCESS = nsys_tables.PROCESS


def make(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_a_schema_with_fewer_columns_is_read(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "INSERT INTO StringIds VALUES (1, 'gemm')",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"
        " (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,"
        " correlationId INTEGER, globalPid INTEGER, shortName INTEGER)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7, 3, {PROCESS}, 1)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', 9, 0, 7, 3, {PROCESS}, 1)",
    )
    (trace,) = read_sqlite(path)
    assert [trace.names[n] for n in trace.spans.name] == ["gemm"]
    assert trace.spans.duration_ns[0] == 4
    assert trace.problems[0].text == "1 spans without a start or an end left out"


def test_an_export_without_the_names_of_its_kernels_says_so(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.sqlite",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"
        " (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER, shortName INTEGER)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, {PROCESS}, 1)",
    )
    (trace,) = read_sqlite(path)
    assert [str(problem) for problem in trace.problems] == [
        f"{path}: StringIds: names of kernels or calls are not in it: shown as (unnamed kernel)"
    ]


def test_an_sqlite_file_of_another_tool_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE notes (id INTEGER)")
    with pytest.raises(FormatError, match="of another tool"):
        read_sqlite(path)


def test_an_export_without_events_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER)")
    with pytest.raises(FormatError, match="without an event"):
        read_sqlite(path)


def test_reading_leaves_no_file_beside_the_export(tmp_path: Path, shared_data: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes((shared_data / "nsys" / "h100_2gpu_1s.sqlite").read_bytes())
    read_sqlite(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_the_offload_export_has_its_two_processes(shared_data: Path) -> None:
    traces = read_sqlite(shared_data / "nsys" / "h100_2gpu_1s.sqlite")
    assert [len(trace.of_kind(Kind.KERNEL)) for trace in traces] == [1721, 1721]
    for trace in traces:
        copies = trace.of_kind(Kind.MEMCPY)
        to_device = np.array(
            [trace.names[n].startswith("Memcpy HtoD (Pinned") for n in copies.name]
        )
        assert to_device.sum() == 223
        assert copies.bytes[to_device].sum() == pytest.approx(25.48e9, rel=0.001)


def test_waits_are_of_the_device_of_their_context(shared_data: Path) -> None:
    """The export says device 0 of all of them."""
    for trace in read_sqlite(shared_data / "nsys" / "h100_2gpu_1s.sqlite"):
        lanes = {
            kind: {trace.lanes[n].process for n in trace.of_kind(kind).lane}
            for kind in (Kind.KERNEL, Kind.SYNC)
        }
        assert lanes[Kind.SYNC] == lanes[Kind.KERNEL]


def test_a_whole_export_gives_all_its_spans_and_grids(tmp_path: Path) -> None:
    (trace,) = read_sqlite(nsys_tables.write(tmp_path / "a.sqlite"))
    assert len(trace.spans) == nsys_tables.SPANS and trace.problems == ()
    assert trace.devices == ("NVIDIA H100 80GB HBM3",)
    grids = trace.detail.grids
    assert (grids.correlation.tolist(), grids.blocks.tolist(), grids.threads.tolist()) == (
        [3],
        [64],
        [64],
    )


@pytest.mark.parametrize(
    ("column", "value"), [("correlationId", 261_958_200), ("gridX", (1 << 31) - 1)]
)
def test_grids_of_long_captures_and_of_long_grids_are_kept(
    tmp_path: Path, column: str, value: int
) -> None:
    cell = "CUPTI_ACTIVITY_KIND_KERNEL", column
    (trace,) = read_sqlite(nsys_tables.write(tmp_path / "a.sqlite", changed={cell: value}))
    assert len(trace.detail.grids.blocks) == 1


def test_exports_before_the_middle_of_2021_name_their_gpus(tmp_path: Path) -> None:
    path = nsys_tables.write(tmp_path / "a.sqlite", without=[("TARGET_INFO_GPU", "name")])
    make(
        path,
        "CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INTEGER, name TEXT)",
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla V100-SXM2-16GB')",
        "DROP TABLE TARGET_INFO_GPU",
    )
    (trace,) = read_sqlite(path)
    assert trace.devices == ("Tesla V100-SXM2-16GB",)


def test_a_process_that_may_see_one_gpu_calls_it_its_first(tmp_path: Path) -> None:
    path = make(
        nsys_tables.write(tmp_path / "a.sqlite"),
        "INSERT INTO TARGET_INFO_GPU VALUES (3, 'NVIDIA B200')",
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)",
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0, 77)",
    )
    (trace,) = read_sqlite(path)
    assert trace.devices == ("NVIDIA B200",)


def test_a_process_that_computes_on_two_gpus_is_two_ranks(tmp_path: Path) -> None:
    kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, globalPid, deviceId, streamId,"
    path = make(
        nsys_tables.write(tmp_path / "a.sqlite"),
        f"{kernel} correlationId, shortName) VALUES (20, 26, {PROCESS}, 1, 7, 30, 1)",
        # A copy to a third is no work of its own.
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, globalPid, deviceId, streamId,"
        f" correlationId) VALUES (20, 26, {PROCESS}, 2, 7, 31)",
        "INSERT INTO TARGET_INFO_GPU VALUES (1, 'NVIDIA B200')",
    )
    first, second = read_sqlite(path)
    assert (first.devices, second.devices) == (("NVIDIA H100 80GB HBM3",), ("NVIDIA B200",))
    assert second.of_kind(Kind.KERNEL).start_ns.tolist() == [20]
    assert len(first.of_kind(Kind.MEMCPY)) == 2 and not len(second.of_kind(Kind.MEMCPY))
    hosts = [trace.of_kind(Kind.RUNTIME, Kind.ANNOTATION) for trace in (first, second)]
    assert len(hosts[0]) == len(hosts[1]) == 2


cells = st.sampled_from(nsys_tables.CELLS)
values = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, -1, 1 << 24, 1 << 62, float("inf"), "", "x" * 5000, b"\xff\0", None]),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
)


@settings(max_examples=80)
@given(st.lists(cells, max_size=12), st.dictionaries(cells, values, max_size=6))
def test_any_columns_with_any_values_are_read_or_refused(
    without: list[tuple[str, str]], changed: dict[tuple[str, str], object]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = nsys_tables.write(Path(folder, "a.sqlite"), without, changed)
        try:
            traces = read_sqlite(path)
        except FormatError as error:
            assert str(error).startswith(str(path))
            return
    # Ranks of one process share its host.
    for trace in traces:
        assert 0 < len(trace.spans) <= nsys_tables.SPANS
        assert (trace.spans.duration_ns >= 0).all()


def test_an_export_of_a_program_without_a_gpu_is_told_from_other_tools(tmp_path: Path) -> None:
    tables = ("StringIds", "TARGET_INFO_SESSION_START_TIME", "SCHED_EVENTS")
    path = make(tmp_path / "a.sqlite", *(f"CREATE TABLE {name} (id INTEGER)" for name in tables))
    with pytest.raises(FormatError, match="--trace=cuda,nvtx"):
        read_sqlite(path)
