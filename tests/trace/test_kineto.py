from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.trace import span_table
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import NONE, Kind, Trace
from pilotlight.trace.trace_file import read_file


def parse(events: list[Any], **rest: Any) -> Trace:
    text = json.dumps({**rest, "traceEvents": events}).encode()
    return read_kineto(iter([text]), "a.json")


def span(**fields: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": 0,
        "tid": 7,
        "ts": 1,
        "dur": 2,
        **fields,
    }


def test_old_and_new_categories_mean_the_same() -> None:
    trace = parse([span(cat="Kernel", tid="stream 7"), span(cat="kernel", tid=7)])
    assert list(trace.spans.kind) == [Kind.KERNEL, Kind.KERNEL]


@pytest.mark.parametrize("category", ["Operator", "cpu_op", "user_annotation"])
def test_a_step_is_no_operator_whatever_its_category(category: str) -> None:
    trace = parse([span(cat=category, name="ProfilerStep#3"), span(cat=category, name="aten::mm")])
    assert trace.steps.number.tolist() == [3]
    step = trace.names.index("ProfilerStep#3")
    assert trace.spans.kind[trace.spans.name == step].tolist() == [Kind.ANNOTATION]
    others = trace.spans.kind[trace.spans.name != step].tolist()
    assert others == [Kind.ANNOTATION if category == "user_annotation" else Kind.OPERATOR]


def test_a_thread_written_as_text_and_as_a_number_is_one_lane() -> None:
    trace = parse([span(tid="25"), span(tid=25)])
    assert len(set(trace.spans.lane)) == 1


def test_the_base_time_is_added() -> None:
    trace = parse([span(ts=5.25)], baseTimeNanoseconds=1_000_000)
    assert trace.spans.start_ns[0] == 1_005_250


def test_begin_and_end_events_become_spans_by_thread() -> None:
    begin = {"ph": "B", "name": "a", "pid": 1, "tid": 1, "ts": 1}
    other = {"ph": "B", "name": "b", "pid": 1, "tid": 2, "ts": 2}
    trace = parse([begin, other, {"ph": "E", "pid": 1, "tid": 1, "ts": 4}])
    assert [trace.names[n] for n in trace.spans.name] == ["a"]
    assert list(trace.spans.duration_ns) == [3000]
    assert [p.text for p in trace.problems] == [
        "1 begins without an end left out, this is the first"
    ]


def test_negative_huge_and_infinite_times_are_left_out_and_counted() -> None:
    text = (
        b'{"traceEvents": [{"ph":"X","ts":1,"dur":-5}, {"ph":"X","ts":1e300,"dur":1},'
        b'{"ph":"X","ts":Infinity,"dur":1}, {"ph":"X","ts":1e999,"dur":1},'
        b'{"ph":"X","ts":7,"dur":1}]}'
    )
    trace = read_kineto(iter([text]), "a.json")
    assert len(trace.spans) == 1
    assert sum(int(p.text.split()[0]) for p in trace.problems) == 4


def test_ids_that_do_not_fit_are_unknown_not_wrong() -> None:
    trace = parse([span(args={"correlation": 1 << 70}), span(args={"correlation": "x"})])
    assert list(trace.spans.correlation) == [-1, -1]


def test_more_names_than_the_limit_share_one_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_table, "MAX_NAMES", 10)
    trace = parse([span(name=f"k{i}") for i in range(50)])
    assert len(trace.names) == 11
    assert "40 events share one" in trace.problems[0].text


def test_unused_events_are_counted_by_phase() -> None:
    trace = parse([span(), {"ph": "s", "id": 1}, {"ph": "f", "id": 1}, {"ph": "f", "id": 1}])
    assert trace.skipped == {"s": 1, "f": 2}


def test_a_file_without_usable_events_is_refused() -> None:
    with pytest.raises(FormatError, match=r"a\.json: no usable event"):
        parse([])


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=4),
        lambda x: (
            st.lists(x, max_size=4)
            | st.dictionaries(
                st.sampled_from(["ph", "ts", "dur", "args", "name", "pid", "cat", "x"]),
                x,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_a_trace_or_a_format_error(value: Any) -> None:
    text = json.dumps({"traceEvents": [value, {"ph": "X", "ts": 1, "dur": value}]}).encode()
    try:
        read_kineto(iter([text]), "a.json")
    except FormatError as error:
        assert str(error).startswith("a.json: ")


@pytest.mark.parametrize(
    ("name", "kernels", "copies", "steps"),
    [
        ("resnet50_workers0", 8772, 12, 6),
        ("resnet50_workers4", 8868, 12, 6),
        ("diff_control_a100", 8568, 228, 6),
        ("diff_test_v100", 9876, 4856, 6),
        ("qwen_h100", 1465, 1, 1),
        ("qwen_mi300", 1516, 1, 1),
        ("sglang_qwen3_decode", 555, 3, 0),
        ("alexnet_critical_path", 79, 16, 0),
    ],
)
def test_the_real_traces_are_read_whole(
    shared_data: Path, name: str, kernels: int, copies: int, steps: int
) -> None:
    result = read_file(shared_data / "kineto" / f"{name}.json.gz")
    assert result.problems == ()
    (trace,) = result.traces
    assert len(trace.of_kind(Kind.KERNEL)) == kernels
    assert len(trace.of_kind(Kind.MEMCPY)) == copies
    assert len(trace.steps) == steps


def test_work_of_mtia_is_device_work() -> None:
    names = (
        ("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", Kind.RUNTIME),
        ("mtia_ccp_events", "fc-dtype_Float", Kind.KERNEL),
        ("mtia_ccp_events", "dma_request", Kind.MEMCPY),
        ("mtia_ccp_events", "event_wait", Kind.SYNC),
        ("cpu_op", "event_wait", Kind.OPERATOR),
    )
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 4, "ts": i, "dur": 1}
        for i, (category, name, _) in enumerate(names)
    ]
    trace = read_kineto(iter([json.dumps(events).encode()]), "a.json")
    assert trace.spans.kind.tolist() == [kind for _, _, kind in names]


def test_calls_and_kernels_are_tied_by_their_external_id_where_nothing_else_ties_them() -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 20, "pid": 1, "tid": 1,
         "args": {"External id": 513}},
        {"ph": "X", "cat": "cuda_runtime", "name": "hipModuleLaunchKernel", "ts": 2, "dur": 5,
         "pid": 1, "tid": 1, "args": {"External id": 25}},
        {"ph": "X", "cat": "kernel", "name": "Cijk", "ts": 12, "dur": 50, "pid": 2, "tid": 0,
         "args": {"External id": 25}},
    ]  # fmt: skip

    def correlations() -> list[int]:
        text = json.dumps({"traceEvents": events}).encode()
        return read_kineto(iter([text]), "a.json").spans.correlation.tolist()

    assert correlations() == [NONE, 25, 25]
    # Elsewhere it is the number of an operator, and ties nothing.
    events.append({**events[1], "args": {"External id": 513, "correlation": 7}})
    assert correlations() == [NONE, NONE, NONE, 7]


@pytest.mark.parametrize(
    ("units", "size", "name"),
    [(304, 206141652992, "AMD Instinct MI300X"), (80, 206141652992, ""), (304, "much", "")],
)
def test_a_device_without_a_name_is_known_by_what_it_is(units: int, size: Any, name: str) -> None:
    device = {"name": "", "computeMajor": 9, "computeMinor": 4, "numSms": units}
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 1}
    document = {"deviceProperties": [{**device, "totalGlobalMem": size}], "traceEvents": [event]}
    assert read_kineto(iter([json.dumps(document).encode()]), "a.json").devices == (name,)
