from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pilotlight.errors import FormatError
from pilotlight.trace.trace import Kind, Trace
from pilotlight.trace.trace_file import read_sqlite

S = "_0a1b_77"
COMMON = f"""
CREATE TABLE rocpd_string{S} (id INTEGER PRIMARY KEY, string TEXT);
INSERT INTO rocpd_string{S} VALUES (1, 'hipLaunchKernel'), (2, 'MEMORY_COPY_HOST_TO_DEVICE'),
  (3, 'train_step 4');
CREATE TABLE rocpd_info_process{S} (id INTEGER PRIMARY KEY, pid INTEGER, environment TEXT);
INSERT INTO rocpd_info_process{S} VALUES (1, 4711, 'SECRET=1');
CREATE TABLE rocpd_info_thread{S} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER);
INSERT INTO rocpd_info_thread{S} VALUES (1, 1, 4712);
CREATE TABLE rocpd_info_agent{S} (id INTEGER PRIMARY KEY, type TEXT, type_index INTEGER,
  name TEXT, product_name TEXT);
INSERT INTO rocpd_info_agent{S} VALUES (1, 'CPU', 0, 'cpu', 'cpu'),
  (5, 'GPU', 3, 'gfx942', 'AMD Instinct MI300X');
CREATE TABLE rocpd_info_kernel_symbol{S} (id INTEGER PRIMARY KEY, kernel_name TEXT,
  display_name TEXT);
INSERT INTO rocpd_info_kernel_symbol{S} VALUES (9, '_Z4gemm', 'gemm');
CREATE TABLE rocpd_event{S} (id INTEGER PRIMARY KEY, stack_id INTEGER);
INSERT INTO rocpd_event{S} VALUES (1, 70), (2, 70), (3, 71), (4, 72);
"""
VERSION_3 = f"""
CREATE TABLE rocpd_region{S} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER,
  end INTEGER, name_id INTEGER, event_id INTEGER);
INSERT INTO rocpd_region{S} VALUES (1, 1, 1, 100, 110, 1, 1), (2, 1, 1, 90, 300, 3, 4);
CREATE TABLE rocpd_kernel_dispatch{S} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER,
  agent_id INTEGER, kernel_id INTEGER, stream_id INTEGER, start INTEGER, end INTEGER,
  event_id INTEGER);
INSERT INTO rocpd_kernel_dispatch{S} VALUES (1, 1, 1, 5, 9, 2, 150, 250, 2);
CREATE TABLE rocpd_memory_copy{S} (id INTEGER PRIMARY KEY, pid INTEGER, start INTEGER,
  end INTEGER, name_id INTEGER, src_agent_id INTEGER, dst_agent_id INTEGER, size INTEGER,
  stream_id INTEGER, event_id INTEGER);
INSERT INTO rocpd_memory_copy{S} VALUES (1, 1, 120, 140, 2, 1, 5, 4096, 2, 3);
"""
VERSION_4 = f"""
CREATE TABLE rocpd_timestamp{S} (id INTEGER PRIMARY KEY, value INTEGER, track_id INTEGER);
INSERT INTO rocpd_timestamp{S} VALUES (1, 100, 1), (2, 110, 1), (3, 90, 1), (4, 300, 1),
  (5, 150, 2), (6, 250, 2), (7, 120, 2), (8, 140, 2);
CREATE TABLE rocpd_track{S} (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER,
  agent_id INTEGER, stream_id INTEGER);
INSERT INTO rocpd_track{S} VALUES (1, 1, 1, NULL, NULL), (2, 1, 1, 5, 2);
CREATE TABLE rocpd_region{S} (id INTEGER PRIMARY KEY, track_id INTEGER, start_id INTEGER,
  end_id INTEGER, name_id INTEGER, event_id INTEGER);
INSERT INTO rocpd_region{S} VALUES (1, 1, 1, 2, 1, 1), (2, 1, 3, 4, 3, 4);
CREATE TABLE rocpd_kernel_dispatch{S} (id INTEGER PRIMARY KEY, track_id INTEGER,
  kernel_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER);
INSERT INTO rocpd_kernel_dispatch{S} VALUES (1, 2, 9, 5, 6, 2);
CREATE TABLE rocpd_memory_copy{S} (id INTEGER PRIMARY KEY, track_id INTEGER, start_id INTEGER,
  end_id INTEGER, name_id INTEGER, src_agent_id INTEGER, dst_agent_id INTEGER, size INTEGER,
  event_id INTEGER);
INSERT INTO rocpd_memory_copy{S} VALUES (1, 2, 7, 8, 2, 1, 5, 4096, 3);
"""
RPD = """
CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
INSERT INTO rocpd_string VALUES (1, 'hipLaunchKernel'), (2, 'KernelExecution'), (3, 'gemm'),
  (4, 'UserMarker'), (5, 'train_step 4'), (6, 'CopyHostToDevice'), (7, 'hipMemcpyAsync'), (8, '');
CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER,
  end INTEGER, apiName_id INTEGER, args_id INTEGER);
INSERT INTO rocpd_api VALUES (70, 4711, 4712, 100, 110, 1, 8), (71, 4711, 4712, 111, 119, 7, 8),
  (72, 4711, 4712, 90, 300, 4, 5);
CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER,
  sequenceId INTEGER, start INTEGER, end INTEGER, description_id INTEGER, opType_id INTEGER);
INSERT INTO rocpd_op VALUES (1, 3, 2, 0, 150, 250, 3, 2), (2, 3, 2, 0, 120, 140, 8, 6);
CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
INSERT INTO rocpd_api_ops VALUES (1, 70, 1), (2, 71, 2);
CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, size INTEGER);
INSERT INTO rocpd_copyapi VALUES (71, 4096);
"""


