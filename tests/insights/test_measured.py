from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotlight.cli.main import main

SIZE = 4096
NAMES = ("void lib::gemm<float>(float*)", "vectorized_add")
FUNCTIONS = ("gemm", "vectorized_add")
HEAD = '"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"\n'


def kineto(path: Path) -> Path:
    """A product that an operator with shapes launches, and a kernel that none does."""
    host = {"ph": "X", "pid": 1, "tid": 1}
    shapes = {"Input Dims": [[SIZE, SIZE], [SIZE, SIZE]], "Input type": ["c10::BFloat16"] * 2}
    events: list[dict[str, Any]] = [
        {**host, "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 30, "args": shapes}
    ]
    for number, (name, begin) in enumerate(zip(NAMES, (10, 100), strict=True), 1):
        on_device = {"correlation": number, "grid": [32, 32, 1], "block": [256, 1, 1]}
        events += [
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin, "dur": 5,
             "args": {"correlation": number}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1000 * number,
             "dur": 500, "args": on_device},
        ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def ncu(path: Path, names: tuple[str, ...], metrics: dict[str, float], grid: int = 32) -> Path:
    rows = [
        f'"{number}","{name}","(256, 1, 1)","({grid}, 32, 1)","{metric}","","{value}"\n'
        for number, name in enumerate(names)
        for metric, value in metrics.items()
    ]
    path.write_text(HEAD + "".join(rows))
    return path


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    main(["roofline", *map(str, arguments), "--gpu", "H100-SXM", "--json"])
    found = json.loads(capsys.readouterr().out)
    return {row["operator"]: row for row in found["rows"]} | {"": found["measured_ratio"]}


@pytest.mark.parametrize("names", [NAMES, FUNCTIONS])
def test_what_ncu_measured_counts_instead_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
) -> None:
    trace = kineto(tmp_path / "a.json")
    modelled = rows_of(capsys, trace)
    assert modelled["aten::mm"]["flops"] == 2 * SIZE**3
    assert modelled["aten::mm"]["confidence"] == "high"
    assert modelled[""] == 0
    metrics = {"dram__bytes.sum": 3e8, "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 5e10}
    table = ncu(tmp_path / "a.csv", names, metrics)
    found = rows_of(capsys, trace, "--ncu", table)
    for operator in ("aten::mm", "vectorized_add"):
        row = found[operator]
        assert (row["flops"], row["bytes"], row["peak"]) == (5e10, 3e8, "bf16")
        assert row["confidence"] == "measured"
    assert found[""] == 1


def test_a_kernel_with_another_grid_keeps_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = kineto(tmp_path / "a.json")
    table = ncu(tmp_path / "a.csv", NAMES[1:], {"dram__bytes.sum": 3e8})
    found = rows_of(capsys, trace, "--ncu", table)
    assert found["aten::mm"]["confidence"] == "high"
    assert found["vectorized_add"]["confidence"] == "measured"
    assert found[""] == 0.5


@pytest.mark.parametrize(
    ("metrics", "grid", "text"),
    [
        ({"dram__bytes.sum": 1.0}, 31, "no kernel with name and grid of one in"),
        ({"sm__cycles_active.avg": 1.0}, 32, "no operations or bytes in it: ncu --metrics dram__"),
    ],
)
def test_a_table_of_no_use_is_refused_with_what_is_missing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    metrics: dict[str, float],
    grid: int,
    text: str,
) -> None:
    trace = kineto(tmp_path / "a.json")
    table = ncu(tmp_path / "a.csv", NAMES, metrics, grid)
    code = main(["roofline", str(trace), "--gpu", "H100-SXM", "--ncu", str(table)])
    assert code == 2
    assert f"a.csv: {text}" in capsys.readouterr().err
