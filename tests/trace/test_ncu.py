from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.trace.ncu import read_ncu
from pilotlight.trace.trace import Kind
from pilotlight.trace.trace_file import read_file

LONG = """==PROF== Connected to process 77
==PROF== Profiling "gemm" - 0: 0%....100% - 9 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","77","python","127.0.0.1","gemm(float*, int)","1","7","(256, 1, 1)","(108, 2, 1)","0","8.0","Speed","Duration","usecond","1,234.50"
"0","77","python","127.0.0.1","gemm(float*, int)","1","7","(256, 1, 1)","(108, 2, 1)","0","8.0","Speed","DRAM Throughput","%","80.5"
"1","77","python","127.0.0.1","relu","1","7","(32, 1, 1)","(1, 1, 1)","0","8.0","Speed","Duration","nsecond","900"
"""  # noqa: E501
WIDE = """"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","gpu__time_duration.sum"
"","","","","","","","","","Mbyte","usecond"
"0","77","gemm","1","7","(256, 1, 1)","(108, 2, 1)","0","8.0","2.5","10"
"1","77","relu","1","7","(32, 1, 1)","(1, 1, 1)","0","8.0","n/a","2"
"""  # noqa: E501


def test_a_row_a_metric_becomes_kernels_with_metrics(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LONG)
    result = read_file(tmp_path / "a.csv")
    assert result.problems == ()
    (trace,) = result.traces
    assert [trace.names[n] for n in trace.spans.name] == ["gemm(float*, int)", "relu"]
    assert list(trace.spans.kind) == [Kind.KERNEL, Kind.KERNEL]
    assert list(trace.spans.start_ns) == [0, 1_234_500]
    assert list(trace.spans.duration_ns) == [1_234_500, 900]
    assert list(trace.arguments["DRAM Throughput"].values) == [80.5]
    assert (list(trace.detail.grids.blocks), list(trace.detail.grids.threads)) == (
        [216, 1],
        [256, 32],
    )


def test_a_row_a_kernel_has_its_units_in_the_second_row() -> None:
    trace = read_ncu(iter([WIDE.encode()]), "a.csv")
    assert list(trace.spans.duration_ns) == [10_000, 2_000]
    assert list(trace.arguments["dram__bytes.sum"].rows) == [0]
    assert list(trace.arguments["dram__bytes.sum"].values) == [2.5e6]


@pytest.mark.parametrize("text", [LONG, WIDE])
def test_what_ncu_says_of_itself_after_the_table_is_no_damage(text: str) -> None:
    trace = read_ncu(iter([text.encode() + b"==PROF== Disconnected from process 77\n"]), "a.csv")
    assert trace.problems == () and len(trace.spans) == 2


def test_kernels_without_a_duration_are_named() -> None:
    text = LONG.replace("Duration", "Elapsed Cycles")
    problems = read_ncu(iter([text.encode()]), "a.csv").problems
    assert [problem.text for problem in problems] == [
        "2 kernels without a duration: collect gpu__time_duration.sum"
    ]


@pytest.mark.parametrize("text", ["a,b\n1,2\n", LONG.splitlines()[2] + "\n", '"' + "x" * 200_000])
def test_another_csv_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"^a\.csv: "):
        read_ncu(iter([text.encode()]), "a.csv")


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=3), st.integers(1, 300))
def test_damaged_tables_are_read_or_refused(place: int, junk: bytes, block_bytes: int) -> None:
    text = bytearray(LONG.encode())
    text[place % len(text) : place % len(text) + 2] = junk
    blocks = (bytes(text[i : i + block_bytes]) for i in range(0, len(text), block_bytes))
    try:
        read_ncu(blocks, "a.csv")
    except FormatError as error:
        assert str(error).startswith("a.csv: ")


def test_rows_of_metrics_may_leave_out_the_columns_of_rules() -> None:
    text = (
        '"ID","Process ID","Kernel Name","Grid Size","Block Size","Section Name","Metric Name",'
        '"Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"\n'
        '"0","7","gemm","(8, 1, 1)","(128, 1, 1)","Speed","Duration","us","12.5",\n'
        '"0","7","gemm","(8, 1, 1)","(128, 1, 1)","Speed","","","","Bound","OPT","a hint"\n'
    )
    trace = read_ncu(iter([text.encode()]), "a.csv")
    assert trace.problems == ()
    assert trace.spans.duration_ns.tolist() == [12_500]