def make(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def row_of(trace: Trace, kind: Kind) -> tuple[object, ...]:
    spans = trace.of_kind(kind)
    assert len(spans) == 1
    lane = trace.lanes[spans.lane[0]]
    return (
        trace.names[spans.name[0]], int(spans.start_ns[0]), int(spans.duration_ns[0]),
        lane.process, lane.thread, int(spans.correlation[0]), int(spans.bytes[0]),
    )  # fmt: skip


@pytest.mark.parametrize("schema", [VERSION_3, VERSION_4])
def test_rocpd_is_read_in_both_schemas(tmp_path: Path, schema: str) -> None:
    (trace,) = read_sqlite(make(tmp_path / "a.db", COMMON + schema))
    assert trace.devices == ("AMD Instinct MI300X",)
    assert row_of(trace, Kind.KERNEL) == ("gemm", 150, 100, "device 3", "stream 2", 70, -1)
    name, *rest = row_of(trace, Kind.MEMCPY)
    assert name == "Memcpy HtoD (Host -> Device)"
    assert rest == [120, 20, "device 3", "stream 2", 71, 4096]
    assert row_of(trace, Kind.RUNTIME) == ("hipLaunchKernel", 100, 10, "4711", "4712", 70, -1)
    assert list(trace.steps.number) == [4]


def test_rpd_is_read(tmp_path: Path) -> None:
    (trace,) = read_sqlite(make(tmp_path / "a.rpd", RPD))
    assert row_of(trace, Kind.KERNEL) == ("gemm", 150, 100, "device 3", "stream 2", 70, -1)
    assert row_of(trace, Kind.MEMCPY)[0] == "Memcpy HtoD (Host -> Device)"
    assert row_of(trace, Kind.MEMCPY)[-1] == 4096
    assert row_of(trace, Kind.ANNOTATION)[0] == "train_step 4"
    assert list(trace.steps.number) == [4]


def test_several_recorded_processes_in_one_file_become_several_traces(tmp_path: Path) -> None:
    script = COMMON + VERSION_3
    other = script.replace(S, "_ffff").replace("4711", "999")
    traces = read_sqlite(make(tmp_path / "a.db", script + other))
    assert sorted(trace.lanes[-1].process for trace in traces) == ["4711", "999"]


def test_a_view_without_end_is_not_looked_into(tmp_path: Path) -> None:
    endless = (
        "CREATE VIEW rocpd_op AS WITH RECURSIVE x(id) AS (SELECT 1 UNION ALL SELECT id FROM x)"
    )
    path = make(tmp_path / "a.db", f"{endless} SELECT id FROM x;")
    with pytest.raises(FormatError, match="another tool"):
        read_sqlite(path)


def test_a_profile_of_nothing_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", f"CREATE TABLE rocpd_region{S} (id INTEGER);")
    with pytest.raises(FormatError, match=r"a\.db: "):
        read_sqlite(path)
