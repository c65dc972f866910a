from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.trace.detail import Detail, Message, Operator
from pilotlight.trace.detail_row import detail_rows
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace_file import read_file


def read_detail(path: Path) -> Detail:
    return read_file(path).traces[0].detail


def event(dims: Any, types: Any = None) -> dict[str, Any]:
    args = {"Input Dims": dims, "Input type": types}
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "tid": 1,
        "ts": 1,
        "dur": 2,
        "args": args,
    }


def test_equal_operators_share_a_kind(tmp_path: Path) -> None:
    events = [event([[2, 3], [3, 4], []], ["float", "float", "Scalar"])] * 3
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    found = read_detail(tmp_path / "a.json").operators
    assert list(found.kind) == [0, 0, 0]
    assert found.kinds == (
        Operator("aten::mm", ((2, 3), (3, 4), ()), ("float", "float", "Scalar")),
    )


def test_the_stride_of_a_convolution_is_told_and_scalars_of_others_make_no_kinds(
    tmp_path: Path,
) -> None:
    told = [["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "True"], ["", "0.5"], ["", "0.7"]]
    events = [event([[4, 4], []], ["float", "Scalar"]) for _ in told]
    for one, values in zip(events, told, strict=True):
        one["args"]["Concrete Inputs"] = values
    events[0]["name"] = "aten::convolution"
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    found = read_detail(tmp_path / "a.json").operators
    assert list(found.kind) == [0, 1, 1]
    assert found.kinds[0].values == ((), (), (), (2, 2), (3, 3), (1, 1), (1,))
    assert found.kinds[1].values == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=12,
)


@given(json_values, json_values)
def test_shapes_and_types_of_any_form_are_taken_or_left(
    tmp_path_factory: Any, dims: Any, types: Any
) -> None:
    path = tmp_path_factory.mktemp("o") / "a.json"
    odd = event(dims, types)
    odd["name"], odd["args"]["Concrete Inputs"] = "aten::convolution", types
    path.write_text(json.dumps({"traceEvents": [odd, event([[1]])]}))
    found = read_detail(path).operators
    assert len(found.kind) in (1, 2)
    for operator in found.kinds:
        assert all(0 <= size < 1 << 40 for shape in operator.shapes for size in shape)


def test_the_real_trace_has_its_products(shared_data: Path) -> None:
    found = read_detail(shared_data / "kineto" / "qwen_h100.json.gz").operators
    shapes = {kind.shapes[:2] for kind in found.kinds if kind.name == "aten::mm"}
    assert ((8944, 1024), (1024, 2816)) in shapes


def kernel(**args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "ts": 1, "dur": 2, "args": args}


def test_the_message_of_a_collective_is_its_larger_side(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    event = kernel(
        **{
            "correlation": 7,
            "Collective name": "allgather",
            "Group size": 8,
            "dtype": "BFloat16",
            "In msg nelems": 10,
            "Out msg nelems": 80,
            "Process Group Name": "dp",
        }
    )
    path.write_text(
        json.dumps({"traceEvents": [event, kernel(correlation=8, grid=[4, 2], block=[32])]})
    )
    found = read_detail(path)
    assert found.messages.kinds == (Message("allgather", "dp", 8, 160),)
    assert list(found.messages.correlation) == [7]
    assert (list(found.grids.blocks), list(found.grids.threads)) == ([8], [32])


@given(json_values, json_values, json_values)
def test_arguments_of_kernels_of_any_form_are_taken_or_left(
    tmp_path_factory: Any, first: Any, second: Any, third: Any
) -> None:
    path = tmp_path_factory.mktemp("k") / "a.json"
    event = kernel(
        **{
            "correlation": first,
            "Collective name": second,
            "Group size": third,
            "In msg nelems": first,
            "grid": second,
            "block": third,
        }
    )
    path.write_text(json.dumps({"traceEvents": [event, kernel(correlation=1)]}))
    found = read_detail(path)
    assert all(message.bytes >= 0 for message in found.messages.kinds)


def test_kernels_of_one_graph_keep_their_own_grids_and_messages() -> None:
    """A graph launches all of its kernels under one correlation."""
    told = {"Collective name": "allreduce", "Group size": 2, "dtype": "Float"}
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": 5,
         "args": {"correlation": 3, "grid": [blocks, 1, 1], "block": [128, 1, 1], **args}}
        for name, ts, blocks, args in (
            ("a", 10, 4, {}),
            ("nccl", 20, 8, {**told, "In msg nelems": 100, "Out msg nelems": 100}),
            ("b", 30, 2, {}),
            ("nccl", 40, 9, {**told, "In msg nelems": 300, "Out msg nelems": 300}),
        )
    ]  # fmt: skip
    trace = read_kineto(iter([json.dumps(events).encode()]), "a.json")
    grids, messages = trace.detail.grids, trace.detail.messages
    assert grids.blocks[detail_rows(grids, trace.spans)].tolist() == [4, 8, 2, 9]
    rows = detail_rows(messages, trace.spans).tolist()
    assert [row == -1 for row in rows] == [True, False, True, False]
    assert [messages.kinds[messages.kind[row]].bytes for row in rows if row != -1] == [400, 1200]
