"""The readers of ROCm's files against whole tables: every column that the public schemas of
rocprofiler-sdk (before and after times and places got tables of their own) and of rocmProfileData
(2 and 3) require."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.trace.trace import Kind, Trace
from pilotlight.trace.trace_file import read_sqlite

SUFFIX = "_00001d2c_0a5e_7b3c_9d10_6f2a8c41e7b5"
Tables = dict[str, str]

# A table's columns; `*` marks those that may be NULL or have a default.
ROCPD: Tables = {
    "string": "string",
    "info_node": "hash machine_id system_name* hostname* release* version* hardware_name*",
    "info_process": "nid ppid* pid init* fini* start* end* command* environment* extdata*",
    "info_thread": "nid ppid* pid tid name* start* end* extdata*",
    "info_agent": "nid pid type* absolute_index* logical_index* type_index* uuid* name*"
    " model_name* vendor_name* product_name* extdata*",
    "info_queue": "nid pid name* extdata*",
    "info_stream": "nid pid name* extdata*",
    "info_code_object": "nid pid agent_id* uri* load_base* load_size* storage_type* extdata*",
    "info_kernel_symbol": "nid pid code_object_id kernel_name* display_name* kernel_object*"
    " group_segment_size* private_segment_size* sgpr_count* arch_vgpr_count* extdata*",
    "event": "category_id* stack_id* parent_stack_id* correlation_id* call_stack* line_info*"
    " extdata*",
}
SIZES = " ".join(f"{part}_size_{axis}" for part in ("workgroup", "grid") for axis in "xyz")
BEFORE = ROCPD | {
    "track": "nid pid* tid* name_id* extdata*",
    "region": "nid pid tid start end name_id event_id* extdata*",
    "kernel_dispatch": "nid pid tid* agent_id kernel_id dispatch_id queue_id stream_id start end"
    f" private_segment_size* group_segment_size* {SIZES} region_name_id* event_id* extdata*",
    "memory_copy": "nid pid tid* start end name_id dst_agent_id* dst_address* src_agent_id*"
    " src_address* size queue_id* stream_id* region_name_id* event_id* extdata*",
}
AFTER = ROCPD | {
    "track": "nid ppid* pid* tid* agent_id* queue_id* stream_id* name_id* extdata*",
    "timestamp": "value phase* track_id*",
    "region": "track_id name_id start_id end_id event_id* extdata*",
    "kernel_dispatch": "track_id kernel_id dispatch_id start_id end_id private_segment_size*"
    f" group_segment_size* {SIZES} region_name_id* event_id* extdata*",
    "memory_copy": "track_id start_id end_id name_id dst_agent_id* dst_address* src_agent_id*"
    " src_address* size region_name_id* event_id* extdata*",
}
RPD_2: Tables = {
    "string": "string",
    "api": "pid tid start end apiName_id args_id",
    "op": "gpuId queueId sequenceId completionSignal start end description_id opType_id",
    "api_ops": "api_id op_id",
    "copyop": "op_ptr_id size src dst sync pinned",
}
RPD_3: Tables = {
    "string": "string",
    "ustring": "string",
    "api": "pid tid start end apiName_id category_id domain_id args_id",
    "op": "gpuId queueId sequenceId start end description_id opType_id",
    "api_ops": "api_id op_id",
    "copyapi": "api_ptr_id stream size width height kind dst src dstDevice srcDevice sync pinned",
    "monitor": "deviceType deviceId monitorType start end value",
}


class Profile:
    """An SQLite file with these tables; a value for all that must have one."""

    def __init__(self, path: Path, tables: Tables, suffix: str) -> None:
        self.path = path
        self._tables = tables
        self._suffix = suffix
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA synchronous = OFF")
        for name, columns in tables.items():
            keyed = columns.split()[0].endswith("ptr_id")
            listed = [] if keyed else ['"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT']
            if suffix:
                listed.append('"guid" TEXT NOT NULL DEFAULT "g"')
            for column in columns.split():
                end = "" if column.endswith("*") else " NOT NULL"
                listed.append(f'"{column.rstrip("*")}"{end}')
            self._connection.execute(f'CREATE TABLE "rocpd_{name}{suffix}" ({", ".join(listed)})')
        if suffix:
            for name in tables:
                self._connection.execute(
                    f'CREATE VIEW "rocpd_{name}" AS SELECT * FROM "rocpd_{name}{suffix}"'
                )

    def add(self, table: str, **values: object) -> int:
        row: dict[str, object] = {
            column: 0 for column in self._tables[table].split() if not column.endswith("*")
        }
        row |= values
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        cursor = self._connection.execute(
            f'INSERT INTO "rocpd_{table}{self._suffix}" ({names}) VALUES ({marks})',
            list(row.values()),
        )
        return int(cursor.lastrowid or 0)

    def string(self, text: str, table: str = "string") -> int:
        return self.add(table, string=text)

    def change(self, table: str, column: str, value: object) -> None:
        self._connection.execute(
            f'UPDATE "rocpd_{table}{self._suffix}" SET "{column}" = ?', [value]
        )

    def written(self) -> Path:
        self._connection.commit()
        self._connection.close()
        return self.path

    def read(self) -> Trace:
        (trace,) = read_sqlite(self.written())
        assert trace.problems == ()
        return trace


def rocpd(path: Path, tables: Tables) -> Profile:
    """A launch with its kernel, a copy, and a roctx range around them."""
    profile = Profile(path, tables, SUFFIX)
    node = profile.add("info_node", hash=1, machine_id="m")
    process = profile.add("info_process", nid=node, pid=4711, environment='{"KEY": "secret"}')
    thread = profile.add("info_thread", nid=node, pid=process, tid=4712)
    of_process = {"nid": node, "pid": process}
    cpu = profile.add("info_agent", **of_process, type="CPU", type_index=0, name="cpu")
    gpu = profile.add(
        "info_agent", **of_process, type="GPU", type_index=3, name="gfx942",
        product_name="AMD Instinct MI300X",
    )  # fmt: skip
    queue, stream = (profile.add(f"info_{what}", **of_process) for what in ("queue", "stream"))
    code = profile.add("info_code_object", **of_process, agent_id=gpu)
    kernel = profile.add(
        "info_kernel_symbol", **of_process, code_object_id=code, kernel_name="_Z4gemmPf.kd",
        display_name="gemm(float*)",
    )  # fmt: skip
    on_host = {**of_process, "tid": thread}
    on_device = {**on_host, "agent_id": gpu, "queue_id": queue, "stream_id": stream}

    def put(table: str, begin: int, end: int, place: dict[str, int], **values: object) -> None:
        if "timestamp" in tables:
            track = profile.add("track", **place)
            times = {
                name: profile.add("timestamp", value=value, track_id=track)
                for name, value in (("start_id", begin), ("end_id", end))
            }
            profile.add(table, track_id=track, **times, **values)
        else:
            known = {n: v for n, v in place.items() if n in tables[table].replace("*", "").split()}
            profile.add(table, start=begin, end=end, **known, **values)

    def event(stack: int, category: str, extdata: str = "{}") -> int:
        number = profile.string(f"{category} {stack}")
        return profile.add("event", category_id=number, stack_id=stack, extdata=extdata)

    launch = profile.string("hipLaunchKernel")
    put("region", 100, 110, on_host, name_id=launch, event_id=event(70, "HIP_RUNTIME_API"))
    put(
        "region", 90, 300, on_host, name_id=profile.string("roctxThreadRangeA"),
        event_id=event(71, "MARKER_CORE_RANGE_API", '{"message": "train_step 4"}'),
    )  # fmt: skip
    put(
        "kernel_dispatch", 150, 250, on_device, kernel_id=kernel, dispatch_id=1,
        workgroup_size_x=256, workgroup_size_y=1, workgroup_size_z=1,
        grid_size_x=1000, grid_size_y=2, grid_size_z=1, event_id=event(70, "KERNEL_DISPATCH"),
    )  # fmt: skip
    put(
        "memory_copy", 120, 140, on_device, name_id=profile.string("MEMORY_COPY_HOST_TO_DEVICE"),
        dst_agent_id=gpu, src_agent_id=cpu, size=4096, event_id=event(72, "MEMORY_COPY"),
    )  # fmt: skip
    return profile


def rpd(path: Path, tables: Tables) -> Profile:
    profile = Profile(path, tables, "")
    texts = "ustring" if "ustring" in tables else "string"
    # The two tables count on their own: a text looked up in the wrong one is another.
    profile.string("", texts)
    marker, launch = profile.string("UserMarker"), profile.string("hipLaunchKernel")
    copies, empty = profile.string("hipMemcpyAsync"), profile.string("")
    of_host = {"pid": 4711, "tid": 4712}
    step = profile.string("train_step 4", texts)
    profile.add("api", **of_host, start=90, end=300, apiName_id=marker, args_id=step)
    api = profile.add("api", **of_host, start=100, end=110, apiName_id=launch, args_id=1)
    copying = profile.add("api", **of_host, start=111, end=119, apiName_id=copies, args_id=1)
    kind, name = profile.string("KernelExecution"), profile.string("gemm(float*)")
    on_device = {"gpuId": 3, "queueId": 1}
    op = profile.add("op", **on_device, start=150, end=250, description_id=name, opType_id=kind)
    copy = profile.add(
        "op", **on_device, start=120, end=140, description_id=empty,
        opType_id=profile.string("CopyHostToDevice"),
    )  # fmt: skip
    profile.add("api_ops", api_id=api, op_id=op)
    profile.add("api_ops", api_id=copying, op_id=copy)
    if "copyapi" in tables:
        profile.add("copyapi", api_ptr_id=copying, size=4096)
    else:
        profile.add("copyop", op_ptr_id=copy, size=4096)
    return profile


CASES = [(rocpd, BEFORE), (rocpd, AFTER), (rpd, RPD_2), (rpd, RPD_3)]


@pytest.mark.parametrize(("make", "tables"), CASES)
def test_whole_tables_of_each_schema_are_read(
    tmp_path: Path, make: Callable[[Path, Tables], Profile], tables: Tables
) -> None:
    trace = make(tmp_path / "a.db", tables).read()
    rows = {
        Kind(kind): (trace.names[name], start, length, lane.process, size)
        for kind, name, start, length, lane, size in zip(
            trace.spans.kind, trace.spans.name, trace.spans.start_ns.tolist(),
            trace.spans.duration_ns.tolist(), (trace.lanes[n] for n in trace.spans.lane),
            trace.spans.bytes.tolist(), strict=True,
        )
        if trace.names[name] != "hipMemcpyAsync"
    }  # fmt: skip
    assert rows == {
        Kind.KERNEL: ("gemm(float*)", 150, 100, "device 3", -1),
        Kind.MEMCPY: ("Memcpy HtoD (Host -> Device)", 120, 20, "device 3", 4096),
        Kind.RUNTIME: ("hipLaunchKernel", 100, 10, "4711", -1),
        Kind.ANNOTATION: ("train_step 4", 90, 210, "4711", -1),
    }
    launched = {
        int(row) for kind in (Kind.KERNEL, Kind.RUNTIME) for row in trace.of_kind(kind).correlation
    }
    assert len(launched - {-1}) == (1 if make is rocpd else 2)
    assert list(trace.steps.number) == [4]
    assert not any("secret" in name for name in trace.names)


@pytest.mark.parametrize("tables", [BEFORE, AFTER])
def test_a_grid_is_told_in_blocks_not_work_items(tmp_path: Path, tables: Tables) -> None:
    grids = rocpd(tmp_path / "a.db", tables).read().detail.grids
    assert (grids.blocks.tolist(), grids.threads.tolist()) == ([4 * 2], [256])


def test_what_the_monitor_read_becomes_counters_of_the_gpu(tmp_path: Path) -> None:
    profile = rpd(tmp_path / "a.rpd", RPD_3)
    of_gpu = {"deviceType": "gpu", "deviceId": 3, "start": 100, "end": 200}
    profile.add("monitor", **of_gpu, monitorType="sclk", value="1200")
    profile.add("monitor", **of_gpu, monitorType="power", value="612.5")
    profile.add("monitor", **{**of_gpu, "deviceId": 6}, monitorType="power", value="90")
    trace = profile.read()
    found = {
        (trace.names[name], time): value
        for name, time, value in zip(
            trace.counters.name, trace.counters.time_ns.tolist(), trace.counters.value, strict=True
        )
    }
    assert found == {
        ("gpu3 sm_clock", 100): 1200, ("gpu3 sm_clock", 200): 1200,
        ("gpu3 power", 100): 612.5, ("gpu3 power", 200): 612.5,
    }  # fmt: skip


values = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, 1, -1, 1 << 40]),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(CASES), st.data(), values)
def test_any_value_in_any_column_is_read_or_refused(
    case: tuple[Callable[[Path, Tables], Profile], Tables], data: st.DataObject, value: object
) -> None:
    make, tables = case
    table = data.draw(st.sampled_from(sorted(tables)))
    column = data.draw(st.sampled_from(["id", *tables[table].replace("*", "").split()]))
    with tempfile.TemporaryDirectory() as folder:
        profile = make(Path(folder, "a.db"), tables)
        try:
            profile.change(table, column, value)
        except sqlite3.Error:
            return  # not a value that the table can hold
        try:
            traces = read_sqlite(profile.written())
        except FormatError as error:
            assert str(error).startswith(str(profile.path))
        else:
            assert sum(len(trace.spans) for trace in traces) <= 5
